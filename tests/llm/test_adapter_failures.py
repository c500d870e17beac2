"""The adapters through the real SDKs: what is tried again, what ends a call, and what the user reads then."""

from __future__ import annotations

import time
from contextlib import aclosing

import anyio
import pytest

from acp_agent.conversation import messages as m
from acp_agent.errors import (
    ContextOverflowError,
    ModelAuthError,
    ModelError,
    ModelRequestError,
    ModelStreamError,
    ModelUnavailableError,
)
from acp_agent.llm.provider import (
    Answered,
    ModelEvent,
    ModelRequest,
    Retrying,
)
from acp_agent.llm.retry import RetryPolicy
from support.adapters import DIALECTS, Adapter, adapter, collect, playing, request, texts
from support.models import BEFORE_HEADERS, Reply, ToolCall, model_server


async def failing(provider: Adapter, asked: ModelRequest) -> tuple[list[ModelEvent], ModelError]:
    seen: list[ModelEvent] = []

    async def listen() -> None:
        async with aclosing(provider.stream(asked)) as events:
            async for event in events:
                seen.append(event)  # noqa: PERF401 - what came before the error counts

    with anyio.fail_after(20), pytest.raises(ModelError) as caught:
        await listen()
    return seen, caught.value


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("status", [429, 500, 503, 529, 408])
async def test_a_passing_failure_is_announced_and_tried_again(dialect: str, status: int) -> None:
    wait = Reply(http_status=status, headers={"retry-after-ms": "7"})
    async with playing(dialect, wait, Reply("ok")) as (provider, server):
        events = await collect(provider, request())
    assert isinstance(events[0], Retrying)
    assert 0.007 <= events[0].delay < 0.05
    assert texts(events) == ["ok"]
    assert len(server.calls) == 2


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_wait_that_is_too_long_ends_the_call_and_says_how_long(dialect: str) -> None:
    async with playing(dialect, Reply(http_status=429, headers={"retry-after": "3600"})) as (provider, _):
        seen, error = await failing(provider, request())
    assert isinstance(error, ModelUnavailableError)
    assert "3600 seconds" in str(error)
    assert seen == []


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_tries_come_to_an_end(dialect: str) -> None:
    async with playing(dialect, *[Reply(http_status=529)] * 4) as (provider, server):
        seen, error = await failing(provider, request())
    assert isinstance(error, ModelUnavailableError)
    assert len(server.calls) == 4
    assert [event.attempt for event in seen if isinstance(event, Retrying)] == [1, 2, 3]


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_overloaded_within_a_stream_is_tried_again_where_nothing_was_shown(dialect: str) -> None:
    async with playing(dialect, Reply("x", sse_error="overloaded_error"), Reply("ok")) as (provider, _):
        events = await collect(provider, request())
    assert texts(events) == ["ok"]


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("drop", [BEFORE_HEADERS, 0])
async def test_a_connection_lost_before_the_first_word_is_tried_again(dialect: str, drop: int) -> None:
    async with playing(dialect, Reply(["a", "b"], drop_after=drop), Reply("ok")) as (provider, _):
        events = await collect(provider, request())
    assert texts(events) == ["ok"]


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_calls_that_were_cut_off_before_anything_was_shown_are_asked_for_again(dialect: str) -> None:
    call = ToolCall("read", {"path": "a.py"}, "call_a")
    replies = Reply(tool_calls=[call], drop_after=1), Reply(tool_calls=[call])
    async with playing(dialect, *replies) as (provider, server):
        answer = (await collect(provider, request()))[-1]
    assert isinstance(answer, Answered)
    assert answer.parts == (m.ToolCall("call_a", "read", {"path": "a.py"}),)
    assert len(server.calls) == 2


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_connection_lost_in_mid_answer_ends_it_without_a_second_answer(dialect: str) -> None:
    async with playing(dialect, Reply(["one ", "two"], drop_after=1)) as (provider, server):
        seen, error = await failing(provider, request())
    assert isinstance(error, ModelStreamError)
    assert error.partial
    assert "prompt again to go on" in str(error)
    assert texts(seen) == ["one "]
    assert len(server.calls) == 1


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_an_error_event_in_mid_answer_ends_it(dialect: str) -> None:
    async with playing(dialect, Reply(["one ", "two"], sse_error="overloaded_error", fail_after=1)) as (provider, _):
        seen, error = await failing(provider, request())
    assert isinstance(error, ModelStreamError)
    assert texts(seen) == ["one "]


@pytest.mark.parametrize("dialect", ["anthropic", "openai"])
async def test_a_refused_key_is_not_tried_again_and_not_shown(dialect: str) -> None:
    async with model_server() as server:
        provider = adapter(dialect, server.base_url, key="sk-secret-secret-1234")
        seen, error = await failing(provider, request())
        await provider.aclose()
    assert isinstance(error, ModelAuthError)
    assert ("ANTHROPIC_API_KEY" if dialect == "anthropic" else "OPENAI_API_KEY") in str(error)
    assert "secret" not in str(error)
    assert seen == []


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_key_or_a_header_that_the_server_repeats_is_taken_out_of_the_message(dialect: str) -> None:
    body = {"error": {"message": "Incorrect key test-key, header hush-hush-hush", "type": "x", "code": "y"}}
    async with model_server([Reply(http_status=403, body=body)]) as server:
        provider = adapter(dialect, server.base_url, headers={"x-token": "hush-hush-hush"})
        _, error = await failing(provider, request())
        await provider.aclose()
    assert isinstance(error, ModelAuthError)
    assert "Incorrect key [key], header [key]" in str(error)


@pytest.mark.parametrize(
    ("dialect", "status", "error"),
    [
        ("anthropic", 400, {"type": "invalid_request_error", "message": "prompt is too long: 210000 tokens > 200000"}),
        ("anthropic", 413, {"type": "request_too_large", "message": "Request exceeds the maximum size"}),
        ("openai", 400, {"message": "Your input exceeds…", "code": "context_length_exceeded"}),
        ("chat", 400, {"message": "This model's maximum context length is 8192 tokens. However, you requested 9000"}),
        ("chat", 400, {"message": "The input token count (1100000) exceeds the maximum number of tokens allowed"}),
        ("chat", 400, {"message": "the request exceeds the available context size. try increasing it"}),
        ("chat", 400, {"message": "the model is loaded with a context length of 4096, which is not enough"}),
    ],
)
async def test_a_request_larger_than_the_window_is_told_apart(
    dialect: str, status: int, error: dict[str, object]
) -> None:
    body = {"type": "error", "error": error}
    async with playing(dialect, Reply(http_status=status, body=body)) as (provider, server):
        _, raised = await failing(provider, request())
    assert isinstance(raised, ContextOverflowError)
    # Who asked knows whether a compaction may help: it has just been tried where a turn ends so.
    assert "/compact" not in str(raised)
    assert f"says {provider.name}" in str(raised)
    assert len(server.calls) == 1


@pytest.mark.parametrize("dialect", [*DIALECTS, "google"])
async def test_the_model_servers_own_overflow_is_told_apart(dialect: str) -> None:
    async with model_server([Reply("ok")], max_prompt_tokens=100) as server:
        provider = adapter(dialect, server.base_url)
        _, raised = await failing(provider, request(m.UserMessage("u1", (m.Text("word " * 200),))))
        assert texts(await collect(provider, request())) == ["ok"]
        await provider.aclose()
    assert isinstance(raised, ContextOverflowError)
    assert raised.limit == "tokens"
    assert len(server.calls) == 2


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_another_refusal_of_the_request_is_not_tried_again(dialect: str) -> None:
    async with playing(dialect, Reply(http_status=404)) as (provider, server):
        _, error = await failing(provider, request())
    assert type(error) is ModelRequestError
    assert "as scripted" in str(error)
    assert len(server.calls) == 1


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_an_unreachable_provider_is_an_error_that_names_its_host(dialect: str) -> None:
    provider = adapter(dialect, "http://127.0.0.1:9", policy=RetryPolicy())
    began = time.monotonic()
    seen, error = await failing(provider, request())
    await provider.aclose()
    assert isinstance(error, ModelUnavailableError)
    assert "127.0.0.1:9" in str(error)
    assert [event.attempt for event in seen if isinstance(event, Retrying)] == [1, 2]
    assert time.monotonic() - began < 15


@pytest.mark.parametrize("dialect", ["openai", "chat"])
async def test_a_missing_key_is_said_before_anything_is_sent(dialect: str) -> None:
    _, error = await failing(adapter(dialect, "http://127.0.0.1:9", key=""), request())
    assert isinstance(error, ModelAuthError)
    assert "API_KEY" in str(error)


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_server_that_hangs_up_at_once_is_given_up_like_one_that_cannot_be_reached(dialect: str) -> None:
    policy = RetryPolicy(attempts=50, base=0.01, connect_limit=0.1)
    silent = [Reply(drop_after=BEFORE_HEADERS)] * 50
    async with playing(dialect, *silent, policy=policy) as (provider, server):
        seen, error = await failing(provider, request())
    assert isinstance(error, ModelUnavailableError)
    assert "closed the connection without a word" in str(error)
    # By then the waits of 0.01, 0.02, 0.04 … seconds, up to a quarter shorter, come to more than the limit.
    assert 1 <= len(seen) <= 4
    assert len(server.calls) == len(seen) + 1
    assert RetryPolicy().connect_limit < 15


async def test_a_server_that_held_the_request_for_longer_before_it_hung_up_is_tried_again() -> None:
    policy = RetryPolicy(attempts=3, base=0.01, connect_limit=0.0)
    async with playing("chat", Reply(drop_after=BEFORE_HEADERS), Reply("ok"), policy=policy) as (provider, _):
        assert texts(await collect(provider, request())) == ["ok"]
