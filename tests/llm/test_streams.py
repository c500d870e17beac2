"""Streams that end in odd ways, byte for byte, through the real SDKs."""

from __future__ import annotations

import json
from typing import Any

import anyio
import pytest

from acp_agent.conversation import messages as m
from acp_agent.errors import (
    ContextOverflowError,
    ImageRefusedError,
    ModelError,
    ModelRequestError,
    ModelStreamError,
    ModelUnavailableError,
)
from acp_agent.llm.provider import Answered, ModelEvent, Retrying, TextDelta
from acp_agent.llm.retry import RetryPolicy
from support.adapters import BEGINNING, DIALECTS, ENDING, adapter, encoded, outcome, request
from support.http_server import Exchange, http_server

QUICK = RetryPolicy(attempts=2, base=0.005)
PATIENT = RetryPolicy(attempts=5, base=0.005)


async def play(
    dialect: str,
    body: bytes,
    *,
    ends: bool = True,
    stalls: bool = False,
    kind: str = "text/event-stream",
    policy: RetryPolicy = QUICK,
) -> tuple[list[ModelEvent], ModelError | None]:
    """What an adapter makes of a body.

    :param ends: whether the answer is finished as HTTP wants it; else the connection is cut.
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
        return await outcome(adapter(dialect, url, policy=policy), request())


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_an_answer_without_the_event_that_ends_it_is_no_success(dialect: str) -> None:
    seen, error = await play(dialect, encoded(BEGINNING[dialect]))
    assert seen == [TextDelta("Hi")]
    assert isinstance(error, ModelStreamError)


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_an_empty_stream_is_no_success_either(dialect: str) -> None:
    seen, error = await play(dialect, b"")
    assert [type(event) for event in seen] == [Retrying]
    assert isinstance(error, ModelUnavailableError)


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_an_event_cut_in_half_is_a_lost_connection(dialect: str) -> None:
    body = encoded(BEGINNING[dialect]) + encoded(ENDING[dialect])[:30]
    seen, error = await play(dialect, body, ends=False)
    assert seen == [TextDelta("Hi")]
    assert isinstance(error, ModelStreamError)


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_connection_cut_after_the_end_of_the_answer_is_a_success(dialect: str) -> None:
    seen, error = await play(dialect, encoded([*BEGINNING[dialect], *ENDING[dialect]]), ends=False)
    assert error is None
    assert isinstance(seen[-1], Answered)
    assert seen[-1].parts == (m.Text("Hi"),)
    assert seen[-1].usage.total_tokens > 0


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_server_that_holds_the_connection_after_the_answer_holds_nobody(dialect: str) -> None:
    done = b"data: [DONE]\n\n" if dialect == "chat" else b""
    seen, error = await play(dialect, encoded([*BEGINNING[dialect], *ENDING[dialect]]) + done, stalls=True)
    assert error is None
    assert isinstance(seen[-1], Answered)


async def test_done_without_a_reason_to_finish_is_an_answer_that_broke_off() -> None:
    seen, error = await play("chat", encoded(BEGINNING["chat"]) + b"data: [DONE]\n\n")
    assert seen == [TextDelta("Hi")]
    assert isinstance(error, ModelStreamError)


@pytest.mark.parametrize("counted", [[], [{"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 5}}]])
async def test_a_call_without_a_reason_to_finish_never_runs(counted: list[dict[str, Any]]) -> None:
    call = {"index": 0, "id": "c", "function": {"name": "shell", "arguments": "{}"}}
    begun = [{"choices": [{"index": 0, "delta": {"tool_calls": [call]}, "finish_reason": None}]}]
    seen, error = await play("chat", encoded(begun + counted) + b"data: [DONE]\n\n")
    assert [type(event) for event in seen] == [Retrying]
    assert isinstance(error, ModelUnavailableError)


async def test_a_server_that_counts_no_tokens_gets_an_estimate() -> None:
    seen, _ = await play("chat", encoded([*BEGINNING["chat"], *ENDING["chat"]]))
    assert isinstance(seen[-1], Answered)
    assert seen[-1].usage == m.Usage(input_tokens=4, output_tokens=1)


async def test_an_error_in_place_of_a_stream_with_status_200() -> None:
    body = json.dumps({"error": {"code": 400, "message": "maximum context length is 8192 tokens"}}).encode()
    _, error = await play("chat", body, kind="application/json")
    assert isinstance(error, ContextOverflowError)


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    ("body", "kind"),
    [('{"id": "x", "choices": [], "of": "hush-hush"}', "application/json"), ("\n<html>Log in</html>", "text/html")],
)
async def test_a_whole_answer_in_place_of_a_stream_is_shown_for_what_it_is(dialect: str, body: str, kind: str) -> None:
    seen, error = await play(dialect, body.encode(), kind=kind)
    assert seen == []
    assert type(error) is ModelRequestError
    assert "not with the stream" in str(error)
    assert body.strip() in str(error)
    assert "status" not in str(error)


async def test_blank_lines_before_the_stream_are_no_other_kind_of_answer() -> None:
    seen, error = await play("chat", b"\n\n" + encoded([*BEGINNING["chat"], *ENDING["chat"]]))
    assert error is None
    assert seen[0] == TextDelta("Hi")


async def test_an_error_in_a_list_in_place_of_a_stream() -> None:
    body = json.dumps([{"error": {"code": 503, "message": "high demand"}}]).encode()
    seen, error = await play("chat", body, kind="application/json")
    assert [type(event) for event in seen] == [Retrying]
    assert "high demand" in str(error)


@pytest.mark.parametrize("shape", ["failed", "error", "nested"])
async def test_an_overflow_within_a_stream_of_responses(shape: str) -> None:
    error = {"code": "context_length_exceeded", "message": "Your input exceeds the context window of this model."}
    events: dict[str, dict[str, Any]] = {
        "failed": {"type": "response.failed", "response": {"error": error}},
        "error": {"type": "error", **error},
        "nested": {"type": "error", "error": {"type": "invalid_request_error", **error}},
    }
    seen, raised = await play("openai", encoded([events[shape]]))
    assert seen == []
    assert isinstance(raised, ContextOverflowError)
    assert raised.limit == "tokens"


async def test_a_message_that_stops_without_a_reason_is_an_answer_that_broke_off() -> None:
    stop = {"type": "message_stop"}
    seen, error = await play("anthropic", encoded([*BEGINNING["anthropic"], stop]), stalls=True)
    assert seen == [TextDelta("Hi")]
    assert isinstance(error, ModelStreamError)
    seen, error = await play("anthropic", encoded([BEGINNING["anthropic"][0], stop]), stalls=True)
    assert [type(event) for event in seen] == [Retrying]
    assert isinstance(error, ModelUnavailableError)


def failed_with(dialect: str, code: str) -> dict[str, Any]:
    """An event that ends a stream with an error."""
    error = {"code": code, "message": "sorry"}
    return {
        "anthropic": {"type": "error", "error": {"type": code, "message": "sorry"}},
        "openai": {"type": "response.failed", "response": {"status": "failed", "error": error}},
        "chat": {"error": error},
    }[dialect]


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    "code",
    [
        "invalid_prompt",
        "bio_policy",
        "image_too_large",
        "invalid_base64_image",
        "data_residency_mismatch",
        "invalid_request_error",
        "insufficient_quota",
    ],
)
async def test_what_cannot_pass_is_not_tried_again(dialect: str, code: str) -> None:
    seen, error = await play(dialect, encoded([failed_with(dialect, code)]), policy=PATIENT)
    assert seen == []
    assert type(error) is (ImageRefusedError if "image" in code else ModelRequestError)
    assert "sorry" in str(error)


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("code", ["server_error", "rate_limit_exceeded", "server_is_overloaded", "slow_down"])
async def test_what_passes_is_tried_again_as_often_as_there_are_tries(dialect: str, code: str) -> None:
    seen, error = await play(dialect, encoded([failed_with(dialect, code)]), policy=PATIENT)
    assert [type(event) for event in seen] == [Retrying] * 4
    assert isinstance(error, ModelUnavailableError)


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("code", ["something_new", ""])
async def test_what_nobody_knows_is_tried_again_twice(dialect: str, code: str) -> None:
    seen, error = await play(dialect, encoded([failed_with(dialect, code)]), policy=PATIENT)
    assert [type(event) for event in seen] == [Retrying] * 2
    assert isinstance(error, ModelUnavailableError)


async def test_responses_that_failed_are_tried_again() -> None:
    failed = {"type": "response.failed", "response": {"error": {"code": "server_error", "message": "sorry"}}}
    seen, error = await play("openai", encoded([failed]))
    assert [type(event) for event in seen] == [Retrying]
    assert "sorry" in str(error)
