"""Lines over a stream: the `Transport` protocol, and lines over file descriptors.

This module never sets O_NONBLOCK. The flag belongs to the open file description, which
the parent, a surrounding shell or a terminal may share, so it would outlive this
process. Instead, sockets are written with MSG_DONTWAIT. Pipes are written when poll
reports room, with at most PIPE_BUF bytes at a time, which POSIX guarantees not to
block. Everything else (regular files, terminals) is written in a worker thread. Pipes,
sockets and terminals are read when they are readable, and other files in a worker
thread. A thread that hangs in read(2) would keep the process alive until the editor
closes the pipe.
"""

from __future__ import annotations

import os
import select
import socket
import stat
from collections import deque
from typing import Protocol

import anyio
import anyio.to_thread

from acp_agent.jsonrpc.messages import InvalidMessageError, id_at_start

MAX_LINE_BYTES = 48 * 1024 * 1024
"""Maximum length of a line. This is more than the 45 MB of base64 images that a request
to a model may contain. Decoding a longer line would delay other sessions.
"""
_CHUNK_BYTES = 64 * 1024
_START_PARTS = 2
"""How many parts of an overlong line are kept to find its ID. The first part may end
anywhere.
"""


class Transport(Protocol):
    """A two-way stream of lines. One task reads, one task writes."""

    async def read_line(self) -> bytes | None:
        """Return the next line without its `\\n`, or None at the end of the stream.

        :raises InvalidMessageError: instead of returning a line above the limit.
            Reading can continue.
        """
        ...

    async def write(self, data: bytes) -> None:
        """Write all of `data`, which is one or more whole lines. A cancelled call may
        have written part of it.

        :raises OSError, anyio.BrokenResourceError: if the other end no longer reads.
        :raises anyio.ClosedResourceError: after `aclose`.
        """
        ...

    async def aclose(self) -> None:
        """Close both directions."""
        ...


class _LineBuffer:
    """Splits a stream of bytes into lines.

    :param limit: maximum length of a line in bytes, without its `\\n`.
    :ivar lines: the complete lines, with an error in place of each overlong line.
    """

    def __init__(self, limit: int) -> None:
        self.lines: deque[bytes | InvalidMessageError] = deque()
        self.limit = limit
        self._parts: list[bytes] = []
        self._size = 0

    def feed(self, chunk: bytes) -> None:
        """Add bytes from the stream."""
        *ends, rest = chunk.split(b"\n")
        for part in ends:
            self._extend(part)
            self._end_line()
        self._extend(rest)

    def feed_eof(self) -> None:
        """End the stream: the bytes after the last `\\n` count as a line."""
        if self._size:
            self._end_line()

    def _extend(self, part: bytes) -> None:
        self._size += len(part)
        if self._size <= self.limit or len(self._parts) < _START_PARTS:
            self._parts.append(part)
        else:
            del self._parts[_START_PARTS:]

    def _end_line(self) -> None:
        line = b"".join(self._parts)
        if self._size <= self.limit:
            self.lines.append(line)
        else:
            text = f"The message has {self._size:,} bytes, and {self.limit:,} are the most. It was not read; send less."
            self.lines.append(InvalidMessageError(text, id_at_start(line)))
        self._parts.clear()
        self._size = 0


class StdioTransport:
    """Lines over a pair of file descriptors, which this transport owns.

    :param read_fd: pipe, socket, terminal or file to read from.
    :param write_fd: pipe, socket, terminal or file to write to.
    :param initial: bytes that were already read from `read_fd`.
    :param max_line: maximum length of a line in bytes.
    """

    def __init__(
        self,
        read_fd: int,
        write_fd: int,
        *,
        initial: bytes = b"",
        max_line: int = MAX_LINE_BYTES,
    ) -> None:
        self._read_fd = read_fd
        self._write_fd = write_fd
        self._buffer = _LineBuffer(max_line)
        self._buffer.feed(initial)
        self._ended = False
        self._closed = False
        mode = os.fstat(read_fd).st_mode
        # kqueue accepts a regular file but never reports its end, so asking the poller
        # is not enough.
        self._polls_input = (
            stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(read_fd)
        )
        mode = os.fstat(write_fd).st_mode
        self._socket = socket.socket(fileno=write_fd) if stat.S_ISSOCK(mode) else None
        self._room = select.poll() if stat.S_ISFIFO(mode) else None
        if self._room is not None:
            self._room.register(write_fd, select.POLLOUT)

    async def read_line(self) -> bytes | None:
        while not self._buffer.lines:
            if self._ended:
                return None
            try:
                if self._polls_input:
                    await anyio.wait_readable(self._read_fd)
                    chunk = os.read(self._read_fd, _CHUNK_BYTES)
                else:
                    chunk = await anyio.to_thread.run_sync(
                        os.read, self._read_fd, _CHUNK_BYTES, abandon_on_cancel=True
                    )
            except (
                BlockingIOError
            ):  # a spurious wake-up after another process set O_NONBLOCK
                continue
            except (
                OSError,
                anyio.ClosedResourceError,
            ):  # a reset socket, a terminal that hung up, our own aclose
                chunk = b""
            self._buffer.feed(chunk)
            if not chunk:
                self._ended = True
                self._buffer.feed_eof()
        line = self._buffer.lines.popleft()
        if isinstance(line, InvalidMessageError):
            raise line
        return line

    async def write(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            if self._closed:
                raise anyio.ClosedResourceError
            if self._room is not None and self._room.poll(0):
                written = os.write(self._write_fd, rest[: select.PIPE_BUF])
            elif self._room is not None:
                await anyio.wait_writable(self._write_fd)
                continue
            elif self._socket is not None:
                try:
                    written = self._socket.send(rest, socket.MSG_DONTWAIT)
                except BlockingIOError:
                    await anyio.wait_writable(self._socket)
                    continue
            else:
                written = await anyio.to_thread.run_sync(os.write, self._write_fd, rest)
            rest = rest[written:]

    async def aclose(self) -> None:
        if self._closed:
            return
        self._closed = self._ended = True
        for fd in (self._read_fd, self._write_fd):
            anyio.notify_closing(fd)
        os.close(self._read_fd)
        if self._socket is not None:
            self._socket.close()
        else:
            os.close(self._write_fd)
