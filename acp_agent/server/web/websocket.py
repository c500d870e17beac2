"""Serves ACP over WebSocket alone, as the RFD "Streamable HTTP & WebSocket Transport" allows; a frame is a message."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from uuid import uuid4

import anyio
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from acp_agent.jsonrpc.stdio import Transport
from acp_agent.logfile import log_failure
from acp_agent.server.connection import Connection
from acp_agent.server.web.access import AccessPolicy

PATH = "/acp"
MARIMO_PATH = "/message"
"""Where marimo connects, which cannot be told another path and sends binary frames."""
MAX_CLIENTS = 100
_CLOSED = (WebSocketDisconnect, RuntimeError)
"""What a send raises; RuntimeError where uvicorn has closed the WebSocket of its own accord."""

_log = logging.getLogger(__name__)


class WebSocketTransport:
    """Carries messages as text frames; see `Transport`.

    :param websocket: has been accepted.
    :param binary: whether binary frames are messages too; the RFD has them ignored.
    """

    def __init__(self, websocket: WebSocket, *, binary: bool = False) -> None:
        self._websocket = websocket
        self._binary = binary

    async def read_line(self) -> bytes | None:
        while self._websocket.client_state is WebSocketState.CONNECTED:
            message = await self._websocket.receive()
            if text := message.get("text"):
                return text.replace("\n", " ").encode()  # of JSON, line breaks are between the tokens alone
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


class Endpoint:
    """Accepts WebSockets and serves a connection over each.

    :param access: decides who may connect.
    :param connect: makes the agent's end of a connection.
    :ivar app: the ASGI application.
    :ivar closing: whether `close` was called.
    """

    def __init__(self, access: AccessPolicy, connect: Callable[[Transport], Connection]) -> None:
        http = Route("/{path:path}", _refuse_http, methods=["DELETE", "GET", "POST"])
        self.app = Starlette(routes=[WebSocketRoute("/{path:path}", self._serve), http])
        self.closing = False
        self._access = access
        self._connect = connect
        self._open: dict[anyio.Event, Connection] = {}

    async def close(self) -> None:
        """Refuse new clients, end all connections, and wait until their sessions have ended."""
        self.closing = True
        connections = dict(self._open)
        for connection in connections.values():
            connection.close()
        for ended in connections:
            await ended.wait()

    async def _serve(self, websocket: WebSocket) -> None:
        if refusal := self._access.refusal(websocket.headers) or self._unavailable(websocket.url.path):
            await websocket.send_denial_response(refusal)
            return
        await websocket.accept(headers=[(b"acp-connection-id", str(uuid4()).encode())])
        transport, ended = WebSocketTransport(websocket, binary=websocket.url.path == MARIMO_PATH), anyio.Event()
        try:
            connection = self._open[ended] = self._connect(transport)
            await connection.run()
        except Exception as error:
            log_failure(_log, "A connection failed inside", error)
        finally:
            self._open.pop(ended, None)
            ended.set()

    def _unavailable(self, path: str) -> PlainTextResponse | None:
        if path not in (PATH, MARIMO_PATH):
            return PlainTextResponse(f"There is nothing here: the agent is at {PATH}.\n", 404)
        if self.closing or len(self._open) >= MAX_CLIENTS:
            return PlainTextResponse("Too many clients are connected, or the agent ends.\n", 503)
        return None


async def _refuse_http(request: Request) -> PlainTextResponse:
    return PlainTextResponse(f"Open a WebSocket at {PATH}: HTTP is not served.\n", 426, {"Upgrade": "websocket"})
