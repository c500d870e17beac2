"""Shell commands in terminals of the agent's own, which the editor only shows.

The editor learns that a command runs, what it prints and how it ended, and may cancel it. What it prints comes as
bytes of the terminal, not as a part of the tool call; where that is more than an editor should be sent, the newest
takes the place of all that was shown.

ACP v2, "Tool Calls", "Display-only Terminals" and "Cancelling Terminals".
"""

from __future__ import annotations

import codecs
from base64 import b64encode
from collections.abc import Collection
from pathlib import Path

import anyio

from acp_agent.conversation.messages import new_id
from acp_agent.protocol import JsonValue
from acp_agent.protocol.updates import given
from acp_agent.server.channel import Channel
from acp_agent.server.v2.presenter import CANCEL
from acp_agent.tools.environment import CommandResult, Report, TerminalStarted
from acp_agent.tools.shell.run import MISSING, STREAM_LIMIT, LocalCommands
from acp_agent.tools.text import HeadAndTail

TELL_SECONDS = 2.0
"""How long the end of a command that is being cancelled may take to be told."""


class ShownCommands:
    """`CommandRunner` with local processes, each in a terminal that the editor shows."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._local = LocalCommands()
        self._running: dict[str, anyio.CancelScope] = {}

    def cancel(self, terminal_id: str) -> bool:
        """End a command; the editor learns when it has ended.

        :returns: False where none runs in this terminal.
        """
        scope = self._running.get(terminal_id)
        if scope is None:
            return False
        scope.cancel()
        return True

    async def run(
        self,
        command: str,
        cwd: Path,
        timeout: float,
        report: Report,
        *,
        exclude: Collection[str] = (),
    ) -> CommandResult:
        """Run one command line; see `CommandRunner.run`."""
        terminal_id = new_id("term")
        terminal = _Terminal(self._channel, terminal_id)
        await terminal.update(command=command, cwd=str(cwd), capabilities=CANCEL)
        try:
            await report(TerminalStarted(terminal_id))
            with anyio.CancelScope() as scope:
                self._running[terminal_id] = scope
                return await self._local.run_raw(command, cwd, timeout, terminal.print, terminal.end, exclude=exclude)
            return terminal.result()
        finally:
            self._running.pop(terminal_id, None)
            with anyio.move_on_after(TELL_SECONDS, shield=True):
                status = given(exitCode=terminal.exit_code, signal=terminal.signal)
                await terminal.update(exitStatus=status, capabilities=None)


class _Terminal:
    """What a command prints: shown to the editor, and kept for the model for the case that the user ends it.

    :ivar exit_code: of the command, as far as that is known; `signal` likewise.
    """

    def __init__(self, channel: Channel, terminal_id: str) -> None:
        self._channel = channel
        self._id = terminal_id
        self._kept = HeadAndTail(STREAM_LIMIT)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.exit_code: int | None = None
        self.signal: str | None = None

    async def update(self, **members: JsonValue) -> None:
        await self._channel.send({"sessionUpdate": "terminal_update", "terminalId": self._id, **members})

    async def print(self, data: bytes, gap: bool) -> None:
        self._kept.add((MISSING if gap else "") + self._decoder.decode(data))
        chunk = b64encode(data).decode()
        if gap:  # what is shown begins anew, with what is there of it
            await self.update(output={"data": chunk})
        else:
            await self._channel.send({"sessionUpdate": "terminal_output_chunk", "terminalId": self._id, "data": chunk})

    def end(self, exit_code: int | None, signal: str | None) -> None:
        self.exit_code, self.signal = exit_code, signal

    def result(self) -> CommandResult:
        """Return what came of a command that the user has ended."""
        return CommandResult(
            self._kept.text,
            "",
            self.exit_code,
            self.signal,
            merged=True,
            ended_by_user=True,
        )
