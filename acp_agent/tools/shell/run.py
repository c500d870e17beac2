"""Runs shell commands on this machine if the editor does not offer a terminal.

A command inherits the agent's environment without the variables that the caller
excludes. Its stdin is empty, and it has no terminal.
"""

from __future__ import annotations

import codecs
import signal
from collections.abc import Awaitable, Callable, Collection, Sequence
from pathlib import Path
from typing import TypeAlias

import anyio

from acp_agent.errors import ToolError
from acp_agent.processes import Stream, environment_without, run_group
from acp_agent.tools.environment import CommandResult, OutputArrived, Report
from acp_agent.tools.path_errors import because, printable
from acp_agent.tools.shell.screen import ShownOutput

STREAM_LIMIT = 16_000
"""Maximum number of characters to keep of each stream (stdout, stderr), as a terminal
would show it. The middle of a longer output is dropped.
"""
_REPORT_SECONDS = 0.1
"""Minimum time between reports of output. A program that prints byte by byte would
otherwise flood the editor.
"""
REPORT_LIMIT = 1 << 16
"""Maximum number of bytes per report. If more arrived, the newest are reported."""
MISSING = "…\n"
"""Replaces text that was not reported."""
OnOutput: TypeAlias = Callable[[bytes, bool], Awaitable[None]]
"""Called with bytes that a command has printed, and whether bytes before these were not
reported.
"""


class LocalCommands:
    """Local process groups as a `CommandRunner`.

    Background processes are killed when the command ends. Without a sandbox, a process
    started with `setsid` survives.
    """

    async def run(
        self,
        argv: Sequence[str],
        cwd: Path,
        timeout: float,
        report: Report,
        *,
        shown: str,
        exclude: Collection[str] = (),
        try_out: Sequence[str] = (),
    ) -> CommandResult:
        """Run one command; see `CommandRunner.run`."""
        decoder = codecs.getincrementaldecoder("utf-8")("replace")

        async def printed(data: bytes, gap: bool) -> None:
            await report(OutputArrived(MISSING * gap + decoder.decode(data)))

        return await self.run_raw(
            argv, cwd, timeout, printed, lambda code, signal: None, exclude=exclude
        )

    async def run_raw(
        self,
        argv: Sequence[str],
        cwd: Path,
        timeout: float,
        on_output: OnOutput,
        on_end: Callable[[int | None, str | None], None],
        *,
        exclude: Collection[str] = (),
    ) -> CommandResult:
        """Run one command and report its output as bytes.

        :param on_end: called with the exit code and the signal, even on cancellation.
        """
        output = _Output()
        code: int | None = None
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(output.report, on_output)
                code = await run_group(
                    argv,
                    cwd,
                    timeout=timeout,
                    on_data=output.add,
                    env=environment_without(exclude),
                    on_end=lambda code: on_end(*_ending(code)),
                )
                output.finish()
        except ExceptionGroup as group:
            error = group.exceptions[0]
            if isinstance(error, OSError):
                place = printable(str(cwd))
                raise ToolError(
                    f"The command could not be started in {place}: {because(error)}."
                ) from error
            raise error from None  # `on_output` failed: raise its own exception
        return output.result(code)


class _Output:
    """A command's output: kept up to a limit, and reported while the command runs."""

    def __init__(self) -> None:
        decoder = codecs.getincrementaldecoder("utf-8")
        self._kept = {
            stream: ShownOutput(STREAM_LIMIT) for stream in ("stdout", "stderr")
        }
        self._decoders = {stream: decoder("replace") for stream in ("stdout", "stderr")}
        self._pending = bytearray()
        self._gap = False
        self._finished = anyio.Event()

    def add(self, stream: Stream, data: bytes) -> None:
        self._kept[stream].add(self._decoders[stream].decode(data))
        self._pending += data
        if len(self._pending) > REPORT_LIMIT:
            del self._pending[:-REPORT_LIMIT]
            self._gap = True

    def finish(self) -> None:
        for stream, decoder in self._decoders.items():
            self._kept[stream].add(decoder.decode(b"", final=True))
            self._kept[stream].finish()
        self._finished.set()

    async def report(self, on_output: OnOutput) -> None:
        while True:
            with anyio.move_on_after(_REPORT_SECONDS):
                await self._finished.wait()
            if self._pending:
                data = bytes(self._pending)
                gap = self._gap
                self._pending.clear()
                self._gap = False
                if gap:  # start at a line if one begins in the first half
                    data = data[data.find(b"\n", 0, len(data) // 2) + 1 :]
                await on_output(data, gap)
            elif self._finished.is_set():
                return

    def result(self, code: int | None) -> CommandResult:
        stdout = self._kept["stdout"]
        stderr = self._kept["stderr"]
        return CommandResult(
            stdout.text, stderr.text, *_ending(code), timed_out=code is None
        )


def _ending(code: int | None) -> tuple[int | None, str | None]:
    """Return the exit code and the signal of a process."""
    if code is None or code >= 0:
        return code, None
    try:
        return None, signal.Signals(-code).name
    except ValueError:
        return None, f"signal {-code}"
