"""HTTP/2 over one connection, as a transport of httpx2: all that a client asks for goes side by side.

httpx2's own transport lets its requests read in turn, and whoever reads waits for the next byte, though what came last
was another's answer: with two open streams an answer may lie there unread for as long as neither is told anything.
Here one task reads for all, and what came first is taken first, on whatever stream it came.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator

import anyio
import anyio.lowlevel
import httpx2
from anyio.abc import SocketStream, TaskGroup
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import DataReceived, Event, ResponseReceived, StreamEnded, StreamReset

WINDOW = 1 << 24
CHUNK = 1 << 16
TURNS = 10
"""Of the event loop, for whoever waits for something to take it."""


class OneConnection(httpx2.AsyncBaseTransport):
    """All requests go to the host of the first one.

    Args:
        tasks: Where what comes is read; to be cancelled when no more is asked for.
        window: Bytes that may come of one answer before they are taken.
    """

    def __init__(self, tasks: TaskGroup, window: int = WINDOW) -> None:
        self._tasks = tasks
        self._window = window
        self._state = H2Connection(H2Configuration(header_encoding=None))
        self._socket: SocketStream | None = None
        self._sending = anyio.Lock()
        self._changed = anyio.Event()
        self._received: dict[int, list[Event]] = {}
        self._over = False

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send all of it, and wait for the head of the answer.

        Raises:
            httpx2.RemoteProtocolError: The host ended the connection, or this request.
        """
        await self._connect(request.url)
        stream = self._state.get_next_available_stream_id()
        self._received[stream] = []
        named = [(name.lower(), value) for name, value in request.headers.raw if name.lower() != b"host"]
        method, authority = request.method.encode(), request.url.netloc
        to = [(b":method", method), (b":authority", authority), (b":scheme", b"http"), (b":path", request.url.raw_path)]
        self._state.send_headers(stream, to + named)
        self._state.increment_flow_control_window(self._window, stream)
        await self._flush()
        assert isinstance(request.stream, AsyncIterable)
        async for chunk in request.stream:
            await self._send(stream, chunk)
        self._state.end_stream(stream)
        await self._flush()
        while not isinstance(head := await self._next(stream), ResponseReceived):
            pass
        assert head.headers is not None
        fields = [(bytes(name), bytes(value)) for name, value in head.headers]
        return httpx2.Response(
            int(dict(fields)[b":status"]),
            headers=[field for field in fields if not field[0].startswith(b":")],
            stream=Body(self, stream),
            extensions={"http_version": b"HTTP/2"},
        )

    async def body(self, stream: int) -> AsyncIterator[bytes]:
        """What the host says on one stream, until it has ended it."""
        while not isinstance(event := await self._next(stream), StreamEnded):
            if isinstance(event, DataReceived):
                yield event.data or b""
                self._state.acknowledge_received_data(event.flow_controlled_length or 0, stream)
                await self._flush()

    async def aclose(self) -> None:
        """Hang up."""
        if self._socket is not None:
            await self._socket.aclose()

    async def _connect(self, url: httpx2.URL) -> None:
        async with self._sending:
            if self._socket is not None:
                return
            self._socket = await anyio.connect_tcp(url.host, url.port or 80)
            self._state.initiate_connection()
            self._state.increment_flow_control_window(WINDOW)
        self._tasks.start_soon(self._read, self._socket)

    async def _send(self, stream: int, data: bytes) -> None:
        view = memoryview(data)
        while view:
            room = min(self._state.local_flow_control_window(stream), self._state.max_outbound_frame_size, len(view))
            if room > 0:
                self._state.send_data(stream, bytes(view[:room]))
                view = view[room:]
                await self._flush()
            else:
                await self._wait()

    async def _next(self, stream: int) -> Event:
        while not self._received[stream]:
            await self._wait()
        event = self._received[stream].pop(0)
        if isinstance(event, StreamReset):
            raise httpx2.RemoteProtocolError(f"The stream was reset: {event.error_code}")
        return event

    async def _wait(self) -> None:
        """Until something has come."""
        if self._over:
            raise httpx2.RemoteProtocolError("The host ended the connection.")
        await self._changed.wait()

    async def _read(self, socket: SocketStream) -> None:
        try:
            while True:
                for event in self._state.receive_data(await socket.receive(CHUNK)):
                    if isinstance(event, (ResponseReceived, DataReceived, StreamEnded, StreamReset)):
                        await self._give(event, self._received[event.stream_id or 0])
                self._wake()  # those who wait for room
                await self._flush()
        except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
            self._over = True
            self._wake()

    async def _give(self, event: Event, to: list[Event]) -> None:
        to.append(event)
        self._wake()
        for _ in range(TURNS):
            if not to:
                return
            await anyio.lowlevel.checkpoint()

    def _wake(self) -> None:
        changed, self._changed = self._changed, anyio.Event()
        changed.set()

    async def _flush(self) -> None:
        async with self._sending:
            assert self._socket is not None
            if data := self._state.data_to_send():
                await self._socket.send(data)


class Body(httpx2.AsyncByteStream):
    """What comes on one stream."""

    def __init__(self, connection: OneConnection, stream: int) -> None:
        self._connection = connection
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for data in self._connection.body(self._stream):
            yield data
