"""The adapters through the real SDKs, against a model server on the loopback interface:
answers.
"""

from __future__ import annotations

from contextlib import aclosing

import anyio
import pytest

from acp_agent.conversation import messages as m
from acp_agent.conversation.surroundings import Feature
from acp_agent.llm.profiles import ModelProfile
from acp_agent.llm.provider import (
    Answered,
    ReasoningRefused,
    Refused,
    TextDelta,
    ThinkingDelta,
    ToolDefinition,
)
from support.adapters import DIALECTS, collect, playing, request, texts
from support.models import Reply, ToolCall, Usage

THINKING = ModelProfile(200_000, 8_192, thinking="effort")


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_an_answer_streams_and_ends_with_its_parts_usage_and_cost(
    dialect: str,
) -> None:
    reply = Reply(
        ["Hel", "lo ", "wörld"], usage=Usage(input=900, output=50, cache_read=800)
    )
    async with playing(dialect, reply) as (provider, server):
        events = await collect(provider, request())
    assert texts(events) == ["Hel", "lo ", "wörld"]
    usage = m.Usage(900, 50, 800, 0, cost=pytest.approx(0.0148))  # pyright: ignore[reportArgumentType]
    assert events[-1] == Answered((m.Text("Hello wörld"),), "end_turn", usage)
    assert len(server.calls) == 1


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_tool_calls_arrive_with_their_arguments(dialect: str) -> None:
    calls = [
        ToolCall("read", {"path": "ä.py", "n": [1, None]}, "call_a"),
        ToolCall("list", {}, "call_b"),
    ]
    async with playing(dialect, Reply("Look.", tool_calls=calls)) as (provider, _):
        tools = (
            ToolDefinition(
                "read",
                "Reads.",
                {"type": "object", "properties": {"path": {"type": "string"}}},
            ),
        )
        events = await collect(provider, request(tools=tools))
    answer = events[-1]
    assert isinstance(answer, Answered)
    assert answer.stop_reason == "tool_use"
    assert answer.parts == (
        m.Text("Look."),
        m.ToolCall("call_a", "read", {"path": "ä.py", "n": [1, None]}),
        m.ToolCall("call_b", "list", {}),
    )


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_thinking_streams(dialect: str) -> None:
    async with playing(
        dialect, Reply("42", thinking=["So ", "then"]), profile=THINKING
    ) as (provider, _):
        events = await collect(provider, request(thought_level="high"))
    assert [event.text for event in events if isinstance(event, ThinkingDelta)] == [
        "So ",
        "then",
    ]
    answer = events[-1]
    assert isinstance(answer, Answered)
    assert isinstance(answer.parts[0], m.Thinking)
    assert (answer.parts[0].text, answer.parts[0].provider) == (
        "So then",
        provider.name,
    )


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
async def test_each_way_to_stop_has_its_stop_reason(
    dialect: str, stop: str, expected: str
) -> None:
    async with playing(dialect, Reply("Well", stop=stop)) as (provider, _):
        answer = (await collect(provider, request()))[-1]
    assert isinstance(answer, Answered)
    assert answer.stop_reason == expected


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_leaving_the_stream_ends_the_call_at_once(dialect: str) -> None:
    async with playing(
        dialect, Reply(["one", "two"], hold=anyio.Event(), hold_after=1)
    ) as (provider, server):
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


async def test_thinking_that_the_api_does_not_accept_is_left_out_at_once_and_reported() -> (
    None
):
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
    async with playing(
        "anthropic", Reply(http_status=400, body=refused), Reply("ok")
    ) as (provider, server):
        events = await collect(provider, request(*said))
    assert texts(events) == ["ok"]
    assert events[0] == ReasoningRefused(
        ("a1",), (m.name_of(thought),), refused["error"]["message"]
    )
    kinds = [
        [block["type"] for block in call.body["messages"][1]["content"]]
        for call in server.calls
    ]
    assert kinds == [["thinking", "text"], ["text"]]


async def test_summaries_that_an_organisation_may_not_have_are_left_out_at_once_and_if_they_were_refused_before() -> (
    None
):
    refused = {
        "error": {
            "message": "Your organization must be verified to generate reasoning summaries.",
            "code": None,
        }
    }
    replies = (
        Reply(http_status=400, body=refused),
        Reply(http_status=503),
        Reply("ok"),
        Reply("again"),
    )
    async with playing("openai", *replies, profile=THINKING) as (provider, server):
        events = await collect(provider, request(thought_level="low"))
        assert texts(events) == ["ok"]
        assert events.count(Refused("summaries")) == 1
        known = frozenset[Feature](("summaries",))
        assert texts(
            await collect(provider, request(thought_level="low", refused=known))
        ) == ["again"]
    asked = [call.body["reasoning"] for call in server.calls]
    assert asked == [{"summary": "auto", "effort": "low"}, *[{"effort": "low"}] * 3]
