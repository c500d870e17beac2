"""`Streams`: what waits for a client that fetches it, stream by stream. Bounded: who puts something in waits for room.

Owns the order within a stream and who reads it. Does not know what a message says.
"""

from __future__ import annotations

from collections import deque
from typing import Self

import anyio

MAX_WAITING_BYTES = 16 * 1024 * 1024
"""Of all streams of one connection together; one more message may go beyond it."""


class _Stream:
    def __init__(self) -> None:
        self.messages: deque[bytes] = deque()
        self.changed = anyio.Event()
        self.reader: Reader | None = None
        self.is_passed_on = True

    def wake(self) -> None:
        self.changed.set()
        self.changed = anyio.Event()


class Streams:
    """The streams of one connection: None is the connection's own, the others are sessions'.

    :param max_bytes: what may wait in all of them together.
    """

    def __init__(self, max_bytes: int = MAX_WAITING_BYTES) -> None:
        self._max_bytes = max_bytes
        self._streams: dict[str | None, _Stream] = {}
        self._bytes = 0
        self._closed = False
        self._room = anyio.Event()

    @property
    def are_read(self) -> bool:
        """Whether any of them is being read."""
        return any(stream.reader is not None for stream in self._streams.values())

    def is_read(self, session_id: str | None) -> bool:
        """Whether somebody reads a stream."""
        stream = self._streams.get(session_id)
        return stream is not None and stream.reader is not None

    async def put(self, session_id: str | None, message: bytes) -> None:
        """Put a message into a stream, which need not be read yet.

        :raises anyio.ClosedResourceError: after `close`.
        """
        while self._bytes >= self._max_bytes and not self._closed:
            self._room = anyio.Event()
            await self._room.wait()
        if self._closed:
            raise anyio.ClosedResourceError
        stream = self._streams.setdefault(session_id, _Stream())
        stream.messages.append(message)
        stream.is_passed_on = False
        self._bytes += len(message)
        stream.wake()

    async def passed_on(self, session_id: str | None) -> None:
        """Wait until all that is in a stream was passed on by who reads it, if somebody does."""
        stream = self._streams.get(session_id)
        while stream is not None and stream.reader is not None and not stream.is_passed_on and not self._closed:
            await stream.changed.wait()

    def reader(self, session_id: str | None) -> Reader:
        """Begin to read a stream. Whoever read it before is at its end: nobody tells the agent that a client has lost
        one, and comes for another."""
        stream = self._streams.setdefault(session_id, _Stream())
        stream.reader = Reader(self, session_id, stream)
        stream.wake()
        return stream.reader

    def close(self) -> None:
        """Nothing more is put in; who reads gets what is there, and then the end."""
        self._closed = True
        self._room.set()
        for stream in self._streams.values():
            stream.wake()

    async def take(self, stream: _Stream, reader: Reader) -> bytes | None:
        """For `Reader`."""
        while stream.reader is reader:
            if stream.messages:
                message = stream.messages.popleft()
                self._bytes -= len(message)
                self._room.set()
                return message
            if not stream.is_passed_on:
                stream.is_passed_on = True
                stream.wake()
            if self._closed:
                return None
            await stream.changed.wait()
        return None

    def leave(self, session_id: str | None, stream: _Stream, reader: Reader) -> None:
        """For `Reader`."""
        if stream.reader is not reader:
            return
        stream.reader = None
        stream.wake()
        if not stream.messages:
            self._streams.pop(session_id, None)


class Reader:
    """Reads one stream, until somebody else does; a context manager."""

    def __init__(self, streams: Streams, session_id: str | None, stream: _Stream) -> None:
        self._streams = streams
        self._session_id = session_id
        self._stream = stream

    async def next(self) -> bytes | None:
        """The next message; None at the end. A message that was taken is not given again."""
        return await self._streams.take(self._stream, self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._streams.leave(self._session_id, self._stream, self)
