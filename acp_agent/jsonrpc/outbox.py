"""The queue of outgoing messages: bounded, first in first out, written by one task.

A full queue blocks senders in order of arrival. Adjacent notifications may be merged.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TypeAlias

import anyio

from acp_agent.jsonrpc.messages import JsonObject, encode_notification
from acp_agent.jsonrpc.transport import Transport

Merge: TypeAlias = Callable[[JsonObject, JsonObject], "JsonObject | None"]
"""Merges the params of two adjacent notifications of the same method, or returns None.
The result must be bounded.
"""

MAX_QUEUED_MESSAGES = 256
MAX_QUEUED_BYTES = 4 * 1024 * 1024
_WRITE_BYTES = 256 * 1024
_FINAL_WRITE_SECONDS = 0.05
"""Time limit for writing the rest of the queue when the connection ends."""


class Outbox:
    """Queues lines for the writer.

    Senders wait in order of arrival while the queue is full, so that a client that does
    not read slows them down instead of filling the memory. Once the queue is finished,
    messages are dropped and senders do not wait.
    """

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._lines: deque[bytes] = deque()
        self._bytes = 0
        # Of the last line, if the next may be merged into it.
        self._last: tuple[str, JsonObject] | None = None
        self._draining = False
        self._finished = False
        self._room_lock = anyio.Lock()  # fair: its holder has been waiting the longest
        self._room = anyio.Event()
        self._work = anyio.Event()
        # Never write only part of a line.
        self._writing = anyio.CancelScope(shield=True)

    async def notify(
        self, method: str, params: JsonObject, *, merge: Merge | None = None
    ) -> None:
        """Send a notification: wait for room in the queue, not for the write.

        :param merge: may merge these params into those of the last notification in the
            queue, if both have the same method and were sent with a `merge`. Its result
            must have a bounded size (some KiB), since it is queued without waiting for
            room.
        :raises TypeError: if `params` contain a value that has no JSON type.
        """
        if merge is not None and self._joined(method, params, merge):
            return
        line = encode_notification(method, params)
        if await self._wait_for_room():
            self._lines.append(line)
            self._bytes += len(line)
            self._last = None if merge is None else (method, params)
            self._work.set()

    async def send(self, line: bytes) -> None:
        """Send a line: wait for room in the queue. A call can be cancelled only while
        it waits.
        """
        if await self._wait_for_room():
            self.force(line)

    def force(self, line: bytes) -> None:
        """Send a line even if the queue is full. Use this for small lines that must not
        wait: in the read loop, and in a task that is being cancelled.
        """
        if not self._finished:
            self._lines.append(line)
            self._bytes += len(line)
            self._last = None
            self._work.set()

    async def run(self, connection: anyio.CancelScope) -> None:
        """Write the queued lines until `finish` is called and the queue is empty.

        :param connection: cancelled when the other end no longer reads.
        """
        with self._writing:
            try:
                while self._lines or not self._finished:
                    if self._lines:
                        await self._transport.write(self._take())
                    else:
                        self._work = anyio.Event()
                        await self._work.wait()
            except (OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
                self._lines.clear()
                self.finish()
                connection.cancel()

    def drain(self) -> None:
        """Stop making senders wait: from now on, drop lines for which there is no room."""
        self._draining = True
        self._room.set()

    def finish(self) -> None:
        """Accept no more lines. `run` ends once the queue is written or
        `_FINAL_WRITE_SECONDS` have passed.
        """
        self._finished = True
        self._writing.deadline = anyio.current_time() + _FINAL_WRITE_SECONDS
        self.drain()
        self._work.set()

    @property
    def _is_full(self) -> bool:
        return (
            len(self._lines) >= MAX_QUEUED_MESSAGES or self._bytes >= MAX_QUEUED_BYTES
        )

    async def _wait_for_room(self) -> bool:
        """Wait for room, after earlier senders. Return whether a line may be queued."""
        if self._is_full or self._room_lock.locked():
            async with self._room_lock:
                while self._is_full and not self._draining:
                    self._room = anyio.Event()
                    await self._room.wait()
        return not self._finished and not self._is_full

    def _joined(self, method: str, params: JsonObject, merge: Merge) -> bool:
        """Merge params into the last notification of the queue, and return whether
        `merge` allowed it.
        """
        if (
            not self._lines
            or self._last is None
            or self._last[0] != method
            or self._room_lock.locked()
        ):
            return False
        joined = merge(self._last[1], params)
        if joined is None:
            return False
        line = encode_notification(method, joined)
        self._bytes += len(line) - len(self._lines[-1])
        self._lines[-1] = line
        self._last = (method, joined)
        return True

    def _take(self) -> bytes:
        """Remove the next lines from the queue and return them, joined for one write."""
        lines: list[bytes] = []
        size = 0
        while self._lines and size < _WRITE_BYTES:
            lines.append(self._lines.popleft())
            size += len(lines[-1])
        self._bytes -= size
        self._room.set()
        return b"".join(lines)
