"""`WebSocketTransport`: a connection over a WebSocket. A message is a text frame; binary frames are ignored
where nobody has asked for them.

ACP, RFD "Streamable HTTP & WebSocket Transport".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio

from acp_agent.jsonrpc.messages import RpcError, decode, encode

if TYPE_CHECKING:
    from hypercorn.typing import ASGIReceiveCallable, ASGISendCallable

GOING_AWAY = 1001
_CLOSING_SECONDS = 0.5
"""For a client that does not read."""


class WebSocketTransport:
    """See `Transport`. To be made when the upgrade was accepted.

    :param receive: what comes.
    :param send: where to send.
    :param takes_binary: whether binary frames are messages as well.
    """

    def __init__(self, receive: ASGIReceiveCallable, send: ASGISendCallable, *, takes_binary: bool = False) -> None:
        self._receive = receive
        self._send = send
        self._takes_binary = takes_binary
        self._gone = False
        self._closed = False

    async def read_line(self) -> bytes | None:
        """See `Transport`."""
        while not self._gone:
            message = await self._receive()
            if message["type"] == "websocket.disconnect":
                self._gone = True
            elif message["type"] == "websocket.receive":
                if (text := message.get("text")) is not None:
                    return in_one_line(text.encode())
                if self._takes_binary and (data := message.get("bytes")) is not None:
                    return in_one_line(data)
        return None

    async def write(self, data: bytes) -> None:
        """See `Transport`."""
        for line in data.split(b"\n"):
            if self._gone or self._closed:
                raise anyio.ClosedResourceError
            if line:
                await self._send({"type": "websocket.send", "bytes": None, "text": line.decode()})

    async def aclose(self) -> None:
        """See `Transport`."""
        if self._gone or self._closed:
            return
        self._closed = True
        with anyio.move_on_after(_CLOSING_SECONDS):
            await self._send({"type": "websocket.close", "code": GOING_AWAY, "reason": None})


def in_one_line(data: bytes) -> bytes:
    """A message that its sender has broken into lines, in one. What is no JSON stays as it is."""
    if b"\n" not in data:
        return data
    try:
        return encode(decode(data)).rstrip(b"\n")
    except RpcError:
        return data
