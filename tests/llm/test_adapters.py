"""The adapters through the real SDKs, against a model server on the loopback interface."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager

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
from acp_agent.llm.anthropic import AnthropicAccess, AnthropicProvider
from acp_agent.llm.openai import OpenAIAccess
from acp_agent.llm.openai_chat import OpenAIChatProvider
from acp_agent.llm.openai_responses import OpenAIResponsesProvider
from acp_agent.llm.profiles import ModelProfile, Prices
from acp_agent.llm.provider import (
    Answered,
    ModelEvent,
    ModelRequest,
    Retrying,
    TextDelta,
    ThinkingDelta,
    ToolDefinition,
)
from acp_agent.llm.retry import RetryPolicy
from support.models import BEFORE_HEADERS, ModelServer, Reply, ToolCall, Usage, model_server

KEY = "test-key"
QUICK = RetryPolicy(attempts=4, base=0.005, connect_attempts=2)
PROFILE = ModelProfile(200_000, 8_192, thinking="none", prices=Prices(10, 1, 20, 100))
THINKING = ModelProfile(200_000, 8_192, thinking="effort")
DIALECTS = ["anthropic", "openai", "chat"]
Adapter = AnthropicProvider | OpenAIResponsesProvider | OpenAIChatProvider


def adapter(
    dialect: str,
    base_url: str,
    *,
    key: str = KEY,
    headers: dict[str, str] | None = None,
    policy: RetryPolicy = QUICK,
    profile: ModelProfile = PROFILE,
) -> Adapter:
    if dialect == "anthropic":
        access = AnthropicAccess(api_key=key, base_url=base_url, headers=headers or {})
        return AnthropicProvider(access, lambda _: profile, policy)
    access = OpenAIAccess(
        name="openai" if dialect == "openai" else "local",
        api_key=key,
        base_url=f"{base_url}/v1beta/openai/" if dialect == "google" else f"{base_url}/v1",
        headers=headers or {},
        key_hint="OPENAI_API_KEY" if dialect == "openai" else "LOCAL_API_KEY",
    )
    kind = OpenAIResponsesProvider if dialect == "openai" else OpenAIChatProvider
    return kind(access, lambda _: profile, policy)


def request(*messages: m.Message, model: str = "claude-test", **more: object) -> ModelRequest:
    said = messages or (m.UserMessage("u1", (m.Text("Hello"),)),)
    return ModelRequest(model, "Be brief.", said, conversation_id="sess_1", **more)  # pyright: ignore[reportArgumentType]


async def collect(provider: Adapter, asked: ModelRequest) -> list[ModelEvent]:
    with anyio.fail_after(20):
        async with aclosing(provider.stream(asked)) as events:
            return [event async for event in events]


async def failing(provider: Adapter, asked: ModelRequest) -> tuple[list[ModelEvent], ModelError]:
    seen: list[ModelEvent] = []

    async def listen() -> None:
        async with aclosing(provider.stream(asked)) as events:
            async for event in events:
                seen.append(event)  # noqa: PERF401 - what came before the error counts

    with anyio.fail_after(20), pytest.raises(ModelError) as caught:
        await listen()
    return seen, caught.value


@asynccontextmanager
async def playing(
    dialect: str, *replies: Reply, profile: ModelProfile = PROFILE, policy: RetryPolicy = QUICK
) -> AsyncIterator[tuple[Adapter, ModelServer]]:
    async with model_server(replies) as server:
        provider = adapter(dialect, server.base_url, profile=profile, policy=policy)
        try:
            yield provider, server
        finally:
            await provider.aclose()


def texts(events: list[ModelEvent]) -> list[str]:
    return [event.text for event in events if isinstance(event, TextDelta)]


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_an_answer_streams_and_ends_with_its_parts_usage_and_cost(dialect: str) -> None:
    reply = Reply(["Hel", "lo ", "wörld"], usage=Usage(input=900, output=50, cache_read=800))
    async with playing(dialect, reply) as (provider, server):
        events = await collect(provider, request())
    assert texts(events) == ["Hel", "lo ", "wörld"]
    usage = m.Usage(900, 50, 800, 0, cost=pytest.approx(0.0148))  # pyright: ignore[reportArgumentType]
    assert events[-1] == Answered((m.Text("Hello wörld"),), "end_turn", usage)
    assert len(server.calls) == 1


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_tool_calls_arrive_with_their_arguments(dialect: str) -> None:
    calls = [ToolCall("read", {"path": "ä.py", "n": [1, None]}, "call_a"), ToolCall("list", {}, "call_b")]
    async with playing(dialect, Reply("Look.", tool_calls=calls)) as (provider, _):
        tools = (ToolDefinition("read", "Reads.", {"type": "object", "properties": {"path": {"type": "string"}}}),)
        events = await collect(provider, request(tools=tools))
    answer = events[-1]
    assert isinstance(answer, Answered)
    assert answer.stop_reason == "tool_use"
    assert answer.parts == (
        m.Text("Look."),
        m.ToolCall("call_a", "read", {"path": "ä.py", "n": [1, None]}),
        m.ToolCall("call_b", "list", {}),
    )


@pytest.mark.parametrize("dialect", ["openai", "chat"])
async def test_arguments_that_are_no_object_are_kept_raw(dialect: str) -> None:
    async with playing(dialect, Reply(tool_calls=[ToolCall("read", '{"path": "a', "call_a")])) as (provider, _):
        events = await collect(provider, request())
    answer = events[-1]
    assert isinstance(answer, Answered)
    assert answer.parts == (m.ToolCall("call_a", "read", {}, invalid='{"path": "a'),)


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_thinking_streams(dialect: str) -> None:
    async with playing(dialect, Reply("42", thinking=["So ", "then"]), profile=THINKING) as (provider, _):
        events = await collect(provider, request(thought_level="high"))
    assert [event.text for event in events if isinstance(event, ThinkingDelta)] == ["So ", "then"]
    answer = events[-1]
    assert isinstance(answer, Answered)
    assert isinstance(answer.parts[0], m.Thinking)
    assert (answer.parts[0].text, answer.parts[0].provider) == ("So then", provider.name)


async def test_anthropics_thinking_goes_back_as_it_came() -> None:
    async with playing("anthropic", Reply("42", thinking="Hm."), Reply("43")) as (provider, server):
        first = request()
        answer = (await collect(provider, first))[-1]
        assert isinstance(answer, Answered)
        again = m.AssistantMessage("a1", answer.parts), m.UserMessage("u2", (m.Text("More"),))
        await collect(provider, request(*first.messages, *again))
    assert server.calls[1].body["messages"][1]["content"] == [
        {"type": "thinking", "thinking": "Hm.", "signature": "signature-of-rs_1"},
        {"type": "text", "text": "42"},
    ]


@pytest.mark.parametrize(
    ("dialect", "stop", "expected"),
    [
        ("anthropic", "max_tokens", "max_tokens"),
        ("anthropic", "refusal", "refusal"),
        ("anthropic", "pause_turn", "pause_turn"),
        ("anthropic", "model_context_window_exceeded", "context_overflow"),
        ("openai", "max_tokens", "max_tokens"),
        ("openai", "model_context_window_exceeded", "max_tokens"),
        ("openai", "content_filter", "refusal"),
        ("openai", "refusal", "refusal"),
        ("chat", "max_tokens", "max_tokens"),
        ("chat", "model_context_window_exceeded", "max_tokens"),
        ("chat", "content_filter", "refusal"),
        ("chat", "refusal", "refusal"),
    ],
)
async def test_each_way_to_stop_has_its_stop_reason(dialect: str, stop: str, expected: str) -> None:
    async with playing(dialect, Reply("Well", stop=stop)) as (provider, _):
        answer = (await collect(provider, request()))[-1]
    assert isinstance(answer, Answered)
    assert answer.stop_reason == expected


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


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_headers_of_the_configuration_are_sent(dialect: str) -> None:
    async with model_server([Reply("ok")]) as server:
        provider = adapter(dialect, server.base_url, headers={"x-team": "red"})
        await collect(provider, request())
        await provider.aclose()
    assert server.calls[0].headers["x-team"] == "red"


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
    assert "/compact" in str(raised)
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


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_leaving_the_stream_ends_the_call_at_once(dialect: str) -> None:
    async with playing(dialect, Reply(["one", "two"], hold=anyio.Event(), hold_after=1)) as (provider, server):
        with anyio.fail_after(10):
            async with aclosing(provider.stream(request())) as events:
                async for event in events:
                    assert event == TextDelta("one")
                    break
            await server.wait_aborted()


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_cancelling_a_call_that_says_nothing_hangs_up(dialect: str) -> None:
    async with playing(dialect, Reply("x", hang=True)) as (provider, server):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(collect, provider, request())
            await server.wait_held()
            tasks.cancel_scope.cancel()
        await server.wait_aborted()


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_the_connection_is_used_again(dialect: str) -> None:
    async with playing(dialect, Reply("one"), Reply("two")) as (provider, server):
        await collect(provider, request())
        await server.wait_finished()
        await collect(provider, request())
    assert len({call.connection for call in server.calls}) == 1


async def test_the_window_comes_from_anthropic_and_is_asked_for_once() -> None:
    async with model_server(context_window=1_000_000) as server:
        provider = adapter("anthropic", server.base_url)
        for model in ("claude-test", "claude-test", "claude-unknown", "claude-unknown"):
            await provider.learn_window(model)
        assert provider.context_window("claude-test") == 1_000_000
        assert provider.context_window("claude-unknown") is None
        assert set(await provider.models()) == set(server.windows)
        await provider.aclose()
    asked = [seen.path for seen in server.requests]
    assert asked == ["/v1/models/claude-test", "/v1/models/claude-unknown", "/v1/models"]


async def test_thinking_that_the_api_no_longer_accepts_is_left_out_from_then_on() -> None:
    refused = {
        "error": {
            "type": "invalid_request_error",
            "message": "messages.1.content.0: Invalid `signature` in `thinking` block.",
        }
    }
    thought = m.Thinking("Hm.", "anthropic", {"type": "thinking", "signature": "s"})
    said = (
        m.UserMessage("u1", (m.Text("Hello"),)),
        m.AssistantMessage("a1", (thought, m.Text("Hi"))),
        m.UserMessage("u2", (m.Text("More"),)),
    )
    replies = Reply(http_status=400, body=refused), Reply("ok"), Reply("again")
    async with playing("anthropic", *replies) as (provider, server):
        assert texts(await collect(provider, request(*said))) == ["ok"]
        assert texts(await collect(provider, request(*said))) == ["again"]
    kinds = [[block["type"] for block in call.body["messages"][1]["content"]] for call in server.calls]
    assert kinds == [["thinking", "text"], ["text"], ["text"]]


async def test_summaries_that_an_organisation_may_not_have_are_not_asked_for_again() -> None:
    refused = {
        "error": {"message": "Your organization must be verified to generate reasoning summaries.", "code": None}
    }
    replies = Reply(http_status=400, body=refused), Reply("ok"), Reply("again")
    async with playing("openai", *replies, profile=THINKING) as (provider, server):
        await collect(provider, request(thought_level="low"))
        await collect(provider, request(thought_level="low"))
    assert [call.body["reasoning"] for call in server.calls] == [
        {"summary": "auto", "effort": "low"},
        {"effort": "low"},
        {"effort": "low"},
    ]


@pytest.mark.parametrize("dialect", ["openai", "chat"])
async def test_a_missing_key_is_said_before_anything_is_sent(dialect: str) -> None:
    _, error = await failing(adapter(dialect, "http://127.0.0.1:9", key=""), request())
    assert isinstance(error, ModelAuthError)
    assert "API_KEY" in str(error)


async def test_a_proxy_variable_is_honoured(monkeypatch: pytest.MonkeyPatch) -> None:
    async with model_server([Reply("via proxy")]) as server:
        monkeypatch.setenv("http_proxy", server.base_url)
        monkeypatch.delenv("no_proxy", raising=False)
        monkeypatch.delenv("NO_PROXY", raising=False)
        provider = adapter("chat", "http://models.invalid")
        try:
            events = await collect(provider, request())
        finally:
            await provider.aclose()
    assert texts(events) == ["via proxy"]


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
