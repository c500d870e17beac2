"""Slash commands: which are on offer, and what a prompt that begins with one means."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING

import anyio
from anyio import to_thread

from acp_agent.config import Settings
from acp_agent.conversation.messages import Audio, CompactedBlock, Image, Resource, ResourceLink, Text, UserPart
from acp_agent.errors import RecipeError
from acp_agent.frozen import frozen
from acp_agent.hooks.outcomes import SwapContext
from acp_agent.turn.host import TurnLimits
from acp_agent.turn.updates import Command

if TYPE_CHECKING:
    from acp_agent.recipes.discovery import RecipeLibrary
    from acp_agent.recipes.model import Recipe, RequiredHooks, Surroundings

RENDER_SECONDS = 5.0
COMMAND_SECONDS = 10.0
"""For all commands of a recipe's text."""
SWAP_CONTEXT = "swap_context"
COMPACT = "compact"
"""Name of the recipe that automatic compaction runs, too."""
REQUIRED_HOOKS: RequiredHooks = {COMPACT: ("turn_end", SWAP_CONTEXT)}
"""Without it, an override of that recipe would leave a full context as it is."""

BUILT_IN = (
    Command("context", "Show what fills the context window, in tokens"),
    Command("export", "Write the whole conversation into a Markdown file of the project", "path"),
    Command("help", "List the commands and the recipes with what may follow them"),
    Command("model", "Show which model is used, or change it", "provider/model"),
    Command("pin", "Keep a text word for word through every compaction; alone, list what is pinned", "text"),
    Command("undo", "Take back what the last turn that changed files has changed in them"),
    Command("unpin", "Take a pinned text back", "number"),
)
"""Commands that are no recipes."""
REPORTS = ("preview", "status")
"""Words behind `/compact` that change nothing, not even the log."""
UNDO = "undo"
PREVIEW = REPORTS[0]
"""The one of these words that instructions may follow."""

_OPENING, _CLOSING = "=([{<\"'`", ".,;:!?)]}>\"'`"
_COMMAND = re.compile(r"/(?P<name>[a-z0-9][a-z0-9_-]*(?:[:/][a-z0-9][a-z0-9_-]*)*)(?:\s+(?P<rest>.*))?\s*\Z", re.DOTALL)


@frozen
class RecipeRun:
    """A prompt that names a recipe.

    :ivar instructions: what followed the name and the arguments, mentions included, as text.
    :ivar attachments: the prompt's other parts, those in front included.
    :ivar arguments: values that were given, by name.
    """

    recipe: Recipe
    instructions: str
    attachments: tuple[UserPart, ...]
    arguments: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def compacts(self) -> bool:
        """Whether the recipe's answer takes the place of the conversation."""
        return self.recipe.handler(SWAP_CONTEXT) is not None

    @property
    def swap(self) -> SwapContext:
        """How the recipe wants its answer to take that place; the answer is still missing."""
        from acp_agent.hooks.handlers import swap_context

        handler = self.recipe.handler(SWAP_CONTEXT)
        return swap_context({} if handler is None else handler.params)

    async def rendered(self, seconds: float = RENDER_SECONDS, *, around: Surroundings | None = None) -> str:
        """The recipe's text for the model. A template, which may be a stranger's, can make work for minutes without any
        text, so that it is rendered beside everything else and given up after a while.

        :param seconds: for the template; its commands have a limit of their own on top.
        :param around: see `render`; its commands end with this call.
        :raises RecipeError: an argument is missing, the template cannot be rendered, or it takes too long.
        """
        try:
            with anyio.move_on_after(seconds + (COMMAND_SECONDS if around else 0)):
                return await to_thread.run_sync(self.render, around, abandon_on_cancel=True)
        finally:
            if around is not None:
                around.close()
        message = f"was not rendered within {seconds:g} seconds; make its template simpler"
        raise RecipeError(message, source=str(self.recipe.source))

    def render(self, around: Surroundings | None = None) -> str:
        """The recipe's text for the model.

        :param around: what its template may ask for beside its arguments.
        :raises RecipeError: an argument is missing, or the template cannot be rendered.
        """
        from acp_agent.recipes.template import render

        return render(self.recipe, self.arguments, self.instructions, around)


def recipe_run(library: RecipeLibrary, parts: tuple[UserPart, ...]) -> RecipeRun | None:
    """The recipe that a prompt names; None for ordinary text.

    The name counts only at the beginning of the text; see `first_text`. A word that names no recipe is ordinary text.

    :raises RecipeError: it may not run, since a project brought it and nobody has allowed that.
    """
    words = command_words(parts)
    recipe = library.get(words[0]) if words else None
    if words is None or recipe is None:
        if words is not None and (held := library.known.get(words[0].replace(":", "/"))) is not None:
            raise _untrusted(held)
        return None
    from acp_agent.recipes.arguments import split_arguments

    before, behind = around_command(parts)
    arguments, instructions = split_arguments(recipe, words[1] + mentioned(behind, words[1]))
    return RecipeRun(recipe, instructions, (*before, *behind), arguments)


def _untrusted(recipe: Recipe) -> RecipeError:
    import shlex

    from acp_agent.config.brought import project_of

    project = shlex.quote(str(project_of(recipe.source) or recipe.source.parent))
    return RecipeError(
        "this recipe came with a project whose hooks and recipes you have not allowed to run. "
        f"`acp-agent trust {project}` in a terminal allows them; then send this again.",
        source=str(recipe.source),
    )


def command_words(parts: tuple[UserPart, ...]) -> tuple[str, str] | None:
    """The name behind the slash that a prompt's text begins with, and what follows it; None for ordinary text."""
    match = _COMMAND.match(first_text(parts))
    return (match["name"], match["rest"] or "") if match else None


def first_text(parts: tuple[UserPart, ...]) -> str:
    """The text that may be a command: the first that is not blank, whatever an editor has put in front of it.

    A blank at its beginning is how a person writes what is no command. Behind a mention it is what separates the two:
    editors split a text around mentions, and trim its ends alone.
    """
    behind = False
    for part in parts:
        if not isinstance(part, Text):
            behind = True
        elif part.text.strip():
            return part.text.lstrip() if behind else part.text
    return ""


def around_command(parts: tuple[UserPart, ...]) -> tuple[tuple[UserPart, ...], tuple[UserPart, ...]]:
    """What stands in front of the text that is a command, without blanks, and what stands behind it."""
    at = next(at for at, part in enumerate(parts) if isinstance(part, Text) and part.text.strip())
    return tuple(part for part in parts[:at] if not isinstance(part, Text)), parts[at + 1 :]


def unused_by_compaction(parts: tuple[UserPart, ...]) -> tuple[str, ...]:
    """What a prompt that compacts has beside the words that say how: each as people call it."""
    before, behind = around_command(parts)
    pictures = (part for part in behind if isinstance(part, Image | Audio))
    return tuple(_called(part) for part in (*before, *pictures))


def compaction_word(run: RecipeRun) -> tuple[str, str]:
    """The word behind `/compact` that compacts nothing, and what follows it; the word is empty where there is none.
    Behind another recipe that compacts, such a word is an instruction."""
    word, *rest = run.instructions.split(maxsplit=1) or [""]
    known = word in (*REPORTS, UNDO) and run.recipe.name == COMPACT
    return (word, "".join(rest).strip()) if known else ("", run.instructions)


def mentioned(parts: tuple[UserPart, ...], before: str = "") -> str:
    """What stands in a prompt's further parts, as text: editors send each mention of a file as a part of its own.

    Words of two parts do not become one.

    :param before: the text that they stand behind.
    """
    text = before
    for more in filter(None, map(_as_text, parts)):
        apart = text and not text[-1].isspace() and text[-1] not in _OPENING and not more[0].isspace()
        text += f" {more}" if apart and more[0] not in _CLOSING else more
    return text[len(before) :]


def builtin_command(parts: tuple[UserPart, ...]) -> tuple[str, str] | None:
    """The name and the rest of a prompt that names one of `BUILT_IN`."""
    words = command_words(parts)
    if words is None or words[0] not in {command.name for command in BUILT_IN}:
        return None
    return words[0], words[1] + mentioned(around_command(parts)[1], words[1])


def turn_limits(settings: Settings, run: RecipeRun | None) -> TurnLimits:
    """What bounds a turn: the settings, and the recipe that it runs."""
    tools = run.recipe.allowed_tools if run else None
    return TurnLimits(
        max_requests=settings.max_turn_requests,
        max_cost=settings.max_turn_cost,
        allowed_tools=None if tools is None else frozenset(tools),
        allowed_commands=run.recipe.allowed_commands if run else None,
    )


def commands(library: RecipeLibrary) -> tuple[Command, ...]:
    """What the editor offers behind a slash, of recipes."""
    return tuple(Command(recipe.command, recipe.description, hint_of(recipe)) for recipe in library.known.values())


def hint_of(recipe: Recipe) -> str:
    """What may follow a recipe's name."""
    if recipe.hint:
        return recipe.hint
    names = (f"{argument.name}=…" for argument in recipe.arguments)
    words = (
        (f"{PREVIEW} [instructions] | status | undo | instructions",) if recipe.name == COMPACT else ("instructions",)
    )
    return " ".join([*names, *words])


def _as_text(part: UserPart) -> str:
    match part:
        case Text():
            return part.text
        case ResourceLink() | Resource():
            return part.uri
        case Image() | Audio() | CompactedBlock():
            return ""


def _called(part: UserPart) -> str:
    match part:
        case Image(uri=uri):
            return uri or "an image"
        case Audio():
            return "a sound"
        case _:
            return _as_text(part)
