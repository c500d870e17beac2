"""One MCP server as a session runs it, without the session."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio

from acp_agent.config.settings import McpServer
from acp_agent.errors import ToolError
from acp_agent.mcp.model import ServerOptions
from acp_agent.mcp.server import SessionServer
from acp_agent.tools.environment import Report
from support.mcp import McpProgram
from support.workspace import Workspace


async def nothing(progress: object) -> None:
    """Is told how far a call is."""


class Running:
    """A server as a session runs it; `seconds` is what a listing may take."""

    def __init__(self, program: McpProgram, folder: Path, seconds: float = 20) -> None:
        command, *args = program.configured["command"], *program.configured["args"]
        server = McpServer(program.name, "stdio", command, tuple(args), timeout=20)
        options = ServerOptions((folder,), os.environ, start_seconds=seconds)
        self.told: list[str] = []
        self._environment = Workspace(folder).environment
        self.server = SessionServer(
            server, program.name, options, self._tell, self._change
        )
        self._changed = anyio.Event()

    async def _tell(self, text: str) -> None:
        self.told.append(text)

    def _change(self) -> None:
        self._changed.set()

    @asynccontextmanager
    async def run(self) -> AsyncGenerator[SessionServer]:
        """Run it until the body ends."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self.server.run)
            with anyio.fail_after(30):
                await self.server.settled()
                yield self.server
            tasks.cancel_scope.cancel()

    async def until(self, *names: str) -> None:
        """Wait until these are its tools."""
        while [each.name for each in self.server.offer.tools] != [*names]:
            await self._changed.wait()
            self._changed = anyio.Event()

    async def call(self, name: str, report: Report = nothing) -> Any:
        """Call a tool; its texts, or why there are none."""
        try:
            answer = await self.server.ask(
                lambda there: there.call(name, {}, report, self._environment),
                "answer this call",
            )
        except ToolError as error:
            return str(error)
        return [block.text for block in answer.content if block.type == "text"]
