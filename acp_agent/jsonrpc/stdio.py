"""Moves bytes: lines in and out over two file descriptors, or over the pipes of a child process.

Owns descriptors, readiness and partial writes. Does not know what a line means.

Nothing here sets O_NONBLOCK. The flag belongs to the open file description, which the parent, a shell around us or a
terminal may share, and would outlive us there. Instead: sockets are written with MSG_DONTWAIT; pipes only when poll
says there is room, and then at most PIPE_BUF bytes, which POSIX promises to take without blocking; everything else
(regular files, terminals) in a worker thread. Pipes, sockets and terminals are read when they are readable, other
files in a worker thread; a thread that hangs in read(2) would keep the process alive until the editor closes the pipe.
"""

from __future__ import annotations

import os
import select
import socket
import stat
from typing import Protocol

import anyio
import anyio.abc
import anyio.to_thread

from acp_agent.jsonrpc.descriptors import claim_descriptors
from acp_agent.jsonrpc.framing import MAX_LINE_BYTES, LineBuffer

_CHUNK_BYTES = 64 * 1024


class Transport(Protocol):
    """A two-way stream of lines. One task reads, one task writes."""

    async def read_line(self) -> bytes | None:
        """The next line without its `\\n`, or None at the end of the stream.

        :raises LineTooLongError: in the place of a line beyond the limit; reading can go on.
        """
        ...

    async def write(self, data: bytes) -> None:
        """Write all of `data`, which is one or more whole lines. A call that is cancelled may have written a part.

        :raises OSError: when nobody reads at the other end any more.
        :raises anyio.BrokenResourceError: the same, from the pipe to a child process.
        :raises anyio.ClosedResourceError: after `aclose`.
        """
        ...

    async def aclose(self) -> None:
        """Give up both directions."""
        ...


class StdioTransport:
    """Lines over a pair of file descriptors, which it owns from now on.

    :param read_fd: pipe, socket, terminal or file to read from.
    :param write_fd: pipe, socket, terminal or file to write to.
    :param initial: bytes that were already read from `read_fd`.
    :param max_line: longest line accepted, in bytes.
    """

    def __init__(self, read_fd: int, write_fd: int, *, initial: bytes = b"", max_line: int = MAX_LINE_BYTES) -> None:
        self._read_fd = read_fd
        self._lines = LineBuffer(max_line)
        self._lines.feed(initial)
        self._at_eof = False
        self._closed = False
        self._polls_input = _is_pollable_input(read_fd)
        self._output = _output(write_fd)

    async def read_line(self) -> bytes | None:
        while (line := self._lines.pop()) is None:
            if self._at_eof or self._closed:
                return None
            if chunk := await self._read():
                self._lines.feed(chunk)
            else:
                self._at_eof = True
                self._lines.feed_eof()
        return line

    async def write(self, data: bytes) -> None:
        if self._closed:
            raise anyio.ClosedResourceError
        await self._output.write(data)

    async def aclose(self) -> None:
        if not self._closed:
            self._closed = True
            anyio.notify_closing(self._read_fd)
            os.close(self._read_fd)
            self._output.close()

    async def _read(self) -> bytes:
        """Some bytes, or none at the end of the stream."""
        while True:
            try:
                if self._polls_input:
                    await self._wait_for_input()
                if self._polls_input:
                    return os.read(self._read_fd, _CHUNK_BYTES)
                return await anyio.to_thread.run_sync(os.read, self._read_fd, _CHUNK_BYTES, abandon_on_cancel=True)
            except BlockingIOError:  # woken for nothing, and somebody else made the descriptor non-blocking
                continue
            except (OSError, anyio.ClosedResourceError):  # a reset socket, a terminal that hung up, our own aclose
                return b""

    async def _wait_for_input(self) -> None:
        try:
            await anyio.wait_readable(self._read_fd)
        except OSError:  # the poller cannot watch this kind of file after all
            self._polls_input = False


class ProcessTransport:
    """Lines over the stdin and stdout of a child process, which stays its owner's to wait for and to kill.

    :param process: started with pipes for stdin and stdout.
    :param max_line: longest line accepted, in bytes.
    :raises ValueError: when one of the two pipes is missing.
    """

    def __init__(self, process: anyio.abc.Process, *, max_line: int = MAX_LINE_BYTES) -> None:
        if process.stdin is None or process.stdout is None:
            raise ValueError("the process must be started with pipes for stdin and stdout")
        self._stdin = process.stdin
        self._stdout = process.stdout
        self._lines = LineBuffer(max_line)
        self._at_eof = False

    async def read_line(self) -> bytes | None:
        while (line := self._lines.pop()) is None:
            if self._at_eof:
                return None
            try:
                self._lines.feed(await self._stdout.receive())
            except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
                self._at_eof = True
                self._lines.feed_eof()
        return line

    async def write(self, data: bytes) -> None:
        await self._stdin.send(data)

    async def aclose(self) -> None:
        """Close the child's stdin, which tells it to end, and stop reading."""
        await self._stdin.aclose()
        await self._stdout.aclose()


def claim_stdio(
    *,
    read_fd: int | None = None,
    write_fd: int | None = None,
    initial: bytes = b"",
    max_line: int = MAX_LINE_BYTES,
) -> StdioTransport:
    """Make the process's stdin and stdout the wire and take them away from everybody else.

    :param read_fd: with `write_fd`, the result of an earlier `claim_descriptors`; otherwise it is called here.
    :param write_fd: see `read_fd`.
    :param initial: bytes that were already read from the wire.
    :param max_line: longest line accepted, in bytes.
    :raises OSError: when there is no stdout.
    """
    if read_fd is None or write_fd is None:
        read_fd, write_fd = claim_descriptors()
    return StdioTransport(read_fd, write_fd, initial=initial, max_line=max_line)


class _Output(Protocol):
    async def write(self, data: bytes) -> None: ...

    def close(self) -> None: ...


class _PipeOutput:
    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._poll = select.poll()
        self._poll.register(fd, select.POLLOUT)

    async def write(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            if self._poll.poll(0):
                rest = rest[os.write(self._fd, rest[: select.PIPE_BUF]) :]
            else:
                await anyio.wait_writable(self._fd)

    def close(self) -> None:
        anyio.notify_closing(self._fd)
        os.close(self._fd)


class _SocketOutput:
    def __init__(self, fd: int) -> None:
        self._socket = socket.socket(fileno=fd)

    async def write(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            try:
                rest = rest[self._socket.send(rest, socket.MSG_DONTWAIT) :]
            except BlockingIOError:
                await anyio.wait_writable(self._socket)

    def close(self) -> None:
        anyio.notify_closing(self._socket)
        self._socket.close()


class _FileOutput:
    def __init__(self, fd: int) -> None:
        self._fd = fd

    async def write(self, data: bytes) -> None:
        await anyio.to_thread.run_sync(self._write_all, data)

    def close(self) -> None:
        os.close(self._fd)

    def _write_all(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(self._fd, rest) :]


def _output(fd: int) -> _Output:
    mode = os.fstat(fd).st_mode
    if stat.S_ISSOCK(mode):
        return _SocketOutput(fd)
    return _PipeOutput(fd) if stat.S_ISFIFO(mode) else _FileOutput(fd)


def _is_pollable_input(fd: int) -> bool:
    # kqueue accepts a regular file and then never reports its end, so that asking the poller is not enough.
    mode = os.fstat(fd).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(fd)
