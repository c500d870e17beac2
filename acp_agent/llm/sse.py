"""Server-sent events, from bytes to the data of each event.

The SDKs make a validated object of every event, which costs up to 60 microseconds a token; reading the bytes of the
response that the SDK opened costs 4. Knows nothing of HTTP or of what the data means. Source: the HTML standard,
section "Server-sent events"; lines end in LF or CRLF here, as every model server sends them.
"""

from __future__ import annotations

MAX_LINE = 64 * 1024 * 1024
"""Bytes, many times those of a whole answer that the event at its end repeats."""


class LineTooLongError(Exception):
    """A line has passed `MAX_LINE`."""


class Decoder:
    """Bytes in, the data of whole events out."""

    __slots__ = ("_data", "_rest")

    def __init__(self) -> None:
        self._rest = bytearray()
        self._data: list[bytes] = []

    def feed(self, chunk: bytes) -> list[bytes]:
        """Take bytes as they came.

        :return: data of each event that is now complete, its lines joined by LF.
        :raises LineTooLongError: a line has no end.
        """
        self._rest += chunk
        if b"\n" not in chunk:
            if len(self._rest) > MAX_LINE:
                raise LineTooLongError
            return []
        *lines, rest = bytes(self._rest).split(b"\n")
        self._rest = bytearray(rest)
        events: list[bytes] = []
        for line in lines:
            if line.startswith(b"data:"):
                self._data.append(line[5:].strip(b" \r"))
            elif not line or line == b"\r":
                events += self._flush()
        return events

    def end(self) -> list[bytes]:
        """The bytes are over; some servers leave out the last empty line."""
        return [*self.feed(b"\n"), *self._flush()]

    def _flush(self) -> list[bytes]:
        if not self._data:
            return []
        data, self._data = b"\n".join(self._data), []
        return [data]
