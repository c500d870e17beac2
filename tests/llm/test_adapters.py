"""The adapters through the real SDKs, against a model server on the loopback interface: answers."""

from __future__ import annotations

from contextlib import aclosing

import anyio
import pytest

from acp_agent.conversation import messages as m
from acp_agent.llm.profiles import ModelProfile
from acp_agent.llm.provider import (
    Answered,
    TextDelta,
    ThinkingDelta,
    ToolDefinition,
)
from support.adapters import DIALECTS, adapter, collect, playing, request, texts
from support.models import Reply, ToolCall, Usage, model_server

THINKING = ModelProfile(200_000, 8_192, thinking="effort")


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
async def test_headers_of_the_configuration_are_sent(dialect: str) -> None:
    async with model_server([Reply("ok")]) as server:
        provider = adapter(dialect, server.base_url, headers={"x-team": "red"})
        await collect(provider, request())
        await provider.aclose()
    assert server.calls[0].headers["x-team"] == "red"


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


async def test_a_failure_that_passes_is_tried_again_also_after_a_request_was_sent_in_another_form() -> None:
    refused = {"error": {"message": "Your organization must be verified to generate reasoning summaries."}}
    replies = Reply(http_status=400, body=refused), Reply(http_status=503), Reply("ok")
    async with playing("openai", *replies, profile=THINKING) as (provider, server):
        assert texts(await collect(provider, request(thought_level="low"))) == ["ok"]
    assert len(server.calls) == 3


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
