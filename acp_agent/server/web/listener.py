"""Listens on addresses, and serves the WebSockets of an ASGI application there with uvicorn."""

from __future__ import annotations

import socket
from asyncio import BaseTransport
from collections.abc import Generator
from contextlib import contextmanager

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from acp_agent.errors import AgentError
from acp_agent.jsonrpc.transport import MAX_LINE_BYTES

MAX_CONNECTIONS = 128
"""Most connections, those not upgraded yet included: half of the descriptors that macOS lets a process open."""
OPENING_SECONDS = 10
PING_SECONDS = 20
SILENT_SECONDS = 60
_BACKLOG = 100


def listening_socket(host: str, port: int) -> socket.socket:
    """Return a socket that listens there.

    :param port: 0 for any that is free.
    :raises AgentError: the address cannot be listened on; says why.
    """
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listening = socket.create_server(
            (host, port), family=family, backlog=_BACKLOG, dualstack_ipv6=host == "::" and socket.has_dualstack_ipv6()
        )
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise AgentError(f"Cannot listen on {host}, port {port} ({reason}); name another address.") from error
    if hasattr(socket, "TCP_USER_TIMEOUT"):  # Linux goes on for a quarter of an hour otherwise
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, SILENT_SECONDS * 1_000)
    return listening


class WebServer(uvicorn.Server):
    """Serves an ASGI application until it is cancelled; `shutdown` closes what is open then."""

    def __init__(self, app: ASGIApp) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http=_Opening,
                lifespan="off",
                backlog=_BACKLOG,
                ws_max_size=MAX_LINE_BYTES,
                ws_ping_interval=PING_SECONDS,
                ws_ping_timeout=SILENT_SECONDS,
                timeout_graceful_shutdown=1,
                log_config=None,
                log_level="critical",  # the rest is what clients do, as often as they like
            )
        )

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Leave signals to the caller."""
        yield


class _Opening(H11Protocol):
    """HTTP/1.1 up to the upgrade. It has a time limit, and is closed for a newer one if there are too many, so that
    connections without access cannot block others."""

    def connection_made(self, transport: BaseTransport) -> None:
        super().connection_made(transport)  # pyright: ignore[reportArgumentType]
        self.loop.call_later(OPENING_SECONDS, self.close_unless_upgraded)
        if len(self.connections) > MAX_CONNECTIONS:
            others = (one for one in self.connections if isinstance(one, _Opening) and one is not self)
            next(others, self).close_unless_upgraded()

    def close_unless_upgraded(self) -> None:
        """Close the connection, unless it has been upgraded."""
        if self in self.connections:
            self.connections.discard(self)
            self.transport.abort()
