"""Shell commands in the editor's terminals.

ACP, "Terminals".
"""

from __future__ import annotations

import os
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

import anyio

from acp_agent.errors import ToolError
from acp_agent.jsonrpc.messages import PeerClosedError, RpcError
from acp_agent.protocol import JsonObject, methods, v1
from acp_agent.server.channel import Channel, Result
from acp_agent.shielding import finish_shielded
from acp_agent.tools.environment import CommandResult, Report, TerminalStarted

ANSWER_SECONDS = 10.0
"""An editor that does not answer about a terminal for so long has lost it."""
CLEAN_UP_SECONDS = 2.0
OUTPUT_BYTES = 1_000_000


class EditorTerminals:
    """`CommandRunner` through `terminal/*`. Both output streams come back as one, as a terminal shows them."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    async def run(
        self,
        command: str,
        cwd: Path,
        timeout: float,
        report: Report,
        *,
        exclude: Collection[str] = (),
    ) -> CommandResult:
        """Run one command line in a new terminal; however this ends, the terminal is released, which ends it."""
        created: list[JsonObject] = []
        try:
            await self._create(created, command, cwd, exclude)
            [terminal] = created
            await report(TerminalStarted(str(terminal["terminalId"])))
            return await self._wait(terminal, timeout)
        finally:
            for terminal in created:
                with anyio.move_on_after(CLEAN_UP_SECONDS, shield=True):
                    await self._end(methods.TERMINAL_RELEASE, terminal)

    async def _create(self, created: list[JsonObject], command: str, cwd: Path, exclude: Collection[str]) -> None:
        """Start the command. A cancel waits a moment for the answer: without the id the command could not be ended.

        :param created: gets the params that name the terminal, also where this is cancelled.
        """
        import shutil

        # The editor's environment may hold what the agent's does; a request can set a variable and not remove it.
        emptied = [name for name in sorted(exclude) if name in os.environ]
        params: JsonObject = {
            "command": shutil.which("bash") or "/bin/sh",
            "args": ["-c", command],
            "cwd": str(cwd),
            "outputByteLimit": OUTPUT_BYTES,
        }
        if emptied:
            params["env"] = [{"name": name, "value": ""} for name in emptied]

        async def ask() -> None:
            answer = await self._request(methods.TERMINAL_CREATE, params, v1.CreateTerminalResponse)
            created.append({"terminalId": answer.terminal_id})

        await finish_shielded(ask, CLEAN_UP_SECONDS)

    async def _wait(self, terminal: JsonObject, timeout: float) -> CommandResult:
        timed_out = False
        exit_code: int | None = None
        signal: str | None = None
        try:
            exited = await self._channel.request(
                methods.TERMINAL_WAIT_FOR_EXIT, terminal, v1.WaitForTerminalExitResponse, timeout=timeout
            )
            exit_code, signal = exited.exit_code, exited.signal
        except TimeoutError:
            timed_out = True
            await self._end(methods.TERMINAL_KILL, terminal)
        except RpcError as error:
            raise _failure(methods.TERMINAL_WAIT_FOR_EXIT, error) from error
        output = await self._request(methods.TERMINAL_OUTPUT, terminal, v1.TerminalOutputResponse)
        return CommandResult(output.output, "", exit_code, signal, timed_out=timed_out, merged=True)

    async def _end(self, method: str, terminal: JsonObject) -> None:
        """Kill the command, which some editors cannot, or release the terminal, which they may have forgotten."""
        with suppress(RpcError, TimeoutError, PeerClosedError):
            await self._channel.ask(method, terminal, timeout=ANSWER_SECONDS)

    async def _request(self, method: str, params: JsonObject, result: type[Result]) -> Result:
        try:
            return await self._channel.request(method, params, result, timeout=ANSWER_SECONDS)
        except RpcError as error:
            raise _failure(method, error) from error
        except TimeoutError as error:
            raise ToolError(f"The editor did not answer to {method} within {ANSWER_SECONDS:.0f} s.") from error


def _failure(method: str, error: RpcError) -> ToolError:
    return ToolError(f"The editor's terminal failed ({method}): {error.message}")
