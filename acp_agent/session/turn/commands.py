"""Determines whether a prompt is a slash command, a recipe or an ordinary prompt."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial

from acp_agent.conversation.messages import UserPart
from acp_agent.errors import InvalidParamsError
from acp_agent.frozen import frozen
from acp_agent.recipes.arguments import missing_arguments
from acp_agent.session.client import ask_arguments
from acp_agent.session.commands import builtin_command, command_words
from acp_agent.session.compact.turn_compaction import TurnCompaction
from acp_agent.session.recipes.run import RecipeRun, recipe_run
from acp_agent.session.slash.context import only_reads, only_reports
from acp_agent.session.turn.parts import TurnParts


@frozen
class SlashCommand:
    """A slash command that runs without the model loop.

    :ivar read_only: whether the command changes nothing and is therefore not logged.
    :ivar execute: runs the command, and returns what to tell the user, if anything.
    :ivar recipe_run: the run of the command's recipe, if it has one.
    """

    read_only: bool
    execute: Callable[[], Awaitable[str]]
    recipe_run: RecipeRun | None = None


async def resolve(
    prompt: tuple[UserPart, ...], parts: TurnParts, compaction: TurnCompaction
) -> SlashCommand | RecipeRun | None:
    """Return the command or the recipe run that a prompt names; None for an ordinary
    prompt.

    :param compaction: the compactions of the prompt's turn.
    :raises AgentError: if the recipes cannot be read.
    """
    parts.recipes.wake()  # more recipes may be trusted by now
    if command_words(prompt) is None:
        return None  # return without waiting for the recipes
    run = recipe_run(await parts.recipes.library(), prompt)
    if run is None:
        return _builtin(prompt, parts)
    complete = await _complete(run, parts)
    if isinstance(complete, SlashCommand) or not complete.compacts:
        return complete
    if complete.report[0] or complete.mistyped_report:
        return SlashCommand(
            only_reports(complete), partial(parts.reports.run, complete)
        )
    return SlashCommand(
        read_only=False,
        execute=partial(compaction.compact_manually, complete),
        recipe_run=complete,
    )


def _builtin(prompt: tuple[UserPart, ...], parts: TurnParts) -> SlashCommand | None:
    named = builtin_command(prompt)
    if named is None:
        return None
    name, rest = named
    return SlashCommand(only_reads(name, rest), partial(parts.commands[name], rest))


async def _complete(run: RecipeRun, parts: TurnParts) -> RecipeRun | SlashCommand:
    """Ask for a run's missing arguments. Return the completed run, or a command that
    reports what is missing.
    """
    missing = missing_arguments(run.recipe, run.arguments)
    questions = parts.client.questions
    if not missing or questions.asks == "nothing":
        return run  # the client cannot ask the user; rendering reports the error
    names = [(each.name, each.description) for each in missing]
    try:
        values = await ask_arguments(questions, f"/{run.recipe.command}", names)
    except InvalidParamsError as error:
        return SlashCommand(
            read_only=False, execute=partial(_said, str(error)), recipe_run=run
        )
    return replace(run, arguments={**run.arguments, **values})


async def _said(text: str) -> str:
    return text
