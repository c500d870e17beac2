"""`Answer`: the response to one request over HTTP, and the body of that request. Knows neither methods nor who asks."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import anyio

from acp_agent.jsonrpc.messages import JsonValue, RpcError, encode, error_message
from acp_agent.server.web.cors import HeaderPairs
from acp_agent.server.web.gate import Refusal
from acp_agent.server.web.room import Share

if TYPE_CHECKING:
    from hypercorn.typing import ASGIReceiveCallable, ASGISendCallable

JSON = "application/json"
EVENTS = "text/event-stream"
KEEP_ALIVE_SECONDS = 15.0
"""After so long without a message, a stream gets a comment, so that nothing between takes it for dead."""
LINGER_SECONDS = 2.0
"""For what is still on the way of a request that was refused: closing before could lose the refusal."""
STALL_SECONDS = 60.0
"""Within which more of a request's body has to come; a machine that was switched off says nothing of its going."""
_TEXT = b"text/plain; charset=utf-8"
_STALLED = Refusal(408, f"Nothing more of the body came for {STALL_SECONDS:g} seconds.")


class ClientGoneError(Exception):
    """It hung up amid its request."""


class NoRoomError(Exception):
    """There is no room for the body of a request."""


class Answer:
    """:param receive: what comes.
    :param send: where to send.
    :param shared: headers of every answer.
    """

    def __init__(self, receive: ASGIReceiveCallable, send: ASGISendCallable, shared: HeaderPairs | None = None) -> None:
        self._receive = receive
        self._send = send
        self._shared = shared or []
        self._body_read = False

    async def body(self, limit: int, share: Share | None = None) -> bytes | None:
        """The request's body; None where it is longer than so many bytes, of which nothing is kept.

        :param share: of the room for it.
        :raises NoRoomError: there is not enough; the rest of it is still to be read.
        :raises ClientGoneError: it ended before its end, or came to a standstill.
        """
        parts: list[bytes] = []
        size = 0
        while not self._body_read:
            message = None
            with anyio.move_on_after(STALL_SECONDS):
                message = await self._receive()
            if message is None:
                await self._start(_STALLED.status, refusal_headers(_STALLED), _body(_STALLED))
                await self._part(b"", more=False)
            if message is None or message["type"] != "http.request":
                raise ClientGoneError
            part = message.get("body", b"")
            size += len(part)
            if size > limit:
                parts.clear()
                if share is not None:
                    share.give_back()
            elif share is not None and not share.take(len(part)):
                raise NoRoomError
            else:
                parts.append(part)
            self._body_read = not message.get("more_body", False)
        return b"".join(parts) if size <= limit else None

    async def turn_away(self, refusal: Refusal, cut_off: Callable[[], None]) -> None:
        """Refuse a request by its headers, before its body has come.

        :param cut_off: called where the body goes on and on.
        :raises ClientGoneError: it hung up, with the refusal or without.
        """
        await self._start(refusal.status, refusal_headers(refusal), _body(refusal))
        with anyio.move_on_after(LINGER_SECONDS):
            await self.body(0)
        if not self._body_read:
            cut_off()
            await self.body(0)
        await self._part(b"", more=False)

    async def empty(self, status: int, headers: HeaderPairs | None = None) -> None:
        """Nothing but a status."""
        await self._whole(status, headers or [], b"")

    async def refuse(self, refusal: Refusal) -> None:
        """A sentence."""
        await self._whole(refusal.status, refusal_headers(refusal), _body(refusal))

    async def error(self, status: int, error: RpcError, id: int | str | None = None) -> None:
        """An error of JSON-RPC."""
        await self.json(status, error_message(id, error), {})

    async def json(self, status: int, value: JsonValue, more: dict[str, str]) -> None:
        """A message."""
        headers = [(name.encode(), text.encode()) for name, text in {"content-type": JSON, **more}.items()]
        await self._whole(status, headers, encode(value))

    async def stream(self, following: Callable[[], Awaitable[bytes | None]]) -> None:
        """Events, one for each message, until there are no more or the client goes."""
        headers = [(b"content-type", EVENTS.encode()), (b"cache-control", b"no-cache"), (b"x-accel-buffering", b"no")]
        await self._head(200, headers)
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

    async def _whole(self, status: int, headers: HeaderPairs, body: bytes) -> None:
        # A client may not look at the response before it has sent all of its request.
        await self.body(0)
        await self._start(status, headers, body)
        await self._part(b"", more=False)

    async def _start(self, status: int, headers: HeaderPairs, body: bytes) -> None:
        """All of the answer but its end."""
        length = [] if status == 204 else [(b"content-length", str(len(body)).encode())]
        await self._head(status, [*headers, *length])
        await self._part(body)

    async def _head(self, status: int, headers: HeaderPairs) -> None:
        headers = [*headers, *self._shared]
        await self._send({"type": "http.response.start", "status": status, "headers": headers, "trailers": False})

    async def _part(self, body: bytes, *, more: bool = True) -> None:
        await self._send({"type": "http.response.body", "body": body, "more_body": more})


def refusal_headers(refusal: Refusal) -> HeaderPairs:
    """Of an answer that is a sentence."""
    headers = [(b"content-type", _TEXT)]
    if refusal.status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    if refusal.status == 405:
        headers.append((b"allow", b"POST, GET, DELETE"))
    return headers


def _body(refusal: Refusal) -> bytes:
    return f"{refusal.sentence}\n".encode()
