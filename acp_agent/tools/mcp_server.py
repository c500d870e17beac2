"""One MCP server of a session: started, asked what it offers, started again after a crash, closed.

Each runs in one task, which enters and leaves the SDK's client; whoever calls it does so from a task of its own. Knows
no other server and no session.
"""

from __future__ import annotations

import importlib
import json
import logging
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias, TypeVar

import anyio
import anyio.to_thread

from acp_agent.config.settings import McpServer
from acp_agent.conversation.messages import JsonObject
from acp_agent.errors import ToolError, sentence
from acp_agent.frozen import frozen
from acp_agent.importing import given_up_at_the_end
from acp_agent.logfile import log_failure
from acp_agent.secrets.text import mask
from acp_agent.tools.mcp_channel import McpChannel
from acp_agent.tools.mcp_elicitation import Calling
from acp_agent.tools.mcp_offer import Answer, HandshakeRefusedError, NotTakenError, PromptMessage
from acp_agent.tools.mcp_offering import Offering
from acp_agent.tools.mcp_stdio import server_environment, server_process
from acp_agent.tools.mcp_variables import secrets, with_values
from acp_agent.tools.text import digest, one_line

if TYPE_CHECKING:
    from acp_agent.tools.mcp import Connection, Mode

T = TypeVar("T")
State: TypeAlias = Literal["starting", "ready", "restarting", "failed", "closed"]

START_SECONDS = 60.0
"""One that is downloaded first takes long."""
RESTART_DELAYS = (0.0, 1.0, 5.0)
"""Seconds before each new start after a crash; then it is given up."""
STABLE_SECONDS = 60.0
"""A server that ran so long has not crashed at once: its restarts count from the beginning again."""
CALL_PATIENCE = 10.0
"""How long a call waits for a server that is being started again."""
CLOSE_SECONDS = 1.0
_DIGITS = 12
"""Of SHA-256, in hexadecimal: a person reads them."""

_log = logging.getLogger(__name__)


@frozen
class Place:
    """Where servers of a session run.

    :ivar roots: the session's directories; a server's working directory is the first.
    :ivar env: the agent's environment variables.
    :ivar elicits: whether they may ask the user something while one of their tools runs.
    :ivar channel: to those that the editor is itself.
    :ivar start_seconds: from a server's start until it has said what it offers.
    """

    roots: Sequence[Path]
    env: Mapping[str, str]
    elicits: bool = False
    channel: McpChannel | None = None
    start_seconds: float = START_SECONDS


class _EndedError(ToolError):
    """The server is gone, and nobody knows what it has done before."""


class SessionServer:
    """One server of one session. `run` must run for it to be there.

    :param short: its part in the names of its tools and prompts.
    :param tell: tells the user a sentence.
    :param changed: called when it offers something else than before.
    :ivar offering: what it offered last, also while it is away.
    :ivar reason: why it is not there.
    """

    def __init__(
        self,
        server: McpServer,
        short: str,
        place: Place,
        tell: Callable[[str], Awaitable[None]],
        changed: Callable[[], None],
    ) -> None:
        self._server = server
        self.short = short
        self._place = place
        self._tell = tell
        self._changed = changed
        self.state: State = "starting"
        self.offering = Offering(self, short, self._masked, tell)
        self.reason = ""
        self._connection: Connection | None = None
        self._mode: Mode = "auto" if server.transport == "acp" else "legacy"
        self._scope = anyio.CancelScope()
        self._turned = anyio.Event()
        self._wanted = anyio.Event()
        self._closing = anyio.Event()
        self._told = ""

    @property
    def name(self) -> str:
        """What people call it."""
        return self._server.name

    @property
    def identity(self) -> str:
        """Digits that tell it from every other server: of what is run with which variables, or of the address; of one
        that is the editor itself, of what that calls it.

        Not of its headers, in which a login stands that changes while the server stays the same.
        """
        server = self._server
        place = [server.command, server.args, sorted(server.env.items()), server.url]
        own = [server.name, server.server_id] if server.transport == "acp" else []
        return digest(json.dumps([*place, *own]))[:_DIGITS]

    async def run(self) -> None:
        """Keep it running until it is closed."""
        try:
            while not self._closing.is_set():
                await self._keep()
                await self._wanted.wait()
                self._wanted = anyio.Event()
                self._turn("restarting")  # who calls it now waits for it
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
            self._scope.cancel()

    async def settled(self) -> None:
        """Wait until its first start has come to something."""
        while self.state == "starting":
            await self._turned.wait()

    # --- what it is asked ---

    async def call(
        self, tool: str, arguments: JsonObject, report: Callable[[str], Awaitable[None]], calling: Calling
    ) -> Answer:
        """Call a tool; see `Callee`."""
        seconds = self._server.timeout
        try:
            return await self._asked(lambda there: there.call(tool, arguments, seconds, report, calling))
        except _EndedError as error:
            raise self._error(
                f"ended during this call, which may or may not have been done: {error}", "It is being started again."
            ) from error
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

    async def _asked(self, ask: Callable[[Connection], Awaitable[T]], *, again: bool = True) -> T:
        """Ask; a second time where a server on the network has forgotten the session, and so has done nothing."""
        connection = await self._there()
        try:
            return await ask(connection)
        except NotTakenError:
            if not again:
                raise
        except ToolError as error:
            if connection.lost.is_set() or self._connection is not connection:
                raise _EndedError(str(error)) from error
            raise
        with anyio.move_on_after(CALL_PATIENCE):
            while self._connection is connection:
                await self._turned.wait()
        return await self._asked(ask, again=False)

    async def _there(self) -> Connection:
        with anyio.move_on_after(CALL_PATIENCE):
            while self._connection is None and self.state not in ("failed", "closed"):
                await self._turned.wait()
        if self._connection is None:
            raise ToolError(f"it is not running: {self.reason or 'it has not answered yet'}")
        return self._connection

    def _error(self, what: str, more: str = "") -> ToolError:
        text = self._masked(f"The MCP server {self.name!r} {what}")
        return ToolError(f"{sentence(ToolError(text))} {more}".rstrip())

    # --- its life ---

    async def _keep(self) -> None:
        """Start it, and again after each crash, until it is closed or given up."""
        delays = iter(RESTART_DELAYS)
        was_ready = False
        while True:
            began = anyio.current_time()
            reason = await self._live()
            if self._closing.is_set():
                return
            was_ready = was_ready or self.state == "ready"
            if self.state == "ready" and anyio.current_time() - began > STABLE_SECONDS:
                delays = iter(RESTART_DELAYS)
            self.reason = self._masked(reason)
            delay = next(delays, None) if was_ready else None
            if delay is None:
                await self._give_up(was_ready)
                return
            _log.warning("the MCP server %s ended and is started again: %s", self.name, self.reason)
            self._turn("restarting")
            with anyio.move_on_after(delay):
                await self._closing.wait()
                return

    async def _give_up(self, was_ready: bool) -> None:
        what = "has ended too often and is given up" if was_ready else "could not be started"
        self._turn("failed")
        _log.warning("the MCP server %s %s: %s", self.name, what, self.reason)
        if self._told != self.reason:
            self._told = self.reason
            more = "It is tried once more with each prompt; the session works on without it."
            await self._tell(f"{sentence(ToolError(f'The MCP server {self.name!r} {what}: {self.reason}'))} {more}")

    async def _live(self) -> str:
        """Start it, and stay until it is gone.

        :returns: why it is.
        """
        try:
            from_here = with_values(self._server, self._place.env)
            try:
                return await self._connected(from_here, self._mode)
            except ToolError as error:
                if self._connection is not None or self._mode == "auto" or not isinstance(error, HandshakeRefusedError):
                    raise
                self._mode = "auto"
                return await self._connected(from_here, self._mode)
        except ToolError as error:
            return str(error)
        except Exception as error:
            return log_failure(_log, f"Speaking with the MCP server {self.name!r} failed inside the agent", error)
        finally:
            self._connection = None

    async def _connected(self, server: McpServer, mode: Mode) -> str:
        place = self._place
        self._scope = anyio.CancelScope(deadline=anyio.current_time() + place.start_seconds)
        with self._scope as scope:
            async with AsyncExitStack() as stack:
                process = None
                if server.transport == "stdio":
                    environment = server_environment(place.env, server.env)
                    process = await stack.enter_async_context(
                        server_process(server.command, server.args, place.roots[0], environment)
                    )
                # Its own start and the loading of the SDK take their time together.
                await anyio.to_thread.run_sync(_load, abandon_on_cancel=True)
                from acp_agent.tools.mcp import connect

                connection = await stack.enter_async_context(
                    connect(
                        server,
                        process,
                        place.roots,
                        mode,
                        self.offering.hear,
                        elicits=place.elicits,
                        channel=place.channel,
                    )
                )
                await self.offering.take(connection)
                self._connection, self._told = connection, ""
                scope.deadline = math.inf
                _log.info("the MCP server %s is ready: %s", self.name, self.offering.counts())
                self._turn("ready")
                self._changed()
                await self._stay(connection)
                scope.deadline = anyio.current_time() + CLOSE_SECONDS
                return "" if self._closing.is_set() else await connection.why_lost()
        return f"it has not said within {place.start_seconds:g} seconds what it offers"

    async def _stay(self, connection: Connection) -> None:
        over = anyio.Event()

        async def end_with(event: anyio.Event) -> None:
            await event.wait()
            over.set()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(end_with, connection.lost)
            tasks.start_soon(end_with, self._closing)
            tasks.start_soon(connection.listen, self.offering.hear)
            tasks.start_soon(self.offering.follow, connection, self._place.start_seconds, self._changed)
            await over.wait()
            tasks.cancel_scope.cancel()
        self._connection = None

    def _turn(self, state: State) -> None:
        self.state = state
        turned, self._turned = self._turned, anyio.Event()
        turned.set()

    def _masked(self, text: str) -> str:
        return mask(text, secrets(self._server, self._place.env))


@given_up_at_the_end()
def _load() -> None:
    importlib.import_module("acp_agent.tools.mcp")
