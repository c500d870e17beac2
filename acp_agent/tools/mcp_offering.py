"""What one MCP server offers, kept: listed when it is connected, and again when it says that something has changed.

Does not know how the server is started or ended.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import anyio

from acp_agent.errors import ToolError, sentence
from acp_agent.tools.mcp_offer import ListName, Offer, said
from acp_agent.tools.mcp_tools import Callee, McpTool, is_usable, tools_of
from acp_agent.tools.text import counted

if TYPE_CHECKING:
    from acp_agent.tools.mcp import Connection

_TOGETHER_SECONDS = 0.05
"""Changes that come so soon after each other are one."""

_log = logging.getLogger(__name__)


class Offering:
    """Keeps what one server offers.

    :param server: who is called when one of its tools is.
    :param short: its part in the names of its tools.
    :param masked: a text of the server's without secrets.
    :param tell: tells the user a sentence.
    :ivar last: what it offered last, also while it is away.
    :ivar tools: its tools, likewise.
    """

    def __init__(
        self, server: Callee, short: str, masked: Callable[[str], str], tell: Callable[[str], Awaitable[None]]
    ) -> None:
        self._server = server
        self._short = short
        self._masked = masked
        self._tell = tell
        self._stale = anyio.Event()
        self.last = Offer()
        self.tools: tuple[McpTool, ...] = ()

    def hear(self, changed: ListName) -> None:
        """The server says that one of its lists has changed."""
        self._stale.set()

    async def take(self, connection: Connection) -> None:
        """Ask the server what it offers.

        :raises ToolError: it does not say; what it offered last is kept.
        """
        self._stale = anyio.Event()
        offer = await connection.offer()
        if unusable := list(dict.fromkeys(tool.name for tool in offer.tools if not is_usable(tool))):
            offer = replace(offer, faults=(*offer.faults, said("tools", unusable, sound=True)))
        if offer == self.last:
            return
        for fault in (self._masked(fault) for fault in offer.faults if fault not in self.last.faults):
            _log.warning("of the MCP server %s: %s", self._server.name, fault)
            await self._tell(sentence(ToolError(f"Of the MCP server {self._server.name!r}: {fault}")))
        self.last = offer
        self.tools = tools_of(self._server, self._short, offer.tools)

    async def follow(self, connection: Connection, seconds: float, changed: Callable[[], None]) -> None:
        """Ask again whenever the server says that something has changed; does not end by itself.

        :param seconds: how long the server may take to say all of it.
        :param changed: called each time.
        """
        while True:
            await self._stale.wait()
            await anyio.sleep(_TOGETHER_SECONDS)
            try:
                with anyio.fail_after(seconds):
                    await self.take(connection)
                    changed()
            except TimeoutError:
                _log.warning(
                    "the MCP server %s said that what it offers has changed, and not within %g seconds what that is; "
                    "what it offered before is kept until it says so again",
                    self._server.name,
                    seconds,
                )
            except ToolError as error:
                _log.warning("the MCP server %s did not list anew what it offers: %s", self._server.name, error)

    def counts(self) -> str:
        """How much it is, for the log."""
        return f"{counted(len(self.last.tools), 'tool')}, {counted(len(self.last.prompts), 'prompt')}"
