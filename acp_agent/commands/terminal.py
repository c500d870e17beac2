"""Running a sub-command: its event loop, its errors as sentences, its exit status."""

from __future__ import annotations

import argparse
import logging
import math
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from functools import partial
from importlib import import_module
from typing import NoReturn, cast

import anyio
from anyio.abc import TaskStatus

from acp_agent.app import start_logging_at_home
from acp_agent.errors import AgentError
from acp_agent.logfile import log_failure, log_file
from acp_agent.processes import kill_groups

_PATIENCE_SECONDS = 2.0
"""That somebody who has stopped a command is made to wait for its end, and does not repeat it in vain."""

_log = logging.getLogger(__name__)


def run_command(arguments: argparse.Namespace) -> NoReturn:
    """Run the command that was parsed, and end the process: with 0, 1 where it failed, or after ctrl-c, `kill` or a
    closed terminal with 128 and the signal's number."""
    command = _command(arguments.command)
    stop = StopSignal()
    before = signal.getsignal(signal.SIGINT)  # see `__main__`
    try:
        try:
            status = anyio.run(_until_stopped, partial(command, arguments), stop)
        finally:
            signal.signal(signal.SIGINT, before)  # nobody listens any more
        if sys.stdout is not None:
            sys.stdout.flush()  # a full disk is told of here at the latest
        _end(status)
    except KeyboardInterrupt:
        pass
    except Exception as error:
        _complain(_sentence(error))
        if not stop.came:
            _end(1)
        # A terminal that was closed takes no last words, and Python would end with a status of its own at that.
    _interrupted(stop)


def aside(text: str) -> None:
    """Print something for the person beside what the command prints: on stderr."""
    print(text, file=sys.stderr, flush=True)


def _interrupted(stop: StopSignal) -> NoReturn:
    _complain("interrupted.")
    _end(stop.status)


def _end(status: int) -> NoReturn:
    """End the process without waiting for threads: one may be loading an SDK, another still wait for an answer that
    somebody was to type. Nor is anything torn down, in which a ctrl-c would find nobody that minds it any more."""
    kill_groups()
    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(status)


class StopSignal:
    """Waits for ctrl-c, `kill` or a closed terminal.

    :ivar came: one has come.
    :ivar status: the exit status of a process that was stopped like that, as shells have it.
    """

    def __init__(self) -> None:
        self.came = False
        self.status = 128 + signal.SIGINT

    async def cancels(
        self, scope: anyio.CancelScope, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED
    ) -> None:
        """Cancel this scope once a signal comes. Until this is cancelled itself, others change nothing, so that what is
        being closed is closed in order; but where that takes long, the next one ends the process."""
        with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM, signal.SIGHUP) as signals:
            task_status.started()
            first = math.inf
            async for received in signals:
                if not self.came:
                    self.came, first = True, anyio.current_time()
                    self.status = 128 + received
                    scope.cancel()
                elif anyio.current_time() - first > _PATIENCE_SECONDS:
                    _interrupted(self)


async def _until_stopped(command: Callable[[], Awaitable[int]], stop: StopSignal) -> int:
    """Run it in a scope that a signal cancels, so that the commands of its session end with it. Where one did, the
    process ends here: the end of the event loop would wait for whatever a library has left running in it."""
    status: int | None = None
    failure: Exception | None = None
    async with anyio.create_task_group() as tasks:
        with anyio.CancelScope() as scope:
            await tasks.start(stop.cancels, scope)
            try:
                status = await command()
            except Exception as error:
                failure = error  # not through the task group, which would wrap it
        tasks.cancel_scope.cancel()
    if failure is not None:
        raise failure
    if status is None or stop.came:
        _interrupted(stop)
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
    """What runs a sub-command: `run` of the module of its name; `compact` is a prompt as well."""
    module = "run" if name == "compact" else name.replace("-", "_")
    run: Callable[[argparse.Namespace], Awaitable[int]] = import_module(f"acp_agent.commands.{module}").run
    return run
