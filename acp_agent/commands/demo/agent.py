"""The agent as an editor has it: a subprocess, and the requests that are sent to it over its stdin and stdout.

Owns the process, from its start to its end. Shows nothing.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import anyio
import anyio.abc

from acp_agent import __version__
from acp_agent.commands.demo.scratch import Scratch
from acp_agent.errors import AgentError
from acp_agent.jsonrpc.messages import JsonObject, JsonValue, PeerClosedError, RpcError
from acp_agent.jsonrpc.peer import Peer
from acp_agent.jsonrpc.router import Router
from acp_agent.jsonrpc.stdio import ProcessTransport
from acp_agent.protocol.v1 import (
    PROTOCOL_VERSION,
    InitializeResponse,
    ListSessionsResponse,
    NewSessionResponse,
    PromptResponse,
    SessionInfo,
    content,
    methods,
)
from acp_agent.protocol.wire import parse_result

COMMAND = (sys.executable, "-m", "acp_agent")
PACKAGES = Path(__file__).parents[3]
"""Where `-m` finds the package, installed or not."""
REQUEST_SECONDS = 20.0
PROMPT_SECONDS = 900.0
EXIT_SECONDS = 3.0

CAPABILITIES: JsonObject = {
    "fs": {"readTextFile": True, "writeTextFile": True},
    "terminal": False,
    "session": {"compaction": {}},
}
"""What this client can do. Without terminals, the agent runs commands itself."""


class AgentProcess:
    """One run of the agent; made by `started`."""

    def __init__(self, process: anyio.abc.Process, peer: Peer, stderr_file: Path) -> None:
        self._process = process
        self._peer = peer
        self._stderr_file = stderr_file

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    async def initialize(self) -> InitializeResponse:
        """Say who this is, and hear who answers."""
        params: JsonObject = {
            "protocolVersion": PROTOCOL_VERSION,
            "clientCapabilities": CAPABILITIES,
            "clientInfo": {"name": "acp-agent-demo", "version": __version__},
        }
        return parse_result(InitializeResponse, await self._ask(methods.INITIALIZE, params), methods.INITIALIZE)

    async def new_session(self, cwd: Path) -> str:
        """Open a session.

        :returns: its id.
        """
        answer = await self._ask(methods.SESSION_NEW, {"cwd": str(cwd), "mcpServers": []})
        return parse_result(NewSessionResponse, answer, methods.SESSION_NEW).session_id

    async def resume(self, session_id: str, cwd: Path) -> None:
        """Open a stored session without a replay."""
        params: JsonObject = {"sessionId": session_id, "cwd": str(cwd), "mcpServers": []}
        await self._ask(methods.SESSION_RESUME, params)

    async def sessions(self, cwd: Path) -> list[SessionInfo]:
        """The stored sessions of a folder."""
        answer = await self._ask(methods.SESSION_LIST, {"cwd": str(cwd)})
        return parse_result(ListSessionsResponse, answer, methods.SESSION_LIST).sessions

    async def prompt(self, session_id: str, text: str) -> str:
        """Send a prompt, and wait for the end of its turn.

        :returns: the stop reason.
        """
        params: JsonObject = {"sessionId": session_id, "prompt": [content.text_content(text)]}
        answer = await self._ask(methods.SESSION_PROMPT, params, PROMPT_SECONDS)
        return parse_result(PromptResponse, answer, methods.SESSION_PROMPT).stop_reason

    async def kill(self) -> None:
        """End it as a crash would: it has no chance to save anything."""
        self._process.kill()
        await self._process.wait()

    async def leave(self) -> None:
        """End it as an editor does that quits: close its stdin, wait for a moment, and insist."""
        self._peer.close()
        with anyio.move_on_after(EXIT_SECONDS):
            await self._process.wait()
        if self._process.returncode is None:
            with suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()

    async def _ask(self, method: str, params: JsonObject, timeout: float = REQUEST_SECONDS) -> JsonValue:
        """Send a request.

        :raises AgentError: it was answered with an error, or not at all.
        """
        try:
            return await self._peer.request(method, params, timeout=timeout)
        except RpcError as error:
            raise AgentError(f"The agent answered {method} with an error ({error.code}): {error.message}") from error
        except PeerClosedError as error:
            raise AgentError(f"The agent ended before it answered {method}.{self._last_words()}") from error
        except TimeoutError as error:
            raise AgentError(f"The agent did not answer {method} within {timeout:.0f} s.") from error

    def _last_words(self) -> str:
        with suppress(OSError):
            lines = self._stderr_file.read_text("utf-8", "replace").strip().splitlines()
            if lines:
                return f" Its last words: {lines[-1]}"
        return ""


@asynccontextmanager
async def started(
    tasks: anyio.abc.TaskGroup, scratch: Scratch, env: Mapping[str, str], router: Router
) -> AsyncGenerator[AgentProcess]:
    """Start the agent, and end it with the block.

    :param tasks: runs the connection.
    :param env: all of its environment variables.
    :param router: what it can ask of this client.
    :raises AgentError: it cannot be started.
    """
    stderr = os.open(scratch.stderr_file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        # In a session of its own, so that ctrl-c reaches the demo alone, which then ends the agent.
        process = await anyio.open_process(
            COMMAND,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            cwd=PACKAGES,
            env=env,
            start_new_session=True,
        )
    except OSError as error:
        raise AgentError(f"The agent cannot be started with {COMMAND[0]}: {error.strerror or error}.") from error
    finally:
        os.close(stderr)
    peer = Peer(ProcessTransport(process), router)
    agent = AgentProcess(process, peer, scratch.stderr_file)
    tasks.start_soon(peer.run)
    try:
        yield agent
    finally:
        with anyio.CancelScope(shield=True):
            await agent.leave()
