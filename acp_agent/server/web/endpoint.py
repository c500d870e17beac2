"""`Endpoint`: the one address that clients speak to, as an ASGI application. GET with an upgrade is a WebSocket; POST,
GET and DELETE are streamable HTTP.

Owns the methods, the headers and the statuses. Does not know what a message says but for `initialize`.

ACP, RFD "Streamable HTTP & WebSocket Transport".
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING

import anyio

from acp_agent.jsonrpc.framing import MAX_LINE_BYTES
from acp_agent.jsonrpc.messages import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    JsonObject,
    JsonValue,
    RpcError,
    decode,
    encode,
    error_message,
)
from acp_agent.protocol.v1 import methods
from acp_agent.server.web.clients import Clients
from acp_agent.server.web.gate import Gate, Headers, Refusal
from acp_agent.server.web.http_transport import HttpTransport, RouteError
from acp_agent.server.web.websocket_transport import WebSocketTransport, in_one_line

if TYPE_CHECKING:
    from hypercorn.typing import ASGIReceiveCallable, ASGISendCallable, HTTPScope, Scope, WebsocketScope

PATH = "/acp"
MARIMO_PATH = "/message"
"""Where marimo, which cannot be told another, opens its WebSocket; its messages are binary frames."""
CONNECTION_ID = "acp-connection-id"
SESSION_ID = "acp-session-id"
KEEP_ALIVE_SECONDS = 15.0
"""After so long without a message, a stream gets a comment, so that nothing between takes it for dead."""
_JSON = "application/json"
_EVENTS = "text/event-stream"
_TEXT = "text/plain; charset=utf-8"
_BATCH = "Batches are not taken over HTTP: send each message by itself."
_FULL = Refusal(503, "Too many clients are connected.")
_NO_PATH = Refusal(404, f"There is nothing here: the agent is at {PATH}.")


class _ClientGoneError(Exception):
    """It hung up amid its request."""


class Endpoint:
    """:param gate: who may come in.
    :param clients: those that are connected.
    :param is_stored: whether there is a session with this id.
    """

    def __init__(self, gate: Gate, clients: Clients, is_stored: Callable[[str], Awaitable[bool]]) -> None:
        self._gate = gate
        self._clients = clients
        self._is_stored = is_stored

    async def __call__(self, scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        """Answer one request, or talk over one WebSocket."""
        if scope["type"] == "http":
            with suppress(_ClientGoneError):
                await self._http(scope, receive, send)
        elif scope["type"] == "websocket":
            await self._websocket(scope, receive, send)
        else:
            await _lifespan(receive, send)

    async def _websocket(self, scope: WebsocketScope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        await receive()  # websocket.connect
        refusal = self._gate.refusal(Headers(scope["headers"]))
        if refusal is None and scope["path"] not in (PATH, MARIMO_PATH):
            refusal = _NO_PATH
        if refusal is None and self._clients.full:
            refusal = _FULL
        if refusal is not None:
            headers = _headers(_TEXT, refusal)
            await send({"type": "websocket.http.response.start", "status": refusal.status, "headers": headers})
            body = f"{refusal.sentence}\n".encode()
            await send({"type": "websocket.http.response.body", "body": body, "more_body": False})
            return
        connection_id = self._clients.new_id()
        said = [(CONNECTION_ID.encode(), connection_id.encode())]
        await send({"type": "websocket.accept", "subprotocol": None, "headers": said})
        transport = WebSocketTransport(receive, send, takes_binary=scope["path"] == MARIMO_PATH)
        client = self._clients.connect(connection_id, transport)
        await client.ended.wait()

    async def _http(self, scope: HTTPScope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        headers, method = Headers(scope["headers"]), scope["method"]
        answer = _Answer(receive, send)
        refusal = self._gate.refusal(headers)
        if refusal is None and scope["path"] != PATH:
            refusal = _NO_PATH
        if refusal is not None:
            await answer.refuse(refusal)
        elif method == "POST":
            await self._post(headers, answer)
        elif method == "GET":
            await self._get(headers, answer)
        elif method == "DELETE":
            await self._delete(headers, answer)
        else:
            await answer.refuse(Refusal(405, "POST, GET and DELETE are all there is."))

    async def _post(self, headers: Headers, answer: _Answer) -> None:
        if (headers.get("content-type") or "").partition(";")[0].strip().lower() != _JSON:
            await answer.refuse(Refusal(415, f"The Content-Type has to be {_JSON}."))
            return
        body = await answer.body(MAX_LINE_BYTES)
        if body is None:
            sentence = f"The message is longer than {MAX_LINE_BYTES} bytes and was discarded. Send less in one message."
            await answer.error(413, RpcError(INVALID_REQUEST, sentence))
            return
        try:
            message = decode(body)
        except RpcError as error:
            await answer.error(400, error)
            return
        if isinstance(message, list):
            await answer.error(501, RpcError(INVALID_REQUEST, _BATCH))
        elif not isinstance(message, dict):
            await answer.error(400, RpcError(INVALID_REQUEST, "A message has to be an object."))
        elif message.get("method") == methods.INITIALIZE and not headers.has(CONNECTION_ID):
            await self._initialize(message, in_one_line(body), answer)
        else:
            await self._forward(message, in_one_line(body), headers, answer)

    async def _initialize(self, message: JsonObject, line: bytes, answer: _Answer) -> None:
        id = message.get("id")
        if isinstance(id, bool) or not isinstance(id, int | str):
            await answer.error(400, RpcError(INVALID_REQUEST, "initialize is a request: give it an id."))
            return
        if self._clients.full:
            await answer.refuse(_FULL)
            return
        transport = self._clients.connect_http()
        greeted = False
        try:
            said = await transport.greet(message, line)
            if said is None:
                await answer.error(500, RpcError(INTERNAL_ERROR, "The connection ended at once."), id)
                return
            result = said.get("result")
            if isinstance(result, dict):
                greeted = True
                result["connectionId"] = transport.connection_id
            await answer.json(200, said, {CONNECTION_ID: transport.connection_id} if greeted else {})
        finally:
            if not greeted:
                self._clients.disconnect(transport.connection_id)

    async def _forward(self, message: JsonObject, line: bytes, headers: Headers, answer: _Answer) -> None:
        connection = self._connection(headers)
        if isinstance(connection, Refusal):
            await answer.refuse(connection)
            return
        try:
            await connection.post(message, line, headers.get(SESSION_ID))
        except RouteError as error:
            await answer.refuse(Refusal(400, str(error)))
        except anyio.ClosedResourceError:
            await answer.refuse(_unknown())
        else:
            await answer.empty(202)

    async def _get(self, headers: Headers, answer: _Answer) -> None:
        if _EVENTS not in (headers.get("accept") or "").lower():
            await answer.refuse(
                Refusal(406, f"Accept has to have {_EVENTS}, or the request to be an upgrade to websocket.")
            )
            return
        connection, session_id = self._connection(headers), headers.get(SESSION_ID)
        if isinstance(connection, Refusal):
            await answer.refuse(connection)
            return
        if session_id is not None and not connection.knows(session_id) and not await self._is_stored(session_id):
            await answer.refuse(Refusal(404, "There is no session with this Acp-Session-Id."))
            return
        reader = connection.reader(session_id)
        if reader is None:
            await answer.refuse(Refusal(409, "This stream is being read already."))
            return
        try:
            with reader:
                await answer.stream(reader.next)
        finally:
            connection.left()

    async def _delete(self, headers: Headers, answer: _Answer) -> None:
        connection = self._connection(headers)
        if isinstance(connection, Refusal):
            await answer.refuse(connection)
            return
        self._clients.disconnect(connection.connection_id)
        await answer.empty(202)

    def _connection(self, headers: Headers) -> HttpTransport | Refusal:
        connection_id = headers.get(CONNECTION_ID)
        if connection_id is None:
            return Refusal(400, "Name the connection in the header Acp-Connection-Id; initialize begins one.")
        return self._clients.by_http(connection_id) or _unknown()


class _Answer:
    """The response to one request."""

    def __init__(self, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        self._receive = receive
        self._send = send
        self._body_read = False

    async def body(self, limit: int) -> bytes | None:
        """The request's body; None where it is longer than so many bytes, of which nothing is kept.

        :raises _ClientGoneError: it ended before its end.
        """
        parts: list[bytes] = []
        size = 0
        while not self._body_read:
            message = await self._receive()
            if message["type"] != "http.request":
                raise _ClientGoneError
            part = message.get("body", b"")
            size += len(part)
            if size <= limit:
                parts.append(part)
            else:
                parts.clear()
            self._body_read = not message.get("more_body", False)
        return b"".join(parts) if size <= limit else None

    async def empty(self, status: int) -> None:
        """Nothing but a status."""
        await self._whole(status, [], b"")

    async def refuse(self, refusal: Refusal) -> None:
        """A sentence."""
        await self._whole(refusal.status, _headers(_TEXT, refusal), f"{refusal.sentence}\n".encode())

    async def error(self, status: int, error: RpcError, id: int | str | None = None) -> None:
        """An error of JSON-RPC."""
        await self.json(status, error_message(id, error), {})

    async def json(self, status: int, value: JsonValue, more: dict[str, str]) -> None:
        """A message."""
        headers = [(name.encode(), text.encode()) for name, text in {"content-type": _JSON, **more}.items()]
        await self._whole(status, headers, encode(value))

    async def stream(self, following: Callable[[], Awaitable[bytes | None]]) -> None:
        """Events, one for each message, until there are no more or the client goes."""
        headers = [(b"content-type", _EVENTS.encode()), (b"cache-control", b"no-cache"), (b"x-accel-buffering", b"no")]
        await self._send({"type": "http.response.start", "status": 200, "headers": headers, "trailers": False})
        await self._part(b":\n\n")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._until_gone, tasks.cancel_scope)
            while True:
                message: bytes | None = b""
                with anyio.move_on_after(KEEP_ALIVE_SECONDS):
                    message = await following()
                if message is None:
                    break
                await self._part(b"data: " + message + b"\n\n" if message else b":\n\n")
            tasks.cancel_scope.cancel()
        await self._part(b"", more=False)

    async def _until_gone(self, scope: anyio.CancelScope) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        scope.cancel()

    async def _whole(self, status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> None:
        # A client may not look at the response before it has sent all of its request.
        await self.body(0)
        headers = [*headers, (b"content-length", str(len(body)).encode())]
        await self._send({"type": "http.response.start", "status": status, "headers": headers, "trailers": False})
        await self._part(body, more=False)

    async def _part(self, body: bytes, *, more: bool = True) -> None:
        await self._send({"type": "http.response.body", "body": body, "more_body": more})


def _headers(kind: str, refusal: Refusal) -> list[tuple[bytes, bytes]]:
    headers = [(b"content-type", kind.encode())]
    if refusal.status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    if refusal.status == 405:
        headers.append((b"allow", b"POST, GET, DELETE"))
    return headers


def _unknown() -> Refusal:
    return Refusal(404, "There is no connection with this Acp-Connection-Id: begin another with initialize.")


async def _lifespan(receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
    while (await receive())["type"] != "lifespan.shutdown":
        await send({"type": "lifespan.startup.complete"})
    await send({"type": "lifespan.shutdown.complete"})
