"""All MCP servers of one session: started concurrently, awaited, closed together."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import anyio
from anyio.abc import TaskGroup

from acp_agent.config.settings import McpServer
from acp_agent.mcp.entry import ServerOptions
from acp_agent.mcp.server import CLOSE_SECONDS, SessionServer
from acp_agent.mcp.tools import McpTool, server_names


class SessionServers:
    """The servers of one session, in their order.

    :param tell: shows the user a sentence.
    :param changed: called when one of them offers something else than before.
    """

    def __init__(
        self,
        servers: Sequence[McpServer],
        options: ServerOptions,
        tell: Callable[[str], Awaitable[None]],
        changed: Callable[[], None],
    ) -> None:
        shorts = server_names([server.name for server in servers])
        self.all = tuple(
            SessionServer(server, short, options, tell, changed) for server, short in zip(servers, shorts, strict=True)
        )
        self._ended = anyio.Event()

    def start(self, tasks: TaskGroup) -> None:
        """Start all of them, side by side, in this task group."""
        tasks.start_soon(self._run)

    async def wait(self, seconds: float) -> tuple[SessionServer, ...]:
        """Wait for the first start of each.

        :returns: those that are still being started after that time.
        """
        with anyio.move_on_after(seconds):
            for server in self.all:
                await server.settled()
        return tuple(server for server in self.all if server.state == "starting")

    def revive(self) -> None:
        """Try again to start those that were given up."""
        for server in self.all:
            server.revive()

    @property
    def tools(self) -> tuple[McpTool, ...]:
        """The tools of all, also of those that are away for the moment."""
        return tuple(tool for server in self.all for tool in server.tools)

    async def aclose(self) -> None:
        """Let all of them end, and wait for that."""
        for server in self.all:
            server.close()
        with anyio.move_on_after(2 * CLOSE_SECONDS):
            await self._ended.wait()

    async def _run(self) -> None:
        try:
            async with anyio.create_task_group() as tasks:
                for server in self.all:
                    tasks.start_soon(server.run)
        finally:
            self._ended.set()
