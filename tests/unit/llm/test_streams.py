"""Streams that end in odd ways, byte for byte, through the real SDKs."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_agent.conversation import messages as m
from acp_agent.errors import (
    ContextOverflowError,
    ModelError,
    ModelRequestError,
    ModelStreamError,
    ModelUnavailableError,
    RequestRefusedError,
)
from acp_agent.llm.adapters import stream
from acp_agent.llm.adapters.stream import Decoder
from acp_agent.llm.errors import CallFailed
from acp_agent.llm.provider import Answered, ModelEvent, Retrying, TextDelta
from support.adapters import (
    BEGINNING,
    DIALECTS,
    ENDING,
    adapter,
    encoded,
    outcome,
    request,
)
from support.http_server import Exchange, http_server


async def play(
    dialect: str,
    body: bytes,
    *,
    ends: bool = True,
    stalls: bool = False,
    kind: str = "text/event-stream",
) -> tuple[list[ModelEvent], ModelError | None]:
    """What an adapter makes of a body.

    :param ends: whether the answer is finished as HTTP wants it; else the connection is
        cut.
    :param stalls: whether the server holds the connection open after it.
    """

    async def app(exchange: Exchange) -> None:
        await exchange.start(kind)
        await exchange.send(body)
        if stalls:
            await anyio.sleep_forever()
        elif ends:
            await exchange.end()
        else:
            exchange.hang_up()

    async with http_server(app) as url:
        return await outcome(adapter(dialect, url), request())


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("rest", [0, 30], ids=["no last event", "an event cut in half"])
async def test_an_answer_without_the_event_that_ends_it_is_no_success(
    dialect: str, rest: int
) -> None:
    body = encoded(BEGINNING[dialect]) + encoded(ENDING[dialect])[:rest]
    seen, error = await play(dialect, body, ends=not rest)
    assert seen == [TextDelta("Hi")]
    assert isinstance(error, ModelStreamError)


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_connection_cut_after_the_end_of_the_answer_is_a_success(
    dialect: str,
) -> None:
    seen, error = await play(
        dialect, encoded([*BEGINNING[dialect], *ENDING[dialect]]), ends=False
    )
    assert error is None
    assert isinstance(seen[-1], Answered)
    assert seen[-1].parts == (m.Text("Hi"),)
    assert seen[-1].usage.total_tokens > 0


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_server_that_holds_the_connection_after_the_answer_holds_nobody(
    dialect: str,
) -> None:
    done = b"data: [DONE]\n\n" if dialect == "chat" else b""
    seen, error = await play(
        dialect, encoded([*BEGINNING[dialect], *ENDING[dialect]]) + done, stalls=True
    )
    assert error is None
    assert isinstance(seen[-1], Answered)


CALL = {"index": 0, "id": "c", "function": {"name": "shell", "arguments": "{}"}}
NO_END: dict[str, tuple[str, list[dict[str, Any]], bytes]] = {
    "a call": (
        "chat",
        [
            {
                "choices": [
                    {"index": 0, "delta": {"tool_calls": [CALL]}, "finish_reason": None}
                ]
            }
        ],
        b"",
    ),
    "a stop without a reason": (
        "anthropic",
        [*BEGINNING["anthropic"][:2], {"type": "message_stop"}],
        b"",
    ),
}


@pytest.mark.parametrize("what", NO_END)
async def test_a_stream_that_shows_nothing_and_has_no_end_is_tried_three_times(
    what: str,
) -> None:
    dialect, events, last = NO_END[what]
    seen, error = await play(dialect, encoded(events) + last)
    assert [type(event) for event in seen] == [Retrying] * 2
    assert isinstance(error, ModelUnavailableError)


async def test_a_server_that_counts_no_tokens_gets_an_estimate() -> None:
    seen, _ = await play("chat", encoded([*BEGINNING["chat"], *ENDING["chat"]]))
    assert isinstance(seen[-1], Answered)
    assert seen[-1].usage == m.Usage(input_tokens=4, output_tokens=1)


async def test_an_error_in_place_of_a_stream_with_status_200() -> None:
    body = json.dumps(
        {"error": {"code": 400, "message": "maximum context length is 8192 tokens"}}
    ).encode()
    _, error = await play("chat", body, kind="application/json")
    assert isinstance(error, ContextOverflowError)


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ('{"id": "x", "choices": [], "of": "hush-hush"}', "application/json"),
        ("\n<html>Log in</html>", "text/html"),
    ],
)
async def test_a_whole_answer_in_place_of_a_stream_is_shown_for_what_it_is(
    dialect: str, body: str, kind: str
) -> None:
    seen, error = await play(dialect, body.encode(), kind=kind)
    assert seen == []
    assert type(error) is ModelRequestError
    assert "not with the requested event stream" in str(error)
    assert body.strip() in str(error)
    assert "status" not in str(error)


@pytest.mark.parametrize("shape", ["failed", "error", "nested"])
async def test_an_overflow_within_a_stream_of_responses(shape: str) -> None:
    error = {
        "code": "context_length_exceeded",
        "message": "Your input exceeds the context window of this model.",
    }
    events: dict[str, dict[str, Any]] = {
        "failed": {"type": "response.failed", "response": {"error": error}},
        "error": {"type": "error", **error},
        "nested": {
            "type": "error",
            "error": {"type": "invalid_request_error", **error},
        },
    }
    seen, raised = await play("openai", encoded([events[shape]]))
    assert seen == []
    assert isinstance(raised, ContextOverflowError)
    assert raised.limit == "tokens"


def failed_with(dialect: str, code: str) -> dict[str, Any]:
    """An event that ends a stream with an error."""
    error = {"code": code, "message": "sorry"}
    return {
        "anthropic": {"type": "error", "error": {"type": code, "message": "sorry"}},
        "openai": {
            "type": "response.failed",
            "response": {"status": "failed", "error": error},
        },
        "chat": {"error": error},
    }[dialect]


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    ("code", "tries"),
    [
        *(
            (code, 1)
            for code in (
                "invalid_prompt",
                "bio_policy",
                "image_too_large",
                "invalid_base64_image",
            )
        ),
        *((code, 1) for code in ("invalid_request_error", "insufficient_quota")),
        *(
            (code, 7)
            for code in (
                "server_error",
                "rate_limit_exceeded",
                "server_is_overloaded",
                "slow_down",
            )
        ),
        ("something_new", 7),
        ("", 7),
    ],
)
async def test_an_error_event_is_tried_again_as_its_code_tells(
    dialect: str, code: str, tries: int
) -> None:
    seen, error = await play(dialect, encoded([failed_with(dialect, code)]))
    assert [type(event) for event in seen] == [Retrying] * (tries - 1)
    refused = RequestRefusedError if code != "insufficient_quota" else ModelRequestError
    assert type(error) is (refused if tries == 1 else ModelUnavailableError)
    assert "sorry" in str(error)


STREAM = (
    'event: a\ndata: {"t": "grüße"}\n\n: ping\n\ndata: {"a":\r\ndata: 1}\r\n\r\nid: 3\ndata:{}\n\ndata: [DONE]\n\n'
).encode()


@given(st.lists(st.integers(0, len(STREAM)), max_size=12))
def test_it_does_not_matter_where_the_bytes_are_cut(cuts: list[int]) -> None:
    decoder = Decoder()
    edges = [0, *sorted(cuts), len(STREAM)]
    events = [
        event
        for start, end in pairwise(edges)
        for event in decoder.feed(STREAM[start:end])
    ]
    assert events == [{"t": "grüße"}, {"a": 1}, {}]
    assert decoder.done
    assert decoder.end() == []


@pytest.mark.parametrize(
    "line", [b"x" * 50, b"data: " + b"x" * 50 + b"\n"], ids=["a line", "an event"]
)
def test_what_has_no_end_is_broken_off(
    monkeypatch: pytest.MonkeyPatch, line: bytes
) -> None:
    monkeypatch.setattr(stream, "MAX_LINE", 1_000)
    decoder = Decoder()
    decoder.feed(line * 15)
    with pytest.raises(CallFailed, match="more than 1,000 bytes"):
        decoder.feed(line * 15)


def test_an_event_of_too_many_values_is_refused_and_a_long_text_is_not() -> None:
    text = "[{," * 2_000_000
    assert Decoder().feed(f'data: {{"t": "{text}"}}\n\n'.encode()) == [{"t": text}]
    with pytest.raises(CallFailed):
        Decoder().feed(
            f'data: {{"t": "{text}", "more": [{"[]," * 500_000} 0]}}\n\n'.encode()
        )


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_byte_order_mark_in_front_of_a_stream_hides_nothing(
    dialect: str,
) -> None:
    seen, error = await play(
        dialect, b"\xef\xbb\xbf" + encoded([*BEGINNING[dialect], *ENDING[dialect]])
    )
    assert error is None
    assert TextDelta("Hi") in seen
    assert isinstance(seen[-1], Answered)
    assert seen[-1].parts == (m.Text("Hi"),)


COMPLETED: dict[str, Any] = {
    "type": "response.completed",
    "response": {"output": [], "usage": {"input_tokens": 9, "output_tokens": 5}},
}
MESSAGE: dict[str, Any] = {
    "type": "message",
    "id": "m",
    "content": [{"type": "output_text", "text": "Hi there"}],
}
WITHOUT_ITEMS: dict[str, list[dict[str, Any]]] = {
    "deltas alone": [
        {"type": "response.output_text.delta", "delta": "Hi ", "output_index": 0},
        {"type": "response.output_text.delta", "delta": "there", "output_index": 0},
        COMPLETED,
    ],
    "the text at its end alone": [
        {"type": "response.output_text.done", "text": "Hi there", "output_index": 0},
        COMPLETED,
    ],
    "the part at its end alone": [
        {
            "type": "response.output_item.added",
            "output_index": 0,
            "item": {"type": "message", "content": []},
        },
        {
            "type": "response.content_part.done",
            "output_index": 0,
            "part": {"type": "output_text", "text": "Hi there"},
        },
        COMPLETED,
    ],
    "the item at its end alone": [
        {"type": "response.output_item.done", "output_index": 0, "item": MESSAGE},
        COMPLETED,
    ],
    "the last event alone": [COMPLETED | {"response": {"output": [MESSAGE]}}],
    "everything": [
        {
            "type": "response.output_item.added",
            "output_index": 0,
            "item": {"type": "message", "id": "m"},
        },
        {
            "type": "response.output_text.delta",
            "delta": "Hi there",
            "output_index": 0,
            "content_index": 0,
        },
        {
            "type": "response.output_text.done",
            "text": "Hi there",
            "output_index": 0,
            "content_index": 0,
        },
        {"type": "response.output_item.done", "output_index": 0, "item": MESSAGE},
        COMPLETED | {"response": {"output": [MESSAGE]}},
    ],
}


@pytest.mark.parametrize("events", WITHOUT_ITEMS)
async def test_the_text_of_a_response_is_shown_and_kept_once_whichever_events_hold_it(
    events: str,
) -> None:
    seen, error = await play("openai", encoded(WITHOUT_ITEMS[events]))
    assert error is None
    assert (
        "".join(event.text for event in seen if isinstance(event, TextDelta))
        == "Hi there"
    )
    assert isinstance(seen[-1], Answered)
    assert seen[-1].parts == (m.Text("Hi there"),)
