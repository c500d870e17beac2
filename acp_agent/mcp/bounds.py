"""Limits the size, the number of values and the depth of a message from an MCP server
before the SDK parses it, for every transport.

Over HTTP, a message is the body of a response or an event of a stream. The limits apply
after decompression.

Model Context Protocol, "Transports"; HTML, "Server-sent events", "Interpreting an event
stream"
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping

import httpx2

from acp_agent.errors import ToolError
from acp_agent.json_bounds import MAX_VALUES, has_too_many_values
from acp_agent.mcp.depth import MAX_LEVELS, without_depths
from acp_agent.tools.text import one_line

MAX_MESSAGE = 1 << 26
"""Maximum bytes of one message."""
TOO_LONG = f"it sent a message of more than {MAX_MESSAGE >> 20} MiB"
ACCEPTED: Mapping[str, str] = {"accept-encoding": "gzip, deflate"}
"""Request headers that accept only encodings of which the size can be limited during
decompression. In other encodings, or in several nested ones, a few bytes may expand to
gigabytes in one step.
"""
_ENCODINGS = ("gzip", "deflate", "identity")
_TOO_MANY = f"it sent a message with more than {MAX_VALUES:,} values"


def within_bounds(data: bytes, longest: int = MAX_MESSAGE) -> bytes:
    """Return the message with too deeply nested values cut off, so that the SDK can
    parse it.

    :param longest: maximum bytes of the message.
    :raises ToolError: if the message is too long or has too many values.
    """
    if len(data) > longest:
        raise ToolError(TOO_LONG)
    if has_too_many_values(data):
        raise ToolError(_TOO_MANY)
    if data.count(b"{") + data.count(b"[") <= MAX_LEVELS:
        return data
    text = data.decode(errors="replace")
    cut = without_depths(text)
    return data if cut is text else cut.encode()


async def bound_response(response: httpx2.Response) -> None:
    """Limit the body of an HTTP response. Call this before the body is read.

    :raises httpx2.DecodingError: if the response has an encoding of which the
        decompressed size cannot be limited.
    """
    decoded = httpx2.Response(
        response.status_code,
        headers=response.headers,
        stream=response.stream,
        request=response.request,
    )
    encodings = response.headers.get("content-encoding", "identity").lower()
    if encodings.strip() not in _ENCODINGS:
        told = one_line(encodings, 100)
        raise httpx2.DecodingError(f"it compressed its answer with {told}")
    kind = response.headers.get("content-type", "").partition(";")[0]
    is_stream = kind.strip().lower() == "text/event-stream"
    response.stream = _Bounded(decoded, is_stream=is_stream)
    if "content-encoding" in response.headers:
        del response.headers["content-encoding"]


class _Bounded(httpx2.AsyncByteStream):
    """The body of a response. Reading it fails if a message exceeds the limits.

    :param is_stream: whether the body is a stream of events.
    """

    def __init__(self, response: httpx2.Response, *, is_stream: bool) -> None:
        self._response = response
        self._is_stream = is_stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        chunks = self._response.aiter_bytes()
        if self._is_stream:
            try:
                async for event in _events(chunks):
                    yield event
            except ToolError as error:
                raise httpx2.SSEError(str(error)) from error
            return
        body = bytearray()
        try:
            async for chunk in chunks:
                body += chunk
                if len(body) > MAX_MESSAGE:
                    raise ToolError(TOO_LONG)
            yield within_bounds(bytes(body))
        except ToolError as error:
            raise httpx2.StreamError(str(error)) from error

    async def aclose(self) -> None:
        """Close the response."""
        await self._response.aclose()


async def _events(chunks: AsyncIterator[bytes]) -> AsyncGenerator[bytes]:
    """Yield the lines of a stream of events. The data of each event is checked and cut
    by `within_bounds`.

    :raises ToolError: see `within_bounds`.
    """
    data: list[bytes] = []
    size = 0
    async for line in _lines(chunks):
        field, _, value = line.partition(b":")
        if field == b"data":
            data.append(value.removeprefix(b" "))
            size += len(line)
        elif line or not data:
            yield line + b"\n"
        else:
            message = within_bounds(b"\n".join(data))
            yield b"".join(b"data: %b\n" % each for each in message.split(b"\n"))
            yield b"\n"
            data.clear()
            size = 0
        if size > MAX_MESSAGE:
            raise ToolError(TOO_LONG)


async def _lines(chunks: AsyncIterator[bytes]) -> AsyncGenerator[bytes]:
    """Yield lines without their ends, which may be `\\r\\n`, `\\n` or `\\r`.

    :raises ToolError: if a line is too long.
    """
    buffer = bytearray()
    is_after_return = False
    async for chunk in chunks:
        ends_with_return = chunk.endswith(b"\r")
        if is_after_return and chunk.startswith(b"\n"):
            chunk = chunk[1:]  # noqa: PLW2901 - the rest of a line end
        is_after_return = ends_with_return
        buffer += chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        if b"\n" in chunk or b"\r" in chunk:
            *lines, buffer = buffer.split(b"\n")
            for line in lines:
                yield bytes(line)
        if len(buffer) > MAX_MESSAGE:
            raise ToolError(TOO_LONG)
    if buffer:
        yield bytes(buffer)
