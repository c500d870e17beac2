"""Gemini's thought signatures, on the first call of each step."""

from __future__ import annotations

import json
from typing import Any

import pytest

from acp_agent.conversation import messages as m
from acp_agent.llm.adapters.chat import ChatAdapter
from acp_agent.llm.places import BUILT_IN, Endpoint
from acp_agent.llm.profiles import ModelProfile
from acp_agent.llm.provider import ModelRequest

SIGNED: dict[str, Any] = {"google": {"thought_signature": "sig"}}
DUMMY = {"google": {"thought_signature": "skip_thought_signature_validator"}}
CALLS = (m.ToolCall("c1", "read"), m.ToolCall("c2", "list"))


def step(
    *parts: m.Thinking, model: str = "google/gemini-3.8-flash"
) -> m.AssistantMessage:
    return m.AssistantMessage("a", (*parts, *CALLS), model)


def sent(model: str, *steps: m.AssistantMessage) -> list[list[Any]]:
    """What is attached to the calls of each step."""
    adapter = ChatAdapter(
        Endpoint("google", "openai-chat", BUILT_IN["google"].base_url)
    )
    messages: list[m.Message] = [m.UserMessage("u", (m.Text("Hi"),))]
    for each in steps:
        messages += [
            each,
            *(m.ToolResult(call.id, (m.Text("Done."),)) for call in CALLS),
        ]
    call = adapter.call(
        ModelRequest(model, "", tuple(messages)), ModelProfile(), frozenset(), None
    )
    wire = [
        each
        for each in json.loads(call.content)["messages"]
        if each["role"] == "assistant"
    ]
    assert not any("reasoning_content" in each or "reasoning" in each for each in wire)
    assert not call.features
    return [[call.get("extra_content") for call in each["tool_calls"]] for each in wire]


def test_a_signature_goes_back_to_the_call_that_it_came_with() -> None:
    kept = m.Thinking(
        "Hm.", "google", {"key": "reasoning_content", "extra_content": {"0": SIGNED}}
    )
    assert sent("gemini-3.8-flash", step(kept)) == [[SIGNED, None]]


@pytest.mark.parametrize(
    "model", ["gemini-3.8-flash", "gemini-3.1-pro-preview", "gemini-flash-latest"]
)
def test_the_first_call_of_a_step_without_a_signature_gets_the_documented_stand_in(
    model: str,
) -> None:
    kept = m.Thinking("", "google", {"extra_content": {"0": SIGNED}})
    foreign = step(
        m.Thinking("Hm.", "anthropic", {"type": "thinking", "signature": "s"}),
        model="anthropic/claude-5",
    )
    assert sent(model, step(kept), foreign, step()) == [
        [SIGNED, None],
        [DUMMY, None],
        [DUMMY, None],
    ]


def test_signatures_of_another_provider_are_replaced() -> None:
    other = m.Thinking("", "vertex", {"extra_content": {"0": SIGNED}})
    assert sent("gemini-3.8-flash", step(other, model="vertex/gemini-3.8-flash")) == [
        [DUMMY, None]
    ]


def test_models_that_need_no_signature_get_no_stand_in() -> None:
    assert sent("gemini-2.5-pro", step()) == [[None, None]]
    kept = m.Thinking("", "google", {"extra_content": {"0": SIGNED}})
    assert sent("gemini-2.5-pro", step(kept)) == [[SIGNED, None]]
