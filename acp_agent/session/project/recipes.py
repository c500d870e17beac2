"""The recipes of one session: read when they are needed, and again when a file has changed; and the run of one."""

from __future__ import annotations

import logging
import shlex
from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

from acp_agent.conversation.messages import UserPart
from acp_agent.conversation.updates import Command
from acp_agent.errors import RecipeError
from acp_agent.frozen import frozen
from acp_agent.hooks.outcomes import SwapContext
from acp_agent.llm.places import key_variables
from acp_agent.processes import environment_without
from acp_agent.session.notices import Notices
from acp_agent.session.project.commands import (
    COMMAND_SECONDS,
    COMPACT,
    PREVIEW,
    STATUS,
    SWAP_CONTEXT,
    UNDO,
    around_command,
    command_words,
    mentioned,
)
from acp_agent.session.project.trust import SessionTrust
from acp_agent.session.services import Services
from acp_agent.session.state import SessionState

if TYPE_CHECKING:
    from acp_agent.recipes.discovery import RecipeLibrary
    from acp_agent.recipes.model import Recipe, Surroundings

RENDER_SECONDS = 5.0

_log = logging.getLogger(__name__)


@frozen
class RecipeRun:
    """A prompt that names a recipe.

    :ivar instructions: what followed the name and the arguments, mentions included, as text.
    :ivar attachments: the prompt's other parts, those in front included.
    :ivar arguments: values that were given, by name.
    """

    recipe: Recipe
    instructions: str
    attachments: tuple[UserPart, ...] = ()
    arguments: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def compacts(self) -> bool:
        """Return whether the recipe's answer takes the place of the conversation."""
        return self.recipe.handler(SWAP_CONTEXT) is not None

    @property
    def swap(self) -> SwapContext:
        """Return how the recipe wants its answer to take that place; the answer is still missing."""
        from acp_agent.hooks.handlers import SwapContextHandler

        handler = self.recipe.handler(SWAP_CONTEXT)
        return SwapContextHandler.model_validate({} if handler is None else handler.params).swap()

    @property
    def report(self) -> tuple[str, str]:
        """Return the word behind `/compact` that compacts nothing, and what follows it; empty if there is none.

        Behind another recipe that compacts, such a word is an instruction.
        """
        word, *rest = self.instructions.split(maxsplit=1) or [""]
        known = word in (PREVIEW, STATUS, UNDO) and self.recipe.name == COMPACT
        return (word, "".join(rest).strip()) if known else ("", self.instructions)

    async def rendered(self, around: Surroundings | None = None, seconds: float = RENDER_SECONDS) -> str:
        """Return the recipe's text for the model.

        A template may be a stranger's and work for minutes without any text, so that it is rendered in a thread and
        given up after a while.

        :param around: what the template may ask for in addition to its arguments; its commands end with this call.
        :param seconds: for the template; its commands have a limit of their own on top.
        :raises RecipeError: an argument is missing, the template cannot be rendered, or it takes too long.
        """
        try:
            with anyio.move_on_after(seconds + (COMMAND_SECONDS if around else 0)):
                return await anyio.to_thread.run_sync(self.render, around, abandon_on_cancel=True)
        finally:
            if around is not None:
                around.close()
        message = f"was not rendered within {seconds:g} seconds; make its template simpler"
        raise RecipeError(message, source=str(self.recipe.source))

    def render(self, around: Surroundings | None = None) -> str:
        """Return the recipe's text for the model; call it in a thread.

        :raises RecipeError: an argument is missing, or the template cannot be rendered.
        """
        from acp_agent.recipes.template import render

        return render(self.recipe, self.arguments, self.instructions, around)


def recipe_run(library: RecipeLibrary, parts: tuple[UserPart, ...]) -> RecipeRun | None:
    """Return the run of the recipe that a prompt names; None for ordinary text, which unknown names are.

    :raises RecipeError: it may not run, since it is a project's and the user has not trusted it.
    """
    words = command_words(parts)
    if words is None:
        return None
    recipe = library.get(words[0])
    if recipe is None:
        if (untrusted := library.known.get(words[0].replace(":", "/"))) is not None:
            raise _untrusted(untrusted)
        return None
    from acp_agent.recipes.arguments import split_arguments

    before, behind = around_command(parts)
    declared = {argument.name for argument in recipe.arguments}
    arguments, instructions = split_arguments(
        f"the recipe `{recipe.name}`", declared, words[1] + mentioned(behind, words[1])
    )
    return RecipeRun(recipe, instructions, (*before, *behind), arguments)


def hint_of(recipe: Recipe) -> str:
    """Return what may follow a recipe's name."""
    if recipe.hint:
        return recipe.hint
    names = (f"{argument.name}=…" for argument in recipe.arguments)
    words = f"{PREVIEW} [instructions] | {STATUS} | {UNDO} | instructions" if recipe.name == COMPACT else "instructions"
    return " ".join([*names, words])


def commands(library: RecipeLibrary) -> tuple[Command, ...]:
    """Return the recipes as slash commands."""
    return tuple(Command(recipe.command, recipe.description, hint_of(recipe)) for recipe in library.known.values())


class SessionRecipes:
    """Keeps the recipes of one session as they are on the disk.

    :ivar due: is set when the list of commands may be another one.
    """

    def __init__(self, state: SessionState, services: Services, trust: SessionTrust, notices: Notices) -> None:
        self._state = state
        self._services = services
        self._trust = trust
        self._notices = notices
        self.due = anyio.Event()
        self._lock = anyio.Lock()
        self._library: RecipeLibrary | None = None
        self._version: object = None

    async def library(self) -> RecipeLibrary:
        """Return the recipes as they are now; the files are read again if one of them, the settings or what is trusted
        has changed."""
        async with self._lock:
            await self._trust.ensure_read()  # which reads the project's settings
            # Taken before the files are read, so that a change meanwhile gives another one.
            settings, cwd = self._state.settings, self._state.cwd
            signature = await anyio.to_thread.run_sync(
                self._services.recipe_signature, settings, cwd, abandon_on_cancel=True
            )
            version = signature, settings, self._trust.state
            if self._library is None or version != self._version:
                # The end of the process does not wait for it: it also imports YAML and Jinja2.
                self._library = await anyio.to_thread.run_sync(
                    self._services.library, settings, cwd, self._trust.trusted, abandon_on_cancel=True
                )
                self._version = version
                errors = (f"A recipe was left out. {error}" for error in self._library.errors)
                for message in (*errors, *settings.notices, *self._library.notices):
                    _log.warning("%s", message)
                    await self._notices.tell_once(message)
            return self._library

    def wake(self) -> None:
        """Set `due`, and replace it."""
        self.due.set()
        self.due = anyio.Event()

    async def render(self, run: RecipeRun) -> str:
        """Return a recipe's text for the model, whose commands inherit no keys of providers.

        :raises RecipeError: see `RecipeRun.rendered`.
        """
        from acp_agent.session.project.surroundings import CommandRunner, surroundings

        state = self._state
        runner = CommandRunner(str(state.cwd), env=environment_without(key_variables(state.settings)))
        return await run.rendered(surroundings(state.id, str(state.cwd), run.recipe, runner))

    async def compact_recipe(self) -> Recipe | None:
        """Return the recipe that automatic compaction runs."""
        return (await self.library()).get(COMPACT)


def _untrusted(recipe: Recipe) -> RecipeError:
    from acp_agent.config.trust import project_of

    project = shlex.quote(str(project_of(recipe.source) or recipe.source.parent))
    return RecipeError(
        "this recipe came with a project whose hooks and recipes you have not allowed to run. "
        f"`acp-agent trust {project}` in a terminal allows them; then send this again.",
        source=str(recipe.source),
    )
