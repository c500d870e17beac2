"""Cuts a stream of bytes into lines, and holds back what is not yet a line.

Does not read anything itself and does not look into the lines.
"""

from __future__ import annotations

from collections import deque

MAX_LINE_BYTES = 64 * 1024 * 1024


class LineTooLongError(Exception):
    """A line was longer than allowed; it is discarded up to its end and reading can go on.

    :param limit: what is allowed, in bytes.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        super().__init__(f"A line is longer than {limit} bytes and was discarded. Send less in one message.")


class LineBuffer:
    """Feed it chunks in any split; pop the same lines.

    :param limit: the longest line that is kept, in bytes, without its `\\n`.
    """

    def __init__(self, limit: int = MAX_LINE_BYTES) -> None:
        self._limit = limit
        self._lines: deque[bytes | None] = deque()  # None: here stood a line that was too long
        self._partial: list[bytes] = []
        self._partial_size = 0
        self._discarding = False

    def feed(self, chunk: bytes) -> None:
        """Add what was read."""
        first, *others = chunk.split(b"\n")
        self._extend(first)
        for part in others:
            self._end_line()
            self._extend(part)

    def feed_eof(self) -> None:
        """The stream has ended: what is left over counts as a line, though its `\\n` never came."""
        if self._partial:
            self._end_line()

    def pop(self) -> bytes | None:
        """The next complete line without its `\\n`, or None when there is none yet.

        :raises LineTooLongError: once, in the place of each line beyond the limit.
        """
        if not self._lines:
            return None
        line = self._lines.popleft()
        if line is None:
            raise LineTooLongError(self._limit)
        return line

    def _extend(self, part: bytes) -> None:
        if self._discarding or not part:
            return
        self._partial_size += len(part)
        if self._partial_size > self._limit:
            self._discarding = True
            self._partial.clear()
            self._lines.append(None)  # at once: its end may never come
        else:
            self._partial.append(part)

    def _end_line(self) -> None:
        if not self._discarding:
            self._lines.append(b"".join(self._partial))
        self._discarding = False
        self._partial.clear()
        self._partial_size = 0
