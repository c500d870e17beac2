"""The server under the endpoint: HTTP/1.1, HTTP/2 and WebSocket over one listening socket, by hypercorn.

HTTP/2 is spoken with clients that begin with it, as clients do that know the server (no TLS is spoken here, so nothing
can be negotiated); with others HTTP/1.1.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from importlib.util import find_spec
from typing import TYPE_CHECKING

from acp_agent.errors import AgentError
from acp_agent.jsonrpc.framing import MAX_LINE_BYTES

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

    from hypercorn.typing import ASGIFramework

_BACKLOG = 100
_IDLE_SECONDS = 60.0
_PING_SECONDS = 20.0
_UNLIMITED = 1 << 31
_MAX_STREAMS = 1_000
"""Of one connection of HTTP/2: one for the agent's connection, one for each session, and what is sent meanwhile."""


def check_installed() -> None:
    """:raises AgentError: the extra is not installed; says how to get it."""
    if find_spec("hypercorn") is None:
        raise AgentError(
            "acp-agent serve needs the extra `serve`, which is not installed: pip install 'acp-agent[serve]'."
        )


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
    listening: Sequence[socket.socket], app: ASGIFramework, stopped: Callable[[], Awaitable[None]]
) -> None:
    """Serve until `stopped` returns, and until the requests of then are answered, but not for long.

    :param listening: are closed at the end.
    """
    from hypercorn.asyncio import serve  # pyright: ignore[reportUnknownVariableType]: its part for WSGI
    from hypercorn.config import Config

    config = Config()
    config.bind = [f"fd://{one.detach()}" for one in listening]
    config.errorlog = logging.getLogger(__name__)
    config.include_server_header = False
    config.graceful_timeout = 0.5
    config.keep_alive_timeout = _IDLE_SECONDS
    config.keep_alive_max_requests = _UNLIMITED
    config.h2_max_concurrent_streams = _MAX_STREAMS
    config.websocket_max_message_size = MAX_LINE_BYTES
    config.websocket_ping_interval = _PING_SECONDS
    asyncio.get_running_loop().set_exception_handler(_log_unless_cancelled)
    # It asks what became of connections that it has cut off, which may not be known yet: a client may not read.
    with suppress(asyncio.InvalidStateError):
        await serve(app, config, shutdown_trigger=stopped, mode="asgi")


def _log_unless_cancelled(loop: AbstractEventLoop, context: dict[str, object]) -> None:
    """Connections that are cut off at the end are no failures, as asyncio has them in Python 3.11."""
    if not isinstance(context.get("exception"), asyncio.CancelledError):
        loop.default_exception_handler(context)
