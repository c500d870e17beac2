"""`TurnRunner`: runs one prompt, from its first event in the log to the last."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeAlias

from acp_agent.conversation.messages import UserPart, new_id
from acp_agent.errors import (
    CompactionError,
    CompactionVetoedError,
    ConfigError,
    InvalidParamsError,
    ModelAuthError,
    ToolError,
)
from acp_agent.frozen import frozen
from acp_agent.recipes.arguments import missing_arguments
from acp_agent.session.client import SessionClient, ask_arguments
from acp_agent.session.compact.control import SessionCompaction
from acp_agent.session.compact.idle import IdleSummaries
from acp_agent.session.mailbox import Mailbox, StopReason, Ticket
from acp_agent.session.project.commands import builtin_command, command_words, says_anything
from acp_agent.session.project.hooks import SessionHooks
from acp_agent.session.project.mcp import SessionMcp
from acp_agent.session.project.recipe_run import RecipeRun, recipe_run
from acp_agent.session.project.recipes import SessionRecipes
from acp_agent.session.project.settings import SessionOptions
from acp_agent.session.project.trust import SessionTrust
from acp_agent.session.slash.context import CompactReports, only_reads, only_reports
from acp_agent.session.turn.loop import TurnLoop
from acp_agent.session.turn.record import TurnRecord

BuiltinCommand: TypeAlias = Callable[[str], Awaitable[str]]
"""Runs a built-in command with the words after its name, and returns the answer."""


@frozen
class _Command:
    """A slash command that runs without the turn loop.

    :ivar read_only: whether the command changes nothing and is therefore not logged.
    :ivar execute: runs the command, and returns what to tell the user, if anything.
    :ivar recipe_run: the run of the command's recipe, if it has one.
    """

    read_only: bool
    execute: Callable[[], Awaitable[str]]
    recipe_run: RecipeRun | None = None


@dataclass(eq=False, slots=True)
class TurnSetup:
    """Refreshes trust, hooks, settings and MCP servers before a turn. Call the methods in the order of definition."""

    _options: SessionOptions
    _trust: SessionTrust
    _hooks: SessionHooks
    _mcp: SessionMcp
    _compaction: SessionCompaction

    async def ask_trust(self) -> bool:
        """Show what another process has changed, ask whether the project's code may run, and load its hooks.

        :returns: False if the user ended the turn instead of answering.
        """
        await self._options.show_missed()
        if not await self._trust.settle():
            return False
        await self._hooks.start()
        await self._hooks.renew()
        return True

    async def reload_settings(self) -> None:
        """Reload changed settings, and let the turn retry a compaction that failed or was vetoed.

        :raises AgentError: if the settings are invalid.
        """
        if await self._options.renew():
            self._compaction.background.drop()
        self._compaction.begin_turn()

    @asynccontextmanager
    async def recipe_applied(self, run: RecipeRun | None) -> AsyncGenerator[None]:
        """Update the tools of the MCP servers, and apply a recipe's model, mode and hooks during the body.

        :param run: the run of the recipe that the prompt names; None for an ordinary prompt.
        """
        await self._mcp.renew()
        async with self._options.of_recipe(run.recipe if run else None):
            with self._hooks.running(run):
                yield

    def expire(self) -> None:
        """Have the next turn read the settings again."""
        self._options.is_stale = True


@dataclass(eq=False, slots=True)
class PromptResolver:
    """Determines whether a prompt is a command, a recipe or an ordinary prompt."""

    _recipes: SessionRecipes
    _builtin: Mapping[str, BuiltinCommand]
    _reports: CompactReports
    _compaction: SessionCompaction
    _client: SessionClient

    async def resolve(self, parts: tuple[UserPart, ...]) -> _Command | RecipeRun | None:
        """Return the command or the recipe run that a prompt names; None for an ordinary prompt.

        :raises AgentError: if the recipes cannot be read.
        """
        self._recipes.wake()  # more recipes may be trusted by now
        if command_words(parts) is None:
            return None  # does not wait for the recipes
        run = recipe_run(await self._recipes.library(), parts)
        if run is None:
            name, rest = builtin_command(parts) or ("", "")
            return _Command(only_reads(name, rest), partial(self._builtin[name], rest)) if name else None
        complete = await self._complete(run)
        if isinstance(complete, _Command) or not complete.compacts:
            return complete
        if complete.report[0]:
            return _Command(only_reports(complete), partial(self._reports.run, complete))
        return _Command(read_only=False, execute=partial(self._compaction.by_hand, complete), recipe_run=complete)

    async def _complete(self, run: RecipeRun) -> RecipeRun | _Command:
        """Ask for a run's missing arguments. Return the completed run, or a command that reports what is missing."""
        missing, questions = missing_arguments(run.recipe, run.arguments), self._client.questions
        if not missing or questions.asks == "nothing":
            return run  # the client cannot ask; rendering reports the error
        names = [(each.name, each.description) for each in missing]
        try:
            values = await ask_arguments(questions, f"/{run.recipe.command}", names)
        except InvalidParamsError as error:
            return _Command(read_only=False, execute=partial(_said, str(error)), recipe_run=run)
        return replace(run, arguments={**run.arguments, **values})


@dataclass(eq=False, slots=True)
class TurnRunner:
    """Runs the turns of one session, one at a time.

    :ivar hooks: the session's hooks, also used when the session starts and ends.
    """

    hooks: SessionHooks
    _setup: TurnSetup
    _resolver: PromptResolver
    _loop: TurnLoop
    _record: TurnRecord
    _idle: IdleSummaries

    async def run(self, ticket: Ticket, mailbox: Mailbox) -> StopReason:
        """Run one prompt to its end. However it ends, every call in the log has a result afterwards.

        :param mailbox: holds the later prompts.
        :raises AgentError: if the prompt cannot be answered.
        """
        self._idle.end_pause()
        try:
            return await self._run(ticket, mailbox)
        finally:
            self._idle.begin_pause()

    async def _run(self, ticket: Ticket, mailbox: Mailbox) -> StopReason:
        record, parts = self._record, ticket.parts
        try:
            async with record.closed_on_failure():
                await record.recover()
                if not says_anything(parts):
                    return "end_turn"
                if not await self._setup.ask_trust():
                    await record.keep_cancelled(ticket)
                    return "cancelled"
                try:
                    await self._setup.reload_settings()
                    resolved = await self._resolver.resolve(parts)
                except Exception:
                    await record.log_prompt(ticket, ())
                    raise
                stop: StopReason = "end_turn"
                if not isinstance(resolved, _Command):
                    async with self._setup.recipe_applied(resolved):
                        stop = await self._loop.run(ticket, resolved, mailbox)
                else:
                    if resolved.read_only:
                        await record.show_accepted(ticket, new_id("msg"))
                    else:
                        await record.log_prompt(ticket, (), resolved.recipe_run)
                    try:
                        with self.hooks.running(resolved.recipe_run):
                            text, kind = await resolved.execute(), "answer"
                    except (InvalidParamsError, ToolError, CompactionError) as error:
                        text, kind = str(error), "veto" if isinstance(error, CompactionVetoedError) else "failure"
                    if text or resolved.read_only:
                        await record.note(text, kind, logged=not resolved.read_only)
        except (ModelAuthError, ConfigError):
            self._setup.expire()
            raise
        # Outside of the `async with`, since a failure there would close the turn once more.
        await record.close(stop)
        return stop


async def _said(text: str) -> str:
    return text
