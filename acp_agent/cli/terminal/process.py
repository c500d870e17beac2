"""Running a sub-command as a process: event loop, error messages, signals, exit status;
what it shows on stderr.
"""

from __future__ import annotations

import logging
import math
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, NoReturn, cast

import anyio
from anyio.abc import TaskStatus

from acp_agent.app import start_home_logging
from acp_agent.cli.terminal.streams import unfiltered
from acp_agent.errors import AgentError
from acp_agent.logfile import log_failure, log_file
from acp_agent.module_path import hidden_reason
from acp_agent.processes import kill_groups
from acp_agent.visible import harmless, on_one_line

if TYPE_CHECKING:
    from rich.status import Status

_PATIENCE_SECONDS = 2.0
"""How long an interrupted command may take to close before a second signal ends the
process.
"""

_log = logging.getLogger(__name__)


def run_command(command: Callable[[], Awaitable[int]]) -> NoReturn:
    """Run a command, and end the process: with 0, 1 where it failed, or after ctrl-c,
    `kill` or a closed terminal with 128 and the signal's number.
    """
    anyio.run(_run, command)
    raise AssertionError("the process has ended")


def aside(text: str) -> None:
    """Print a text on stderr: what a person wants to know around the command's output."""
    print(text, file=sys.stderr, flush=True)


class Activity:
    """A line on stderr that says what is waited for, where that is a terminal that can
    move its cursor.

    rich is loaded when something is shown first.
    """

    def __init__(self) -> None:
        self._shown: Status | None = None

    def busy(self, text: str) -> None:
        """Show it in the place of an earlier one. The cursor has to be at the beginning
        of a line.
        """
        self.idle()
        if sys.stderr.isatty() and os.environ.get("TERM") not in (None, "", "dumb"):
            from rich.console import Console
            from rich.text import Text

            self._shown = Console(file=unfiltered(sys.stderr)).status(
                Text(harmless(text), no_wrap=True, overflow="ellipsis")
            )
            self._shown.start()

    def idle(self) -> None:
        """Take it away, before anything else is printed."""
        if self._shown is not None:
            self._shown.stop()
            self._shown = None


async def _run(command: Callable[[], Awaitable[int]]) -> None:
    """Run a command in a scope that a signal cancels, so that the processes of its
    session end with it.

    The process ends here: the end of the event loop would wait for what a library left
    running in it.
    """
    status = 1
    received = list[int]()
    async with anyio.create_task_group() as tasks:
        with anyio.CancelScope() as scope:
            await tasks.start(_cancel_on_signal, scope, received)
            try:
                status = await command()
                sys.stdout.flush()  # fails here where the disk is full
            except Exception as error:
                status = 1
                complain(failure_sentence(error))
        if received:
            _end_interrupted(received[0])
        _end(status)


async def _cancel_on_signal(
    scope: anyio.CancelScope,
    received: list[int],
    *,
    task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
) -> None:
    """Cancel a scope once ctrl-c, `kill` or a closed terminal comes. Further signals
    change nothing, so that all is closed in order; where that takes long, the next one
    ends the process.
    """
    patience_ends = math.inf
    with anyio.open_signal_receiver(
        signal.SIGINT, signal.SIGTERM, signal.SIGHUP
    ) as signals:
        task_status.started()
        async for number in signals:
            received.append(number)
            if len(received) == 1:
                patience_ends = anyio.current_time() + _PATIENCE_SECONDS
                scope.cancel()
            elif anyio.current_time() > patience_ends:
                _end_interrupted(received[0])


def _end_interrupted(number: int) -> NoReturn:
    """End the process as shells expect it of one that was interrupted."""
    complain("interrupted.")
    _end(128 + number)


def _end(status: int) -> NoReturn:
    """End the process without waiting for threads: one may load an SDK, another wait
    for an answer to be typed.
    """
    kill_groups()
    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(status)


def failure_sentence(error: Exception) -> str:
    """Return the message for a failure; "" for none. The traceback of an unexpected one
    goes to the log file.

    Task groups wrap what ends them; a person wants the sentence inside. It is on one
    line, since a file's name in it may have a line end.
    """
    return on_one_line(_sentence(error))


def _sentence(error: Exception) -> str:
    while isinstance(error, ExceptionGroup):
        error = cast("ExceptionGroup[Exception]", error).exceptions[0]
    if isinstance(error, AgentError):
        return str(error)
    if isinstance(error, ModuleNotFoundError) and (reason := hidden_reason(error)):
        return reason
    if not isinstance(error, OSError):
        if log_file() is None:  # most commands have nothing else to log
            start_home_logging(os.environ)
        return log_failure(_log, "The command failed inside", error)
    if isinstance(error, BrokenPipeError):
        return ""  # `acp-agent … | head` has read enough
    if isinstance(error, FileNotFoundError) and error.filename is None:
        return "The current directory no longer exists. Change to another one."
    return f"{error.filename or 'cannot read or write'}: {error.strerror or error}"


def complain(sentence: str) -> None:
    """Print on one line of stderr what went wrong; nothing for ""."""
    if sentence:
        with suppress(OSError):
            print(f"acp-agent: {on_one_line(sentence)}", file=sys.stderr, flush=True)
