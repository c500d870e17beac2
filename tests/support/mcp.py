"""MCP servers for the agent to use: small programs, and the official SDK's over HTTP.

    server = mcp_program(tmp_path, "files", tools=[tool("look")], results={"look": says("Here.")})
    async with stage(tmp_path, …, mcp=[server.entry]) as it:
        await ready(it, "files")                        # its tools are there
        assert server.calls() == [{"name": "look", "arguments": {}}]

    async with sdk_server(mcp, "sse") as url: ...       # an `MCPServer` of the SDK on
    the loopback interface

What they do is in `mcp_script`.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import anyio

from support.stage import Stage
from support.stored import log_file_with
from support.waiting import write_pipe

if TYPE_CHECKING:
    from mcp.server.mcpserver import MCPServer

SCRIPT = Path(__file__).with_name("mcp_script.py")
_POLL_SECONDS = 0.02


@dataclass(frozen=True, slots=True)
class McpProgram:
    """A server that is a program.

    :ivar entry: as an editor names it in `mcpServers`.
    """

    name: str
    plan: Path

    @property
    def entry(self) -> dict[str, Any]:
        """As an editor names it in `mcpServers`."""
        return {
            "name": self.name,
            "command": sys.executable,
            "args": ["-I", "-S", str(SCRIPT), str(self.plan)],
            "env": [{"name": "MCP_MARK", "value": "its-own-value"}],
        }

    @property
    def configured(self) -> dict[str, Any]:
        return {
            "command": sys.executable,
            "args": ["-I", "-S", str(SCRIPT), str(self.plan)],
        }

    def notes(self) -> list[dict[str, Any]]:
        notes = self.plan.with_suffix(".notes")
        return (
            [json.loads(line) for line in notes.read_text().splitlines()]
            if notes.exists()
            else []
        )

    def pids(self) -> list[int]:
        return [note["started"] for note in self.notes() if "started" in note]

    def calls(self) -> list[dict[str, Any]]:
        params = [
            note["params"] for note in self.notes() if note.get("got") == "tools/call"
        ]
        return [
            {"name": each["name"], "arguments": each["arguments"]} for each in params
        ]

    async def go(self) -> None:
        await write_pipe(self.plan.with_suffix(".go"))

    async def noted(self, method: str | None, times: int = 1) -> None:
        """Wait until it has got a message, or an answer where no method is named."""
        with anyio.fail_after(20):
            while True:
                got = [note for note in self.notes() if note.get("got") == method]
                if len(got) >= times:
                    return
                await anyio.sleep(_POLL_SECONDS)


def mcp_program(folder: Path, name: str, **plan: Any) -> McpProgram:
    """Write a server down. What stands in a plan is said in `mcp_script`."""
    file = folder / f"mcp-{name.replace('/', '-')}.json"
    file.write_text(json.dumps(plan))
    if plan.get("slow"):
        os.mkfifo(file.with_suffix(".go"))
    return McpProgram(name, file)


def tool(name: str, **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "description": f"Does {name}.",
        "inputSchema": {"type": "object"},
        **more,
    }


def says(*texts: str, **more: Any) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text} for text in texts], **more}


async def logged(it: Stage, text: str) -> str:
    return await log_file_with(it.home, text)


async def ready(it: Stage, name: str) -> None:
    await logged(it, f"MCP server {name} is ready")


@asynccontextmanager
async def sdk_server(
    server: MCPServer, transport: Literal["http", "sse"]
) -> AsyncGenerator[str]:
    """Serve it on the loopback interface; its address."""
    import uvicorn

    app = server.sse_app() if transport == "sse" else server.streamable_http_app()
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    config = uvicorn.Config(
        app, log_config=None, lifespan="on", timeout_graceful_shutdown=1
    )
    web = uvicorn.Server(config)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(web.serve, [listener])
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}/{'sse' if transport == 'sse' else 'mcp'}"
        finally:
            web.should_exit = True
    listener.close()
