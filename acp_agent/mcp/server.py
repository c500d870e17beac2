"""One MCP server of a session: started, listed, restarted after a crash, closed.

Each server runs in one task, which enters and leaves the SDK's client; callers are in tasks of their own.
"""

from __future__ import annotations

import importlib
import logging
import math
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Literal, TypeAlias, TypeVar

import anyio
import anyio.to_thread

from acp_agent.config.settings import McpServer
from acp_agent.conversation.messages import JsonObject
from acp_agent.errors import ToolError, sentence
from acp_agent.logfile import log_failure
from acp_agent.mcp.elicitation import Calling
from acp_agent.mcp.entry import ServerOptions, identity, secrets, with_values
from acp_agent.mcp.model import Answer, HandshakeRefusedError, Offer, PromptMessage
from acp_agent.mcp.tools import McpTool, is_usable, tool_names
from acp_agent.secrets.text import mask
from acp_agent.tools.text import counted, one_line

if TYPE_CHECKING:
    from acp_agent.mcp.client import Connection, Mode

T = TypeVar("T")
State: TypeAlias = Literal["starting", "ready", "restarting", "failed", "closed"]

RESTART_DELAYS = (0.0, 1.0, 5.0)
"""Seconds before each new start after a crash; then the server is given up."""
_CALL_PATIENCE = 10.0
"""How long a call waits for a server that is being started again."""
CLOSE_SECONDS = 1.0
_TOGETHER_SECONDS = 0.05
"""Changes of lists that come so soon after each other are one."""

_log = logging.getLogger(__name__)


class _EndedError(ToolError):
    """The server was lost during a request, and may have carried it out."""


class SessionServer:
    """One server of one session. `run` must run for it to be there.

    :param short: its part in the names of its tools and prompts.
    :param tell: shows the user a sentence.
    :param changed: called when it offers something else than before.
    :ivar offer: what it offered last, also while it is away; `tools` likewise.
    :ivar reason: why it is not there.
    """

    def __init__(
        self,
        server: McpServer,
        short: str,
        options: ServerOptions,
        tell: Callable[[str], Awaitable[None]],
        changed: Callable[[], None],
    ) -> None:
        self._server = server
        self.short = short
        self._options = options
        self._tell = tell
        self._changed = changed
        self.state: State = "starting"
        self.offer = Offer()
        self.tools: tuple[McpTool, ...] = ()
        self.reason = ""
        self._connection: Connection | None = None
        self._mode: Mode = "auto" if server.transport == "acp" else "legacy"
        self._starting = anyio.CancelScope()
        self._turned = anyio.Event()
        self._wanted = anyio.Event()
        self._closing = anyio.Event()
        self._outdated = anyio.Event()
        self._told = ""

    @property
    def name(self) -> str:
        """Its name for people."""
        return self._server.name

    async def run(self) -> None:
        """Keep it running until it is closed."""
        try:
            while not self._closing.is_set():
                await self._run_until_given_up()
                await self._wanted.wait()
                self._wanted = anyio.Event()
                self._turn("restarting")  # a call waits for it from now on
        finally:
            self._turn("closed")

    def revive(self) -> None:
        """Try again to start it, where it was given up."""
        if self.state == "failed":
            self._wanted.set()

    def close(self) -> None:
        """Let it end; `run` returns when it has."""
        self._closing.set()
        self._wanted.set()
        if self._connection is None:
            self._starting.cancel()
        else:
            self._connection.lost.set()

    async def settled(self) -> None:
        """Wait until its first start has succeeded or failed."""
        while self.state == "starting":
            await self._turned.wait()

    # --- requests ---

    async def call(
        self, tool: str, arguments: JsonObject, report: Callable[[str], Awaitable[None]], calling: Calling
    ) -> Answer:
        """Call a tool; see `tools.Call`."""
        seconds = self._server.timeout
        try:
            return await self._asked(lambda there: there.call(tool, arguments, seconds, report, calling))
        except _EndedError as error:
            what = f"ended during this call, which may or may not have been done: {error}"
            raise self._error(what, "It is being started again.") from error
        except ToolError as error:
            raise self._error(f"has not answered this call: {error}") from error

    async def prompt(self, name: str, arguments: dict[str, str]) -> tuple[PromptMessage, ...]:
        """Have one of its prompts made.

        :raises ToolError: it cannot be; says why.
        """
        try:
            return await self._asked(lambda there: there.prompt(name, arguments))
        except ToolError as error:
            raise self._error(f"has not made the prompt {name!r}: {error}") from error

    async def read(self, uri: str) -> tuple[JsonObject, ...]:
        """Read a resource.

        :raises ToolError: it cannot be; says why.
        """
        try:
            return await self._asked(lambda there: there.read(uri))
        except ToolError as error:
            raise self._error(f"has not given {one_line(uri)}: {error}") from error

    async def _asked(self, ask: Callable[[Connection], Awaitable[T]]) -> T:
        with anyio.move_on_after(_CALL_PATIENCE):
            while not self._is_there() and self.state not in ("failed", "closed"):
                await self._turned.wait()
        connection = self._connection
        if connection is None:
            raise ToolError(f"it is not running: {self.reason or 'it has not answered yet'}")
        try:
            return await ask(connection)
        except ToolError as error:
            if connection.lost.is_set() or self._connection is not connection:
                raise _EndedError(str(error)) from error
            raise

    def _is_there(self) -> bool:
        return self._connection is not None and not self._connection.lost.is_set()

    def _error(self, what: str, more: str = "") -> ToolError:
        text = self._masked(f"The MCP server {self.name!r} {what}")
        return ToolError(f"{sentence(ToolError(text))} {more}".rstrip())

    # --- its life ---

    async def _run_until_given_up(self) -> None:
        """Start it, and again after each crash, until it is closed or given up."""
        delays = iter(RESTART_DELAYS)
        was_ready = False
        while True:
            self.reason = self._masked(await self._run_once())
            if self._closing.is_set():
                return
            was_ready = was_ready or self.state == "ready"
            delay = next(delays, None) if was_ready else None
            if delay is None:
                await self._give_up("has ended too often and is given up" if was_ready else "could not be started")
                return
            _log.warning("the MCP server %s ended and is started again: %s", self.name, self.reason)
            self._turn("restarting")
            with anyio.move_on_after(delay):
                await self._closing.wait()
                return

    async def _give_up(self, what: str) -> None:
        self._turn("failed")
        _log.warning("the MCP server %s %s: %s", self.name, what, self.reason)
        if self._told != self.reason:
            self._told = self.reason
            more = "It is tried once more with each prompt; the session works on without it."
            await self._tell(f"{sentence(ToolError(f'The MCP server {self.name!r} {what}: {self.reason}'))} {more}")

    async def _run_once(self) -> str:
        """Start it, and stay until it is gone.

        :returns: why it is gone.
        """
        try:
            server = with_values(self._server, self._options.env)
            try:
                return await self._connected(server)
            except HandshakeRefusedError:
                if self._mode == "auto":
                    raise
                self._mode = "auto"
                return await self._connected(server)
        except ToolError as error:
            return str(error)
        except Exception as error:
            return log_failure(_log, f"Speaking with the MCP server {self.name!r} failed inside the agent", error)
        finally:
            self._connection = None

    async def _connected(self, server: McpServer) -> str:
        seconds = self._options.start_seconds
        self._starting = anyio.CancelScope(deadline=anyio.current_time() + seconds)
        with self._starting as scope:
            await anyio.to_thread.run_sync(_load_client, abandon_on_cancel=True)
            from acp_agent.mcp.client import connect

            async with connect(server, self._options, self._mode, self._outdate) as connection:
                await self._list(connection)
                self._connection, self._told = connection, ""
                scope.deadline = math.inf
                counts = f"{counted(len(self.offer.tools), 'tool')}, {counted(len(self.offer.prompts), 'prompt')}"
                _log.info("the MCP server %s is ready: %s", self.name, counts)
                self._turn("ready")
                self._changed()
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(connection.listen, self._outdate)
                    tasks.start_soon(self._follow, connection)
                    await connection.lost.wait()
                    tasks.cancel_scope.cancel()
                self._connection = None
                scope.deadline = anyio.current_time() + CLOSE_SECONDS
                return connection.reason
        return f"it has not said within {seconds:g} seconds what it offers"

    # --- what it offers ---

    def _outdate(self) -> None:
        self._outdated.set()

    async def _list(self, connection: Connection) -> None:
        """List what it offers; say to the user what is missing.

        :raises ToolError: it does not say; what it offered before is kept.
        """
        self._outdated = anyio.Event()
        offer = await connection.offer()
        if offer == self.offer:
            return
        for fault in (self._masked(fault) for fault in offer.faults if fault not in self.offer.faults):
            _log.warning("of the MCP server %s: %s", self.name, fault)
            await self._tell(sentence(ToolError(f"Of the MCP server {self.name!r}: {fault}")))
        self.offer = offer
        usable = {tool.name: tool for tool in reversed(offer.tools) if is_usable(tool)}
        names = tool_names(self.short, (tool.name for tool in offer.tools if tool.name in usable))
        self.tools = tuple(
            McpTool(self.name, identity(self._server), self.call, name, usable[tool]) for tool, name in names.items()
        )

    async def _follow(self, connection: Connection) -> None:
        """List it again whenever it says that something has changed."""
        seconds = self._options.start_seconds
        while True:
            await self._outdated.wait()
            await anyio.sleep(_TOGETHER_SECONDS)
            try:
                with anyio.fail_after(seconds):
                    await self._list(connection)
                    self._changed()
            except TimeoutError:
                _log.warning(
                    "the MCP server %s said that what it offers has changed, and not within %g seconds what that is; "
                    "what it offered before is kept until it says so again",
                    self.name,
                    seconds,
                )
            except ToolError as error:
                _log.warning("the MCP server %s did not list anew what it offers: %s", self.name, error)

    def _turn(self, state: State) -> None:
        self.state = state
        turned, self._turned = self._turned, anyio.Event()
        turned.set()

    def _masked(self, text: str) -> str:
        return mask(text, secrets(self._server, self._options.env))


def _load_client() -> None:
    importlib.import_module("acp_agent.mcp.client")
