"""Messages of MCP servers that are too large, too deep or have too many values, over
each transport.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Literal

import anyio
import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp import types
from mcp.shared.message import SessionMessage

from acp_agent.config.settings import McpServer
from acp_agent.errors import ToolError
from acp_agent.json_bounds import LONG, MAX_VALUES
from acp_agent.mcp import bounds
from acp_agent.mcp.bounds import bound_response, within_bounds
from acp_agent.mcp.depth import TOO_DEEP
from acp_agent.mcp.transports import Watch, over_http
from support.http_server import Exchange, http_server

DEEP = b"[" * 100_000 + b"]" * 100_000
START = b'{"jsonrpc": "2.0", "id": 1, "result": {"a": '


def answer(value: bytes) -> bytes:
    return b"%b%b}}" % (START, value)


Kind = Literal["json", "gzip", "events"]
ALL: list[Kind] = ["json", "gzip", "events"]


async def asked(kind: Kind, body: bytes) -> SessionMessage:
    """Return what the SDK makes of an answer over HTTP."""

    async def serve(exchange: Exchange) -> None:
        if kind == "events":
            await exchange.start()
            for at in range(0, len(body), 1 << 20):
                part = body[at : at + (1 << 20)]
                await exchange.send(b"data: %b" % part if at == 0 else part)
            await exchange.send(b"\n\n")
            await exchange.end()
            return
        headers = {"content-type": "application/json"}
        if kind == "gzip":
            headers["content-encoding"] = "gzip"
        await exchange.respond(
            200, gzip.compress(body, 1) if kind == "gzip" else body, headers
        )

    request = types.JSONRPCRequest(jsonrpc="2.0", id=1, method="ping")
    async with (
        http_server(serve) as url,
        over_http(McpServer(transport="http", url=url), Watch()) as streams,
    ):
        received, to_server = streams
        with anyio.fail_after(30):
            await to_server.send(SessionMessage(request))
            message = await received.receive()
    assert isinstance(message, SessionMessage)
    return message


@pytest.mark.parametrize("kind", ALL)
async def test_an_answer_over_http_that_is_nested_too_deeply_is_cut(kind: Kind) -> None:
    message = (await asked(kind, answer(DEEP))).message
    assert isinstance(message, types.JSONRPCResponse)
    assert TOO_DEEP in json.dumps(message.result)


@pytest.mark.parametrize("kind", ALL)
async def test_an_answer_over_http_that_is_too_long_is_an_error(
    monkeypatch: pytest.MonkeyPatch, kind: Kind
) -> None:
    monkeypatch.setattr(bounds, "MAX_MESSAGE", 1 << 21)
    message = (await asked(kind, answer(b'"%b"' % (b"x" * (1 << 22))))).message
    assert isinstance(message, types.JSONRPCError)
    assert "a message of more than" in message.error.message


@pytest.mark.parametrize("kind", ALL)
async def test_an_answer_over_http_with_too_many_values_is_an_error(kind: Kind) -> None:
    body = answer(b"[%b0]" % (b"0," * LONG))
    message = (await asked(kind, body)).message
    assert isinstance(message, types.JSONRPCError)
    assert f"more than {MAX_VALUES:,} values" in message.error.message


@pytest.mark.parametrize("kind", ALL)
async def test_a_large_answer_over_http_arrives_as_it_is(kind: Kind) -> None:
    text = "ä]\\n\u2028" * (1 << 18)
    body = answer(json.dumps(text, ensure_ascii=False).encode())
    message = (await asked(kind, body)).message
    assert isinstance(message, types.JSONRPCResponse)
    assert message.result == {"a": text}


@pytest.mark.parametrize("encoding", ["gzip, gzip", "gzip,deflate", "br", "zstd"])
async def test_an_answer_in_an_encoding_that_cannot_be_bounded_is_not_read(
    encoding: str,
) -> None:
    read: list[bytes] = []

    class Bomb(httpx2.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            read.append(b"")
            yield gzip.compress(gzip.compress(b"0" * 1_000))

    response = httpx2.Response(
        200,
        headers={"content-type": "application/json", "content-encoding": encoding},
        stream=Bomb(),
        request=httpx2.Request("POST", "http://a.example"),
    )
    with pytest.raises(httpx2.DecodingError, match=encoding):
        await bound_response(response)
    assert not read


def test_a_message_is_refused_before_it_is_parsed() -> None:
    with pytest.raises(ToolError, match="64 MiB"):
        within_bounds(b"[]", longest=1)
    with pytest.raises(ToolError, match="values"):
        within_bounds(b"[%b0]" % (b"[]," * LONG))


STREAMS = st.lists(
    st.sampled_from(
        [
            "data: a",
            "data:b",
            "data",
            "id: 1",
            "event: x",
            ": note",
            "retry: 5",
            "",
            "data:  c",
        ]
    ),
    max_size=12,
)


@given(
    lines=STREAMS,
    end=st.sampled_from(["\n", "\r\n", "\r"]),
    size=st.integers(1, 20),
)
async def test_a_stream_of_events_says_the_same_within_the_limits(
    lines: list[str], end: str, size: int
) -> None:
    text = "".join(f"{line}{end}" for line in (*lines, "", "")).encode()

    class Chunks(httpx2.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            for at in range(0, len(text), size):
                yield text[at : at + size]

    async def events(*, bounded: bool) -> AsyncGenerator[httpx2.ServerSentEvent]:
        response = httpx2.Response(
            200,
            headers={"content-type": "text/event-stream"},
            stream=Chunks(),
            request=httpx2.Request("GET", "http://a.example"),
        )
        if bounded:
            await bound_response(response)
        async for event in httpx2.EventSource(response):
            yield event

    plain = [each async for each in events(bounded=False)]
    assert [each async for each in events(bounded=True)] == plain
