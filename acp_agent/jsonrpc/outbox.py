"""The queue of what goes out: bounded, first in first out, one consumer.

Owns the room in the queue, who waits for it, and the joining of neighbouring notifications. Does not write, and does
not know who sends.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import anyio

from acp_agent.jsonrpc.messages import JsonObject, encode, notification_message

Merge: TypeAlias = Callable[[JsonObject, JsonObject], "JsonObject | None"]
"""Joins the params of two neighbouring notifications of one method, or says None; what it returns must be bounded."""

MAX_QUEUED_MESSAGES = 256
MAX_QUEUED_BYTES = 4 * 1024 * 1024
_BATCH_BYTES = 256 * 1024

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class _Entry:
    line: bytes | None  # None: joined from several, to be encoded when it is taken
    method: str = ""
    params: JsonObject | None = None  # only of a notification that may be joined with the next one


class Outbox:
    """Lines that wait for the writer.

    Whoever puts something in waits while the queue is full, in the order of arrival, so that a client that does not
    read slows the senders and not the memory. Once closed, everything that is put in vanishes and nobody waits.
    """

    def __init__(self) -> None:
        self._entries: deque[_Entry] = deque()
        self._bytes = 0
        self._closed = False
        self._draining = False
        self._turn = anyio.Lock()
        self._room: anyio.Event | None = None
        self._work: anyio.Event | None = None
        self._written_event: anyio.Event | None = None
        self._added = 0
        self._taken = 0
        self._written = 0

    def offer(self, line: bytes) -> bool:
        """Put a line in if that is possible without waiting and without overtaking those who wait.

        :returns: whether the line is taken care of.
        """
        if self._closed:
            return True
        if self._is_full() or self._turn.locked():
            return False
        self._append(_Entry(line))
        return True

    def force(self, line: bytes) -> None:
        """Put a line in though the queue may be full. For what is small and sent while its task is being cancelled."""
        if not self._closed:
            self._append(_Entry(line))

    async def put(self, line: bytes) -> None:
        """Put a line in, waiting for room. Only a call that waits can be cancelled."""
        if not self.offer(line):
            await self._append_when_room(_Entry(line))

    async def put_notification(self, method: str, params: JsonObject, merge: Merge | None) -> None:
        """Put a notification in, or join it with the last one where `merge` allows that.

        :raises TypeError: when `params` hold something that JSON does not have.
        """
        if merge is not None and self._merged(method, params, merge):
            return
        line = encode(notification_message(method, params))
        entry = _Entry(line) if merge is None else _Entry(line, method, params)
        if self._closed:
            return
        if self._is_full() or self._turn.locked():
            await self._append_when_room(entry)
        else:
            self._append(entry)

    async def take(self) -> bytes | None:
        """The next lines in one piece, as soon as there are any; None once the queue is closed.

        The consumer calls `mark_written` when they are out.
        """
        while not self._entries and not self._closed:
            self._work = anyio.Event()
            await self._work.wait()
        if self._closed:
            return None
        lines: list[bytes] = []
        size = 0
        while self._entries and size < _BATCH_BYTES:
            entry = self._entries.popleft()
            self._taken += 1
            self._bytes -= len(entry.line or b"")
            line = entry.line or _encode_joined(entry)
            lines.append(line)
            size += len(line)
        if self._room is not None:
            self._room.set()
        return b"".join(lines)

    def mark_written(self) -> None:
        """Everything that was taken is out."""
        self._written = self._taken
        if self._written_event is not None:
            self._written_event.set()
            self._written_event = None

    async def flush(self) -> None:
        """Wait until everything that is in the queue now is written, or the queue is closed."""
        target = self._added
        while self._written < target and not self._closed:
            if self._written_event is None:
                self._written_event = anyio.Event()
            await self._written_event.wait()

    def drain(self) -> None:
        """From now on nobody waits: what finds no room is dropped."""
        self._draining = True
        if self._room is not None:
            self._room.set()

    def close(self) -> None:
        """Forget what is queued and let everybody go who waits."""
        self._closed = True
        self._entries.clear()
        for event in (self._room, self._work, self._written_event):
            if event is not None:
                event.set()

    def _is_full(self) -> bool:
        return len(self._entries) >= MAX_QUEUED_MESSAGES or self._bytes >= MAX_QUEUED_BYTES

    def _append(self, entry: _Entry) -> None:
        self._entries.append(entry)
        self._added += 1
        self._bytes += len(entry.line or b"")
        if self._work is not None:
            self._work.set()
            self._work = None

    async def _append_when_room(self, entry: _Entry) -> None:
        async with self._turn:  # a fair lock: its holder is the one who waited longest
            while self._is_full() and not self._closed and not self._draining:
                self._room = anyio.Event()
                await self._room.wait()
            if not self._closed and not self._is_full():
                self._append(entry)

    def _merged(self, method: str, params: JsonObject, merge: Merge) -> bool:
        if self._turn.locked() or not self._entries:
            return False
        last = self._entries[-1]
        if last.params is None or last.method != method:
            return False
        joined = merge(last.params, params)
        if joined is None:
            return False
        self._bytes -= len(last.line or b"")
        last.line, last.params = None, joined
        return True


def _encode_joined(entry: _Entry) -> bytes:
    try:
        return encode(notification_message(entry.method, entry.params or {}))
    except (TypeError, RecursionError):  # whoever sent it has moved on; the writer must not stop for it
        logger.exception("a joined %s cannot be written as JSON and was dropped", entry.method)
        return b""
