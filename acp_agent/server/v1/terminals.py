"""Shell commands in the editor's terminals."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from pathlib import Path

import anyio

from acp_agent.errors import AgentError, ToolError
from acp_agent.jsonrpc.messages import PeerClosedError, RpcError
from acp_agent.protocol import JsonObject, JsonValue
from acp_agent.protocol.v1 import methods, requests
from acp_agent.server.v1.files import Asking
from acp_agent.shielding import to_its_end
from acp_agent.tools.environment import CommandResult

ANSWER_SECONDS = 10.0
"""An editor that does not answer about a terminal for so long has lost it."""
CLEAN_UP_SECONDS = 2.0
OUTPUT_BYTES = 1_000_000


@dataclass(slots=True)
class _Terminal:
    """`id` is empty until the editor has named it."""

    id: str = ""


class EditorTerminals:
    """`CommandRunner` through `terminal/*`. Both output streams come back as one, as a terminal shows them."""

    def __init__(self, peer: Asking, session_id: str) -> None:
        self._peer = peer
        self._session_id = session_id

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
        """Run one command line in a new terminal; however this ends, the terminal is released, which ends it."""
        terminal = _Terminal()
        try:
            await self._create(terminal, command, cwd, exclude)
            await on_start(terminal.id)
            return await self._wait(terminal.id, timeout)
        finally:
            if terminal.id:
                with anyio.move_on_after(CLEAN_UP_SECONDS, shield=True):
                    await self._release(terminal.id)

    async def _create(self, terminal: _Terminal, command: str, cwd: Path, exclude: Collection[str]) -> None:
        """Start the command. A cancel waits a moment for the answer: without the id nobody could end the command."""
        import shutil

        shell = shutil.which("bash") or "/bin/sh"
        # The editor's environment may hold what the agent's does; a request can set a variable and not remove it.
        env = {name: "" for name in sorted(exclude) if name in os.environ}
        params = requests.create_terminal(
            self._session_id, shell, args=("-c", command), env=env or None, cwd=str(cwd), output_byte_limit=OUTPUT_BYTES
        )

        async def ask() -> None:
            from acp_agent.protocol.v1 import CreateTerminalResponse
            from acp_agent.protocol.wire import parse_result

            created = await self._ask(methods.TERMINAL_CREATE, params)
            terminal.id = parse_result(CreateTerminalResponse, created, methods.TERMINAL_CREATE).terminal_id

        await to_its_end(ask, CLEAN_UP_SECONDS)

    async def _wait(self, terminal_id: str, timeout: float) -> CommandResult:
        from acp_agent.protocol.v1 import TerminalOutputResponse, WaitForTerminalExitResponse
        from acp_agent.protocol.wire import parse_result

        of_terminal = requests.terminal_request(self._session_id, terminal_id)
        timed_out = False
        exit_code: int | None = None
        signal: str | None = None
        try:
            answer = await self._ask(methods.TERMINAL_WAIT_FOR_EXIT, of_terminal, timeout)
            exited = parse_result(WaitForTerminalExitResponse, answer, methods.TERMINAL_WAIT_FOR_EXIT)
            exit_code, signal = exited.exit_code, exited.signal
        except TimeoutError:
            timed_out = True
            await self._kill(of_terminal)
        answer = await self._ask(methods.TERMINAL_OUTPUT, of_terminal)
        output = parse_result(TerminalOutputResponse, answer, methods.TERMINAL_OUTPUT)
        return CommandResult(
            output.output, "", exit_code, signal, timed_out=timed_out, truncated=output.truncated, merged=True
        )

    async def _kill(self, of_terminal: JsonObject) -> None:
        try:
            await self._ask(methods.TERMINAL_KILL, of_terminal)
        except AgentError:
            return  # some editors cannot; releasing the terminal ends the command as well

    async def _release(self, terminal_id: str) -> None:
        try:
            await self._ask(methods.TERMINAL_RELEASE, requests.terminal_request(self._session_id, terminal_id))
        except (AgentError, TimeoutError, PeerClosedError):
            return  # the editor has gone or forgotten the terminal; there is nothing left to end

    async def _ask(self, method: str, params: JsonObject, timeout: float = ANSWER_SECONDS) -> JsonValue:
        try:
            return await self._peer.request(method, params, timeout=timeout)
        except RpcError as error:
            raise ToolError(f"The editor's terminal failed ({method}): {error.message}") from error
        except TimeoutError as error:
            if method == methods.TERMINAL_WAIT_FOR_EXIT:
                raise
            raise ToolError(f"The editor did not answer to {method} within {timeout:.0f} s.") from error
