"""Serves ACP over WebSocket, one JSON-RPC message a frame, as ACP's RFD "Streamable HTTP & WebSocket Transport" has it.
The RFD lets servers support WebSocket alone."""

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
_CLOSE_SECONDS = 0.5
_GOING_AWAY = 1001
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
        with anyio.move_on_after(_CLOSE_SECONDS), suppress(*_CLOSED):  # the client may not read
            await self._websocket.close(_GOING_AWAY)


class Endpoint:
    """Accepts WebSockets and serves a connection over each.

    :param access: decides who may connect.
    :param connect: makes the agent's end of a connection.
    :ivar app: the ASGI application.
    :ivar closing: whether `close` was called.
    """

    def __init__(self, access: AccessPolicy, connect: Callable[[Transport], Connection]) -> None:
        methods = ["DELETE", "GET", "POST"]
        paths = "/{path:path}"
        self.app = Starlette(routes=[WebSocketRoute(paths, self._serve), Route(paths, _refuse_http, methods=methods)])
        self.closing = False
        self._access = access
        self._connect = connect
        self._open: dict[Connection, anyio.Event] = {}

    async def close(self) -> None:
        """Refuse new clients, end all connections, and wait until their sessions have ended."""
        self.closing = True
        ends = list(self._open.values())
        for connection in self._open:
            connection.close()
        for ended in ends:
            await ended.wait()

    async def _serve(self, websocket: WebSocket) -> None:
        if refusal := self._access.refusal(websocket.headers) or self._unavailable(websocket.url.path):
            await websocket.send_denial_response(refusal)
            return
        connection = self._connect(WebSocketTransport(websocket, binary=websocket.url.path == MARIMO_PATH))
        ended = self._open[connection] = anyio.Event()
        try:
            await websocket.accept(headers=[(b"acp-connection-id", str(uuid4()).encode())])
            await connection.run()
        except Exception as error:
            log_failure(_log, "A connection failed inside", error)
        finally:
            del self._open[connection]
            ended.set()

    def _unavailable(self, path: str) -> PlainTextResponse | None:
        if path not in (PATH, MARIMO_PATH):
            return PlainTextResponse(f"There is nothing here: the agent is at {PATH}.\n", 404)
        if self.closing or len(self._open) >= MAX_CLIENTS:
            return PlainTextResponse("Too many clients are connected, or the agent ends.\n", 503)
        return None


async def _refuse_http(request: Request) -> PlainTextResponse:
    sentence = f"The agent is served over WebSocket alone: open one at {PATH}.\n"
    return PlainTextResponse(sentence, 426, {"Upgrade": "websocket"})
