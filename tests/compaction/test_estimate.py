"""Counting tokens that no provider has counted, and when a window is full."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_agent.compaction.budget import TokenBudget
from acp_agent.compaction.estimate import estimate_message, estimate_messages, estimate_prefix, used_tokens
from acp_agent.conversation.context import Context
from acp_agent.conversation.events import LoggedEvent
from acp_agent.conversation.messages import (
    AssistantMessage,
    Image,
    Message,
    Resource,
    ResourceLink,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Usage,
    UserMessage,
)
from acp_agent.llm.provider import ToolDefinition
from support.logs import LogBuilder, legal_logs

FULL: list[Message] = [
    UserMessage("m", (Text("x" * 4_000),)),
    UserMessage("m", (Resource("file:///a", text="x" * 4_000),)),
    UserMessage("m", (Resource("file:///a", blob="x" * 4_000),)),
    UserMessage("m", (ResourceLink("file:///" + "x" * 4_000, "a"),)),
    UserMessage("m", (Image("eA==", "image/png"),)),
    AssistantMessage("m", (Thinking("x" * 4_000),)),
    AssistantMessage("m", (Thinking("", "anthropic", {"signature": "x" * 4_000}),)),
    AssistantMessage("m", (ToolCall("c", "edit", {"edits": [{"new_text": "x" * 4_000}]}),)),
    AssistantMessage("m", (ToolCall("c", "edit", invalid="x" * 4_000),)),
    ToolResult("c", (Text("x" * 4_000),)),
    ToolResult("c", (Image("eA==", "image/png"),)),
]


@pytest.mark.parametrize("message", FULL, ids=[f"{m.role} {type(m.parts[0]).__name__}" for m in FULL])
def test_nothing_that_is_sent_escapes_the_estimate(message: Message) -> None:
    assert 1_000 <= estimate_message(message) <= 2_000


@given(st.text(), st.text())
def test_more_text_is_never_fewer_tokens(text: str, more: str) -> None:
    short = estimate_message(UserMessage("m", (Text(text),)))
    assert short <= estimate_message(UserMessage("m", (Text(text + more),)))
    assert short < estimate_messages([UserMessage("m", (Text(text),)), UserMessage("m", (Text(more),))])


@given(legal_logs(), st.integers(0, 50))
def test_the_providers_count_wins_and_what_came_since_is_added(log: tuple[LoggedEvent, ...], prefix: int) -> None:
    context = Context.from_log(log)
    used = used_tokens(context, prefix)
    if context.baseline:
        since = [entry.message for entry in context.entries if entry.seq > context.baseline_seq]
        assert used == context.baseline + estimate_messages(since)
    elif context.entries:
        assert used == prefix + estimate_messages(context.messages)
    else:
        assert used == 0


def test_the_count_from_before_a_compaction_is_void() -> None:
    log = LogBuilder()
    log.prompt("One?")
    log.step("One.", usage=Usage(150_000, 500, 20_000, 7))
    log.end()
    assert used_tokens(log.context, 10) == 170_507
    log.swap()
    assert used_tokens(log.context, 10) == 100  # what the swap says of its context
    log.prompt("x" * 400)
    assert used_tokens(log.context, 10) == 100 + 104


def test_tools_count_as_part_of_what_stands_before_the_messages() -> None:
    tool = ToolDefinition("read", "Reads.", {"type": "object", "description": "x" * 4_000})
    assert estimate_prefix("x" * 400, []) == 100
    assert estimate_prefix("x" * 400, [tool]) > 1_100


@given(st.integers(1, 2_000_000), st.integers(0, 2_000_000), st.floats(0.1, 0.95))
def test_a_budget_leaves_room_for_the_answer_and_knows_when_it_is_exceeded(
    window: int, reserve: int, threshold: float
) -> None:
    budget = TokenBudget(window, reserve)
    assert window * 0.75 <= budget.usable <= window
    assert budget.usable >= window - reserve
    assert 0 <= budget.tail <= min(20_000, window * 0.2)
    limit = int(budget.usable * threshold)
    assert not budget.exceeded(limit, threshold)
    assert budget.exceeded(limit + 1, threshold)
