"""Shell commands in terminals of the agent's own, which the editor only shows.

Owns what the editor is told of a command: that it runs, what it prints, how it ended; and its cancelling. What it
prints comes as bytes of its own, so that it is not a part of the tool call; where that is more than an editor should
be sent, the newest takes the place of all that was shown.

ACP v2, "Tool Calls", "Display-only Terminals" and "Cancelling Terminals".
"""

from __future__ import annotations

import codecs
from collections.abc import Awaitable, Callable, Collection
from pathlib import Path

import anyio

from acp_agent.conversation.messages import new_id
from acp_agent.protocol import JsonObject
from acp_agent.protocol.v2 import updates
from acp_agent.tools.environment import CommandResult
from acp_agent.tools.local_commands import MISSING, STREAM_LIMIT, Ending, LocalCommands, Printed
from acp_agent.tools.text import HeadAndTail

TELL_SECONDS = 2.0
"""How long the end of a command that is being cancelled may take to be told."""
CHUNK = 1 << 16
"""Bytes of output that go into one line."""


class ShownCommands:
    """`CommandRunner` with local processes, each in a terminal that the editor shows.

    :param send: sends an update of the session.
    """

    def __init__(self, send: Callable[[JsonObject], Awaitable[None]]) -> None:
        self._send = send
        self._local = LocalCommands()
        self._running: dict[str, anyio.CancelScope] = {}

    def cancel(self, terminal_id: str) -> bool:
        """End a command, which is told when it has ended.

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
        on_start: Callable[[str], Awaitable[None]],
        on_output: Callable[[str], Awaitable[None]],
        *,
        exclude: Collection[str] = (),
    ) -> CommandResult:
        """Run one command line; see `CommandRunner.run`."""
        terminal_id = new_id("term")
        await self._send(
            updates.terminal_update(terminal_id, command=command, cwd=str(cwd), capabilities=updates.CANCEL)
        )
        ending = Ending(None, None)
        kept = HeadAndTail(STREAM_LIMIT)
        decoder = codecs.getincrementaldecoder("utf-8")("replace")

        async def printed(output: Printed) -> None:
            data = output.data
            kept.add((MISSING if output.gap else "") + decoder.decode(data))
            if output.gap:  # what is shown begins anew, with what is there of it
                data, begin = data[CHUNK:], data[:CHUNK]
                await self._send(updates.terminal_update(terminal_id, output=begin))
            for index in range(0, len(data), CHUNK):
                await self._send(updates.terminal_output_chunk(terminal_id, data[index : index + CHUNK]))

        def ended(how: Ending) -> None:
            nonlocal ending
            ending = how

        try:
            await on_start(terminal_id)
            with anyio.CancelScope() as scope:
                self._running[terminal_id] = scope
                return await self._local.run_raw(command, cwd, timeout, printed, ended, exclude=exclude)
            return CommandResult(
                kept.text,
                "",
                ending.exit_code,
                ending.signal,
                truncated=kept.truncated,
                merged=True,
                ended_by_user=True,
            )
        finally:
            self._running.pop(terminal_id, None)
            with anyio.move_on_after(TELL_SECONDS, shield=True):
                status = updates.exit_status(ending.exit_code, ending.signal)
                await self._send(updates.terminal_update(terminal_id, exit_status=status, capabilities=None))
