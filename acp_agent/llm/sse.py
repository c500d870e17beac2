"""Server-sent events, from bytes to the data of each event.

The SDKs make a validated object of every event, which costs up to 60 microseconds a token; reading the bytes of the
response that the SDK opened costs 4. Knows nothing of HTTP or of what the data means. Source: the HTML standard,
section "Server-sent events"; lines end in LF or CRLF here, as every model server sends them.
"""

from __future__ import annotations


class Decoder:
    """Bytes in, the data of whole events out."""

    __slots__ = ("_data", "_rest")

    def __init__(self) -> None:
        self._rest = b""
        self._data: list[bytes] = []

    def feed(self, chunk: bytes) -> list[bytes]:
        """Take bytes as they came.

        :return: data of each event that is now complete, its lines joined by LF.
        """
        *lines, self._rest = (self._rest + chunk).split(b"\n")
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
