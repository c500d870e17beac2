"""Running a sub-command: its event loop, its errors as sentences, its exit status; and the terminal as a client."""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import cast

import anyio
import anyio.to_thread

from acp_agent.app import start_logging_at_home
from acp_agent.conversation.events import CallView
from acp_agent.conversation.messages import JsonObject
from acp_agent.errors import AgentError
from acp_agent.logfile import log_failure, log_file
from acp_agent.session.client import TrustQuestion
from acp_agent.session.trusting import advice
from acp_agent.tools.environment import CommandRunner, FileAccess
from acp_agent.tools.local_commands import LocalCommands
from acp_agent.tools.local_files import LocalFiles
from acp_agent.turn.permission import Answer
from acp_agent.turn.updates import (
    AgentSaid,
    CallFinished,
    CallStarted,
    CompactionChunk,
    CompactionFinished,
    CompactionStarted,
    Notice,
    PlanUpdated,
    Update,
)

_log = logging.getLogger(__name__)


def run_command(arguments: argparse.Namespace) -> int:
    """Run the command that was parsed.

    :returns: the exit status: 0, 1 where it failed, 128 and the signal's number after ctrl-c, `kill` or a closed
        terminal.
    """
    command = _command(arguments.command)
    stop = StopSignal()
    try:
        status = anyio.run(_until_stopped, partial(command, arguments), stop)
        if sys.stdout is not None:
            sys.stdout.flush()  # a full disk is told of here at the latest
        if status is not None:
            return status
    except KeyboardInterrupt:
        pass
    except Exception as error:
        _complain(_sentence(error))
        return 1
    _complain("interrupted. What was done is in the session.")
    return stop.status


class StopSignal:
    """Waits for ctrl-c, `kill` or a closed terminal.

    :ivar status: the exit status of a process that was stopped like that, as shells have it.
    """

    def __init__(self) -> None:
        self.status = 128 + signal.SIGINT

    async def cancels(self, scope: anyio.CancelScope) -> None:
        """Cancel this scope once a signal comes."""
        with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM, signal.SIGHUP) as signals:
            async for received in signals:
                self.status = 128 + received
                scope.cancel()
                return


async def _until_stopped(command: Callable[[], Awaitable[int]], stop: StopSignal) -> int | None:
    """Run it in a scope that a signal cancels, so that the commands of its session end with it; None where one did."""
    status: int | None = None
    failure: Exception | None = None
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(stop.cancels, tasks.cancel_scope)
        try:
            status = await command()
        except Exception as error:
            failure = error  # not through the task group, which would wrap it
        tasks.cancel_scope.cancel()
    if failure is not None:
        raise failure
    return status


def _sentence(error: Exception) -> str:
    """What to say of a failure; "" for nothing. The traceback of one that nobody foresaw goes to the log file.

    Task groups wrap whatever ends them; a person wants the sentence inside.
    """
    errors = [*_leaves(error)]
    if foreseen := next((one for one in errors if isinstance(one, AgentError)), None):
        return str(foreseen)
    if unforeseen := next((one for one in errors if isinstance(one, Exception) and not isinstance(one, OSError)), None):
        if log_file() is None:  # most commands have nothing else to log
            start_logging_at_home(os.environ)
        return log_failure(_log, "The command failed inside", unforeseen)
    _discard_output()
    if any(isinstance(one, BrokenPipeError) for one in errors):
        return ""  # `acp-agent … | head`: whoever read has seen enough
    first = errors[0]
    assert isinstance(first, OSError)
    return f"{first.filename or 'cannot read or write'}: {first.strerror or first}"


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for inner in cast("BaseExceptionGroup[BaseException]", error).exceptions:
            yield from _leaves(inner)
    else:
        yield error


def _discard_output() -> None:
    """Let what could not be written go nowhere, so that ending the process does not fail at it again."""
    if sys.stdout is not None:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)


def _complain(sentence: str) -> None:
    if sentence:
        with suppress(OSError):
            print(f"acp-agent: {sentence}", file=sys.stderr, flush=True)


def _command(name: str) -> Callable[[argparse.Namespace], Awaitable[int]]:
    if name == "sessions":
        from acp_agent.commands import sessions

        return sessions.run
    if name == "compact-eval":
        from acp_agent.commands import compact_eval

        return compact_eval.run
    if name == "hooks":
        from acp_agent.commands import hooks

        return hooks.run
    if name == "trust":
        from acp_agent.commands import trust

        return trust.run
    if name == "recipe":
        from acp_agent.commands import recipe

        return recipe.run
    if name == "schema":
        from acp_agent.commands import schema

        return schema.run
    if name == "demo":
        from acp_agent.commands import demo

        return demo.run
    from acp_agent.commands import run

    return run.run


class TerminalClient:
    """`SessionClient` for a person at a terminal. Answers go to stdout, everything around them to stderr.

    :ivar compaction_failed: a compaction that was asked for did not happen.
    """

    def __init__(self) -> None:
        self._files = LocalFiles()
        self._commands = LocalCommands()
        self._message = ""
        self._by_hand = False
        self.compaction_failed = False

    @property
    def files(self) -> FileAccess:
        """The disk."""
        return self._files

    @property
    def commands(self) -> CommandRunner:
        """Local processes."""
        return self._commands

    @property
    def shows_notices(self) -> bool:
        """It prints them."""
        return True

    async def show(self, update: Update) -> None:
        """Print what a person wants to read."""
        match update:
            case AgentSaid():
                self._say(update.message_id, update.text)
            case CompactionChunk():
                self._say(update.compaction_id, update.text)
            case CallStarted():
                self._aside(f"→ {update.view.title}")
            case CallFinished(status="failed"):
                self._aside(f"✗ {update.view.title}")
            case PlanUpdated():
                for entry in update.entries:
                    mark = {"completed": "✓", "in_progress": "▸"}.get(entry.status, "·")
                    self._aside(f"{mark} {entry.content}")
            case CompactionStarted():
                self._by_hand = update.trigger == "manual"
                self._aside("Compacting …")
            case CompactionFinished(status="failed"):
                self.compaction_failed = self._by_hand
                # Why one failed that was asked for, the turn itself says.
                self._aside("The compaction failed." if self._by_hand else f"The compaction failed. {update.error}")
            case Notice():
                self._aside(update.text)
            case _:
                pass

    async def ask_permission(
        self, call_id: str, name: str, view: CallView, arguments: JsonObject, subject: str
    ) -> Answer:
        """Ask at the terminal; without one, nothing that has to be asked for is allowed."""
        self._aside(f"? {view.title}")
        for diff in view.diffs:
            self._aside(f"  {diff.path}")
        if not sys.stdin.isatty():
            # The subject of an edit outside the project, or of what steers git or this agent, names the path as well.
            modes = "accept-edits or full-access" if subject == "edit" else "full-access"
            self._aside(f"  Not allowed: nobody is here to ask. Allow it with --mode {modes}.")
            return "reject_once"
        answer = await anyio.to_thread.run_sync(input, "  Allow? [y]es, [a]lways, [n]o: ", abandon_on_cancel=True)
        choices: dict[str, Answer] = {"y": "allow_once", "a": "allow_always"}
        return choices.get(answer.strip().lower()[:1], "reject_once")

    async def ask_trust(self, question: TrustQuestion) -> Answer:
        """Ask at the terminal; without one, say how to allow it."""
        self._aside(f"? {question.view.title}")
        for project in question.projects:
            self._aside(f"  {project}")
        if not sys.stdin.isatty():
            self._aside(f"  Not allowed: nobody is here to ask. {advice(question.projects)}")
            return "reject_once"
        self._aside(question.text)
        answer = await anyio.to_thread.run_sync(
            input,
            "  Trust it? [a]lways, until something in it changes; for this [s]ession; [n]o: ",
            abandon_on_cancel=True,
        )
        choices: dict[str, Answer] = {"a": "allow_always", "s": "allow_once"}
        return choices.get(answer.strip().lower()[:1], "reject_once")

    def end(self) -> None:
        """Finish the last line."""
        if self._message:
            print(flush=True)
            self._message = ""

    def _say(self, message_id: str, text: str) -> None:
        if self._message and self._message != message_id:
            print("\n")
        self._message = message_id
        print(text, end="", flush=True)

    def _aside(self, text: str) -> None:
        self.end()
        print(text, file=sys.stderr, flush=True)
