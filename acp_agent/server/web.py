"""Serves ACP over WebSocket only, which the RFD "Streamable HTTP & WebSocket Transport"
allows.

Each frame is one message.

Clients that send the token may connect. If no token is set, every program on this
machine may connect. A web page can make a browser connect to loopback, even through its
own host name that resolves to loopback (DNS rebinding). So without a token, other host
names are refused, as are web pages from origins that the user has not named.
"""

from __future__ import annotations

import logging
import socket
from asyncio import BaseTransport
from collections.abc import Callable, Collection, Generator
from contextlib import contextmanager, suppress
from hmac import compare_digest
from uuid import uuid4

import anyio
import uvicorn
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route, WebSocketRoute
from starlette.types import ASGIApp
from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState
from uvicorn.protocols.http.h11_impl import H11Protocol

from acp_agent.authority import WebOrigin, parse_authority, parse_web_origin
from acp_agent.errors import AgentError
from acp_agent.frozen import frozen
from acp_agent.jsonrpc.transport import MAX_LINE_BYTES, Transport
from acp_agent.logfile import log_failure
from acp_agent.server.connection import ClientConnection

PATH = "/acp"
MARIMO_PATH = "/message"
"""The path that marimo connects to, which cannot be changed in marimo. marimo sends
binary frames.
"""
MAX_CLIENTS = 100
_CLOSED = (WebSocketDisconnect, RuntimeError)
"""Raised when sending on a closed WebSocket; `RuntimeError` if uvicorn itself closed
it.
"""

_log = logging.getLogger(__name__)


@frozen
class AccessPolicy:
    """Decides whether a request may open a connection.

    :ivar token: the token that clients must send; None if every program on this machine
        may connect.
    :ivar hosts: the addresses that the server listens on.
    :ivar origins: the origins of web pages that may connect, as `parse_origin` returns
        them.
    """

    token: str | None
    hosts: Collection[str]
    origins: Collection[WebOrigin] = ()

    def refusal(self, headers: Headers) -> PlainTextResponse | None:
        """Return the response that refuses a request, or None if it may connect."""
        if self.token is not None:
            scheme, _, token = headers.get("authorization", "").partition(" ")
            if scheme.lower() == "bearer" and compare_digest(
                token.strip().encode(), self.token.encode()
            ):
                return None
            challenge = {"WWW-Authenticate": "Bearer"}
            return PlainTextResponse(
                "Send the token in the Authorization header, after Bearer.\n",
                401,
                challenge,
            )
        host = _only(headers, "host")
        authority = None if host is None else parse_authority(host)
        if authority is None or authority.host not in (
            "localhost",
            "127.0.0.1",
            "::1",
            *self.hosts,
        ):
            return PlainTextResponse(
                "The Host header does not name this server: use localhost, or set a token.\n",
                421,
            )
        if "origin" not in headers:  # browsers always send it
            return None
        # This server has no pages, so a page with its own address was served by another
        # program that used the port earlier.
        origin = parse_web_origin(_only(headers, "origin") or "")
        if origin in self.origins:
            return None
        return PlainTextResponse(
            "Web pages may not connect unless --origin names their origin.\n",
            403,
        )


def _only(headers: Headers, name: str) -> str | None:
    """Return a header's value; None if it is missing or there are several."""
    values = headers.getlist(name)
    return values[0] if len(values) == 1 else None


def parse_origin(text: str) -> WebOrigin:
    """Return the origin of a web page.

    :param text: for example http://localhost:2718.
    :raises AgentError: if `text` is not an origin.
    """
    origin = parse_web_origin(text.strip().removesuffix("/"))
    if origin is None:
        raise AgentError(
            f"{text!r} is not a web origin. Write a page's URL without its path, such as http://localhost:2718."
        )
    return origin


class _WebSocketTransport:
    """Carries messages as text frames; see `Transport`.

    :param websocket: an accepted WebSocket.
    :param binary: whether binary frames are messages too. The RFD says to ignore them.
    """

    def __init__(self, websocket: WebSocket, *, binary: bool = False) -> None:
        self._websocket = websocket
        self._binary = binary

    async def read_line(self) -> bytes | None:
        while self._websocket.client_state is WebSocketState.CONNECTED:
            message = await self._websocket.receive()
            if text := message.get("text"):
                return text.replace(
                    "\n", " "
                ).encode()  # in JSON, line breaks occur only between tokens
            if self._binary and (data := message.get("bytes")):
                return data.replace(b"\n", b" ")
        return None

    async def write(self, data: bytes) -> None:
        for line in data.splitlines():
            try:
                await self._websocket.send_text(line.decode())
            except _CLOSED:
                raise anyio.ClosedResourceError from None

    async def aclose(self) -> None:
        with anyio.move_on_after(0.5), suppress(*_CLOSED):
            await self._websocket.close(1001)  # going away


class WebSocketEndpoint:
    """Accepts WebSockets and serves a connection over each of them.

    :param access: decides who may connect.
    :param connect: creates the `ClientConnection` of an accepted WebSocket.
    :ivar closing: whether `close` was called.
    """

    def __init__(
        self, access: AccessPolicy, connect: Callable[[Transport], ClientConnection]
    ) -> None:
        self.closing = False
        self._access = access
        self._connect = connect
        self._open: dict[anyio.Event, ClientConnection] = {}

    def app(self) -> Starlette:
        """Return the ASGI application."""
        http = Route("/{path:path}", _refuse_http, methods=["DELETE", "GET", "POST"])
        return Starlette(routes=[WebSocketRoute("/{path:path}", self._serve), http])

    async def close(self) -> None:
        """Refuse new clients, end all connections, and wait until their sessions have
        ended.
        """
        self.closing = True
        connections = dict(self._open)
        for connection in connections.values():
            connection.close()
        for ended in connections:
            await ended.wait()

    async def _serve(self, websocket: WebSocket) -> None:
        if refusal := self._access.refusal(websocket.headers) or self._unavailable(
            websocket.url.path
        ):
            await websocket.send_denial_response(refusal)
            return
        await websocket.accept(headers=[(b"acp-connection-id", str(uuid4()).encode())])
        transport = _WebSocketTransport(
            websocket, binary=websocket.url.path == MARIMO_PATH
        )
        ended = anyio.Event()
        try:
            connection = self._open[ended] = self._connect(transport)
            await connection.run()
        except Exception as error:
            log_failure(_log, "A connection failed internally", error)
        finally:
            self._open.pop(ended, None)
            ended.set()

    def _unavailable(self, path: str) -> PlainTextResponse | None:
        if path not in (PATH, MARIMO_PATH):
            return PlainTextResponse(
                f"There is nothing here. The agent is at {PATH}.\n", 404
            )
        if self.closing or len(self._open) >= MAX_CLIENTS:
            return PlainTextResponse(
                "Too many clients are connected, or the agent is shutting down.\n", 503
            )
        return None


async def _refuse_http(request: Request) -> PlainTextResponse:
    return PlainTextResponse(
        f"HTTP is not served. Open a WebSocket at {PATH}.\n",
        426,
        {"Upgrade": "websocket"},
    )


MAX_CONNECTIONS = 128
"""Maximum number of connections, including those that are not upgraded yet. This is
half of the descriptors that macOS lets a process open.
"""
HANDSHAKE_SECONDS = 10
PING_SECONDS = 20
SILENT_SECONDS = 60
_BACKLOG = 100


def listening_socket(host: str, port: int) -> socket.socket:
    """Return a socket that listens on `host` and `port`.

    :param port: 0 for any free port.
    :raises AgentError: if the server cannot listen on the address. The message says
        why.
    """
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listening = socket.create_server(
            (host, port),
            family=family,
            backlog=_BACKLOG,
            dualstack_ipv6=host == "::" and socket.has_dualstack_ipv6(),
        )
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise AgentError(
            f"Cannot listen on {host}, port {port} ({reason}). Use another address."
        ) from error
    # Otherwise Linux would retransmit for a quarter of an hour.
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        listening.setsockopt(
            socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, SILENT_SECONDS * 1_000
        )
    return listening


class WebServer(uvicorn.Server):
    """Serves an ASGI application until it is cancelled. `shutdown` then closes the open
    connections.
    """

    def __init__(self, app: ASGIApp) -> None:
        from acp_agent.server.deflate import BoundedWebSocket  # needs an extra

        super().__init__(
            uvicorn.Config(
                app,
                http=_HandshakeProtocol,
                ws=BoundedWebSocket,
                lifespan="off",
                backlog=_BACKLOG,
                ws_max_size=MAX_LINE_BYTES,
                ws_ping_interval=PING_SECONDS,
                ws_ping_timeout=SILENT_SECONDS,
                timeout_graceful_shutdown=1,
                log_config=None,
                log_level="critical",  # at other levels, clients could fill the log
            )
        )

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Leave signals to the caller."""
        yield


class _HandshakeProtocol(H11Protocol):
    """Speaks HTTP/1.1 until the upgrade to a WebSocket.

    The handshake has a time limit. If there are too many connections, a new one
    replaces one that is not upgraded. So clients without access cannot block others.
    """

    def connection_made(self, transport: BaseTransport) -> None:
        super().connection_made(transport)  # pyright: ignore[reportArgumentType]
        self.loop.call_later(HANDSHAKE_SECONDS, self.close_unless_upgraded)
        if len(self.connections) > MAX_CONNECTIONS:
            others = (
                one
                for one in self.connections
                if isinstance(one, _HandshakeProtocol) and one is not self
            )
            next(others, self).close_unless_upgraded()

    def close_unless_upgraded(self) -> None:
        """Close the connection unless it has been upgraded."""
        if self in self.connections:
            self.connections.discard(self)
            self.transport.abort()
