"""The server under the endpoint: HTTP/1.1, HTTP/2 and WebSocket over one listening socket, by hypercorn.

HTTP/2 is spoken with clients that begin with it, as clients do that know the server (no TLS is spoken here, so nothing
can be negotiated); with others HTTP/1.1.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable, Sequence
from importlib.util import find_spec
from time import monotonic
from typing import TYPE_CHECKING, cast

from acp_agent.errors import AgentError
from acp_agent.extras import installing
from acp_agent.jsonrpc.framing import MAX_LINE_BYTES
from acp_agent.server.web.guests import Guests
from acp_agent.server.web.room import Room

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

    from hypercorn.config import Config
    from hypercorn.typing import ASGIFramework

_log = logging.getLogger(__name__)

_BACKLOG = 100
_AT_ONCE = 8
"""That are accepted before those that had to make room for them get to be closed."""
_GRACE_SECONDS = 0.5
IDLE_SECONDS = 60.0
"""Until a connection without a request is closed, the first one as well."""
PING_SECONDS = 20.0
"""Between two pings over a WebSocket."""
SILENT_SECONDS = 60.0
"""After so long without a pong, or without taking what is sent, a client is taken to have vanished."""
_UNLIMITED = 1 << 31
_SILENT_SECONDS = 60.0
"""Between two records of one kind of failure."""
_MAX_STREAMS = 1_000
"""Of one connection of HTTP/2: one for the agent's connection, one for each session, and what is sent meanwhile."""


def check_installed() -> None:
    """:raises AgentError: the extra is not installed; says how to get it."""
    if find_spec("hypercorn") is None:
        raise AgentError(f"acp-agent serve needs the extra `serve`, which is not installed: {installing('serve')}.")


def listening_socket(host: str, port: int) -> socket.socket:
    """Listen there.

    :param port: 0 for any that is free.
    :raises AgentError: that is not possible; says why.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, address = found[0]
        listening = socket.socket(family, kind, protocol)
        try:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if hasattr(socket, "TCP_USER_TIMEOUT"):  # or the system tries for a quarter of an hour to send it
                milliseconds = int(SILENT_SECONDS * 1_000)
                listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, milliseconds)
            listening.bind(address)
            listening.listen(_BACKLOG)
        except BaseException:
            listening.close()
            raise
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise AgentError(f"Cannot listen on {host}, port {port} ({reason}); name another address.") from error
    return listening


async def serve_http(
    listening: Sequence[socket.socket],
    app: ASGIFramework,
    guests: Guests,
    room: Room,
    stopped: Callable[[], Awaitable[None]],
) -> None:
    """Serve until `stopped` returns, and until the requests of then are answered, but not for long.

    :param listening: are closed at the end.
    :param guests: is told of every connection.
    :param room: for messages that are not whole yet.
    """
    from hypercorn.app_wrappers import ASGIWrapper
    from hypercorn.asyncio.tcp_server import TCPServer
    from hypercorn.asyncio.worker_context import WorkerContext
    from hypercorn.events import Event, Updated

    class Served(TCPServer):
        """One that has gone does not stay open for as long as one that may ask for something more."""

        gone = False

        async def protocol_send(self, event: Event) -> None:
            if not (self.gone and isinstance(event, Updated)):
                await super().protocol_send(event)

        async def _read_data(self) -> None:
            await super()._read_data()
            self.gone = True
            await self.idle_task.stop()

    loop, config, context = asyncio.get_running_loop(), _config(room), WorkerContext(None)
    wrapped = ASGIWrapper(app)
    tasks: set[asyncio.Task[None]] = set()
    failures = _Failures()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        task.add_done_callback(tasks.discard)
        with guests.hosted(writer.transport) as can_stay:
            if can_stay:
                try:
                    await Served(wrapped, loop, config, context, {}, reader, writer)
                except Exception as error:  # hypercorn does not foresee all that may come
                    cause = _cause(error)
                    if failures.are_new("a connection", cause):
                        _log.warning("a connection was closed for what came over it (%r)", cause)

    loop.set_exception_handler(failures)
    servers: list[asyncio.Server] = []
    try:
        for one in listening:
            servers.append(await asyncio.start_server(connected, sock=one, backlog=_AT_ONCE))
            one.listen(_BACKLOG)
        await stopped()
        await context.terminated.set()
    finally:
        for server in servers:
            server.close()
        for one in listening:
            one.close()
        try:
            if tasks:
                await asyncio.wait(tasks, timeout=_GRACE_SECONDS)
        finally:
            for task in tasks:
                task.cancel()


def _config(room: Room) -> Config:
    from acp_agent.server.web.frames import FramesConfig, use_frames
    from acp_agent.server.web.http2 import use_http2

    use_frames()
    use_http2()
    config = FramesConfig()
    config.room = room
    config.errorlog = _log
    config.include_server_header = False
    config.keep_alive_timeout = IDLE_SECONDS
    config.keep_alive_max_requests = _UNLIMITED
    config.h2_max_concurrent_streams = _MAX_STREAMS
    config.websocket_max_message_size = MAX_LINE_BYTES
    config.websocket_ping_interval = config.ping_seconds = PING_SECONDS
    config.silent_seconds = SILENT_SECONDS
    return config


class _Failures:
    """Logs what goes wrong in connections, each kind once in a while: a client can repeat it as often as it likes."""

    def __init__(self) -> None:
        self._logged: dict[tuple[object, type], float] = {}

    def __call__(self, loop: AbstractEventLoop, context: dict[str, object]) -> None:
        """For asyncio."""
        error = context.get("exception")
        # Connections that are cut off at the end are no failures, as asyncio has them in Python 3.11.
        if not isinstance(error, asyncio.CancelledError) and self.are_new(context.get("message"), error):
            loop.default_exception_handler(context)

    def are_new(self, where: object, error: object) -> bool:
        """Whether this has not been logged lately, and so has to be."""
        kind, now = (where, type(error)), monotonic()
        if now - self._logged.get(kind, -_SILENT_SECONDS) < _SILENT_SECONDS:
            return False
        self._logged[kind] = now
        return True


def _cause(error: Exception) -> Exception:
    while isinstance(error, ExceptionGroup):
        error = cast("ExceptionGroup[Exception]", error).exceptions[0]
    return error
