"""`Endpoint`: the one address that clients speak to, as an ASGI application. GET with an upgrade is a WebSocket; POST,
GET and DELETE are streamable HTTP.

Owns the methods, the headers and the statuses. Does not know what a message says but for `initialize`.

ACP, RFD "Streamable HTTP & WebSocket Transport".
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import anyio

from acp_agent.jsonrpc.framing import MAX_LINE_BYTES
from acp_agent.jsonrpc.messages import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    JsonObject,
    RpcError,
    decode,
)
from acp_agent.protocol.v1 import methods
from acp_agent.server.web.answer import EVENTS, JSON, Answer, ClientGoneError, NoRoomError, refusal_headers
from acp_agent.server.web.clients import Clients
from acp_agent.server.web.cors import preflight_headers, shared_with
from acp_agent.server.web.gate import Gate, Headers, Refusal, RepeatedHeaderError
from acp_agent.server.web.guests import Guests, ends_of
from acp_agent.server.web.http_transport import HttpTransport, RouteError
from acp_agent.server.web.room import Room
from acp_agent.server.web.websocket_transport import WebSocketTransport, in_one_line

if TYPE_CHECKING:
    from hypercorn.typing import ASGIReceiveCallable, ASGISendCallable, HTTPScope, Scope, WebsocketScope

PATH = "/acp"
MARIMO_PATH = "/message"
"""Where marimo, which cannot be told another, opens its WebSocket; its messages are binary frames."""
CONNECTION_ID = "acp-connection-id"
SESSION_ID = "acp-session-id"
_ASKS_FIRST = "access-control-request-method"
_BATCH = "Batches are not taken over HTTP: send each message by itself."
_FULL = Refusal(503, "Too many clients are connected.")
_NO_ROOM = "Other clients are sending too much at the same time; this was discarded. Send it again."
_NO_PATH = Refusal(404, f"There is nothing here: the agent is at {PATH}.")


class Endpoint:
    """:param gate: who may come in.
    :param clients: those that are connected.
    :param guests: is told over which connections somebody was let in.
    :param room: for messages that are not whole yet, or not taken.
    """

    def __init__(self, gate: Gate, clients: Clients, guests: Guests, room: Room) -> None:
        self._gate = gate
        self._clients = clients
        self._guests = guests
        self._room = room

    async def __call__(self, scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        """Answer one request, or talk over one WebSocket."""
        if scope["type"] == "http":
            with suppress(ClientGoneError):
                await self._http(scope, receive, send)
        elif scope["type"] == "websocket":
            await self._websocket(scope, receive, send)

    async def _websocket(self, scope: WebsocketScope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        await receive()  # websocket.connect
        refusal = self._refusal(Headers(scope["headers"]), scope)
        if refusal is None and scope["path"] not in (PATH, MARIMO_PATH):
            refusal = _NO_PATH
        if refusal is None and self._clients.full:
            refusal = _FULL
        if refusal is not None:
            headers = refusal_headers(refusal)
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
        headers, method, ends = Headers(scope["headers"]), scope["method"], ends_of(scope)
        try:
            origin = self._gate.named_origin(headers)
        except RepeatedHeaderError:
            origin = None  # no browser sends that
        answer = Answer(receive, send, shared_with(origin))
        preflight = method == "OPTIONS" and origin is not None and headers.has(_ASKS_FIRST)
        refusal = self._refusal(headers, scope, preflight=preflight)
        if refusal is None and scope["path"] != PATH:
            refusal = _NO_PATH
        if refusal is not None:
            await answer.turn_away(refusal, lambda: self._guests.cut_off(ends))
        elif preflight:
            await answer.empty(204, preflight_headers())
        else:
            try:
                await self._answer(method, headers, answer)
            except RepeatedHeaderError as error:
                await answer.refuse(Refusal(400, str(error)))

    def _refusal(
        self, headers: Headers, scope: HTTPScope | WebsocketScope, *, preflight: bool = False
    ) -> Refusal | None:
        try:
            refusal = self._gate.refusal(headers, preflight=preflight)
        except RepeatedHeaderError as error:
            return Refusal(400, str(error))
        if refusal is None and not preflight:
            self._guests.let_in(ends_of(scope))
        return refusal

    async def _answer(self, method: str, headers: Headers, answer: Answer) -> None:
        if method == "POST":
            await self._post(headers, answer)
        elif method == "GET":
            await self._get(headers, answer)
        elif method == "DELETE":
            await self._delete(headers, answer)
        else:
            await answer.refuse(Refusal(405, "POST, GET and DELETE are all there is."))

    async def _post(self, headers: Headers, answer: Answer) -> None:
        if (headers.get("content-type") or "").partition(";")[0].strip().lower() != JSON:
            await answer.refuse(Refusal(415, f"The Content-Type has to be {JSON}."))
            return
        with self._room.share() as share:
            try:
                body = await answer.body(MAX_LINE_BYTES, share)
            except NoRoomError:
                share.give_back()  # the rest may take its time
                await answer.error(503, RpcError(INTERNAL_ERROR, _NO_ROOM))
            else:
                await self._take(body, headers, answer)

    async def _take(self, body: bytes | None, headers: Headers, answer: Answer) -> None:
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

    async def _initialize(self, message: JsonObject, line: bytes, answer: Answer) -> None:
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

    async def _forward(self, message: JsonObject, line: bytes, headers: Headers, answer: Answer) -> None:
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

    async def _get(self, headers: Headers, answer: Answer) -> None:
        if EVENTS not in headers.listed("accept").lower():
            await answer.refuse(
                Refusal(406, f"Accept has to have {EVENTS}, or the request to be an upgrade to websocket.")
            )
            return
        connection, session_id = self._connection(headers), headers.get(SESSION_ID)
        if isinstance(connection, Refusal):
            await answer.refuse(connection)
            return
        # Of a session that is none as well: the request that named it is answered there. The draft wants a 404, which
        # the TypeScript SDK takes for the end of the connection: one mistaken id would end all its sessions.
        try:
            with connection.reader(session_id) as reader:
                await answer.stream(reader.next)
        finally:
            connection.left()

    async def _delete(self, headers: Headers, answer: Answer) -> None:
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


def _unknown() -> Refusal:
    return Refusal(404, "There is no connection with this Acp-Connection-Id: begin another with initialize.")
