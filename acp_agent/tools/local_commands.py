"""Shell commands on this machine, where no editor lends its terminal.

Owns the choice of the shell and what is kept of the output. A command gets the agent's environment without what the
caller excludes. It reads nothing from stdin and has no terminal.
"""

from __future__ import annotations

import codecs
import signal
from collections.abc import Awaitable, Callable, Collection, Coroutine
from functools import partial
from pathlib import Path
from typing import Generic, Protocol, TypeVar

import anyio

from acp_agent.errors import ToolError
from acp_agent.frozen import frozen
from acp_agent.processes import Stream, environment_without, run_group
from acp_agent.tools.environment import CommandResult
from acp_agent.tools.paths import because, printable
from acp_agent.tools.text import HeadAndTail

STREAM_LIMIT = 16_000
"""Characters kept of stdout, and as many of stderr: the beginning and the end."""
REPORT_SECONDS = 0.1
"""Output is passed on at most this often; a program that prints by the byte would flood the editor."""
REPORT_LIMIT = 20_000
"""Characters passed on at once: the newest, where more has come."""
MISSING = "…\n"
"""Stands for what was not passed on as a text."""
WHOLE_BYTES = 1 << 20
"""So many bytes of a command are all passed on, however fast they come."""
RETAINED_BYTES = 1 << 16
"""Passed on at once of a command that has printed more: the newest, where more has come."""

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


@frozen
class Printed:
    """Bytes that a command has printed.

    :ivar gap: whether bytes before these were not passed on.
    """

    data: bytes
    gap: bool = False


@frozen
class Ending:
    """How a command ended, as far as that is known.

    :ivar signal: such as `SIGTERM`.
    """

    exit_code: int | None
    signal: str | None


class LocalCommands:
    """Local process groups as a `CommandRunner`.

    Commands are run by bash where there is one, since that is what models and users write for, else by sh. Processes
    left in the background end with the command; one that is to stay must be started with `setsid`.
    """

    def __init__(self) -> None:
        self._shell = ""

    async def run(
        self,
        command: str,
        cwd: Path,
        timeout: float,
        on_start: Callable[[str], Awaitable[None]],
        on_output: Callable[[str], Awaitable[None]],
        *,
        exclude: Collection[str] = (),
    ) -> CommandResult:
        """Run one command line; see `CommandRunner.run`."""
        output = _Output(_Text())
        return await self._run(command, cwd, timeout, output, partial(output.report, on_output), exclude)

    async def run_raw(
        self,
        command: str,
        cwd: Path,
        timeout: float,
        on_output: Callable[[Printed], Awaitable[None]],
        on_end: Callable[[Ending], None],
        *,
        exclude: Collection[str] = (),
    ) -> CommandResult:
        """The same for who wants what it prints as the bytes that it prints, and how it ended also where this is
        cancelled."""
        output = _Output(_Bytes())
        report = partial(output.report, on_output)
        return await self._run(command, cwd, timeout, output, report, exclude, lambda code: on_end(_ending(code)))

    async def _run(
        self,
        command: str,
        cwd: Path,
        timeout: float,
        output: _Output[T],
        report: Callable[[], Coroutine[None, None, None]],
        exclude: Collection[str],
        on_end: Callable[[int | None], None] | None = None,
    ) -> CommandResult:
        if not self._shell:
            import shutil

            self._shell = shutil.which("bash") or "/bin/sh"
        code: int | None = None
        failure: Exception | None = None
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(report)
                try:
                    argv = (self._shell, "-c", command)
                    env = environment_without(exclude)
                    code = await run_group(argv, cwd, timeout=timeout, on_data=output.add, env=env, on_end=on_end)
                except (OSError, ValueError) as error:
                    failure = error
                output.finish()
        except ExceptionGroup as group:  # `on_output` failed; its caller knows its own exceptions
            raise group.exceptions[0] from None
        if isinstance(failure, OSError):
            place = printable(str(cwd))
            raise ToolError(f"The command could not be started in {place}: {because(failure)}.") from failure
        if failure:
            raise ToolError("The command holds a character that no command line can (NUL).") from failure
        return output.result(code)


class _Pending(Protocol[T_co]):
    """What was printed and is still to be passed on."""

    def add(self, data: bytes, text: str) -> None:
        """Both are the same, but for a character that is not whole yet."""
        ...

    def take(self) -> T_co | None:
        """What to pass on; None where that is nothing."""
        ...


class _Text:
    def __init__(self) -> None:
        self._text = ""

    def add(self, data: bytes, text: str) -> None:
        self._text += text
        if len(self._text) > REPORT_LIMIT:
            self._text = f"{MISSING}{self._text[len(MISSING) - REPORT_LIMIT :]}"

    def take(self) -> str | None:
        text, self._text = self._text, ""
        return text or None


class _Bytes:
    def __init__(self) -> None:
        self._data = bytearray()
        self._room = WHOLE_BYTES
        self._gap = False

    def add(self, data: bytes, text: str) -> None:
        self._room -= len(data)
        self._data += data
        if self._room < 0 and len(self._data) > RETAINED_BYTES:
            del self._data[:-RETAINED_BYTES]
            self._gap = True

    def take(self) -> Printed | None:
        if not self._data:
            return None
        data, gap = bytes(self._data), self._gap
        self._data.clear()
        self._gap = False
        # What begins within a line may begin within a character.
        return Printed(data[data.find(b"\n", 0, -1) + 1 :] if gap else data, gap)


class _Output(Generic[T]):
    """What a command printed: kept within bounds, and passed on while it runs.

    :param pending: what is to be passed on.
    """

    def __init__(self, pending: _Pending[T]) -> None:
        self._kept: dict[Stream, HeadAndTail] = {
            "stdout": HeadAndTail(STREAM_LIMIT),
            "stderr": HeadAndTail(STREAM_LIMIT),
        }
        decoder = codecs.getincrementaldecoder("utf-8")
        self._decoders: dict[Stream, codecs.IncrementalDecoder] = {
            "stdout": decoder("replace"),
            "stderr": decoder("replace"),
        }
        self._pending = pending
        self._changed = anyio.Event()
        self._finished = anyio.Event()

    def add(self, stream: Stream, data: bytes) -> None:
        self._add(stream, data, self._decoders[stream].decode(data))
        self._changed.set()

    def finish(self) -> None:
        for stream, decoder in self._decoders.items():
            self._add(stream, b"", decoder.decode(b"", final=True))
        self._finished.set()
        self._changed.set()

    async def report(self, on_output: Callable[[T], Awaitable[None]]) -> None:
        while True:
            await self._changed.wait()
            self._changed = anyio.Event()
            if (new := self._pending.take()) is not None:
                await on_output(new)
            elif self._finished.is_set():
                return
            with anyio.move_on_after(REPORT_SECONDS):
                await self._finished.wait()
            if self._finished.is_set():
                self._changed.set()

    def result(self, code: int | None) -> CommandResult:
        stdout, stderr = self._kept["stdout"], self._kept["stderr"]
        return CommandResult(
            stdout.text,
            stderr.text,
            exit_code=_ending(code).exit_code,
            signal=_ending(code).signal,
            timed_out=code is None,
            truncated=stdout.truncated or stderr.truncated,
        )

    def _add(self, stream: Stream, data: bytes, text: str) -> None:
        self._kept[stream].add(text)
        self._pending.add(data, text)


def _ending(code: int | None) -> Ending:
    if code is None:
        return Ending(None, None)
    return Ending(code, None) if code >= 0 else Ending(None, _signal_name(-code))


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
