"""When a context has to be made short, and when a provider is asked to count."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_agent.compaction.budget import Limits, TokenBudget, pressure, truncated_by_window
from acp_agent.conversation.messages import AssistantMessage, Image, StopReason, Text, Usage, UserMessage

BUDGET = TokenBudget(40_000, 20_000)
LIMITS = Limits(100, 32_000_000)
ORDER = ("none", "prepare", "threshold", "urgent", "full")


@pytest.mark.parametrize(
    ("used", "level"),
    [
        *((20_999, "none"), (21_001, "prepare"), (24_001, "threshold")),
        *((28_501, "urgent"), (37_152, "urgent"), (37_153, "full")),
    ],
)
def test_the_pressure_rises_with_what_the_context_takes(used: int, level: str) -> None:
    assert pressure(BUDGET.filled(used, 3_000), (), LIMITS, threshold=0.8, prepare=0.7) == level


@given(st.integers(0, 50_000), st.integers(0, 50_000), st.floats(0.3, 0.95), st.floats(0.1, 0.29))
def test_more_tokens_are_never_less_pressure(used: int, more: int, threshold: float, prepare: float) -> None:
    first, second = (
        pressure(BUDGET.filled(tokens, 0), (), LIMITS, threshold=threshold, prepare=prepare)
        for tokens in (used, used + more)
    )
    assert ORDER.index(first) <= ORDER.index(second)


@pytest.mark.parametrize(
    ("older", "newest", "size", "level"),
    [
        (90, 0, 10, "none"),
        (91, 0, 10, "request_size"),
        (1, 90, 10, "request_size"),
        (0, 100, 10, "none"),
        (0, 101, 10, "request_size"),
        (0, 8, 3_600_001, "request_size"),
    ],
)
def test_images_and_bytes_are_limits_as_well(older: int, newest: int, size: int, level: str) -> None:
    image = Image("x" * size, "image/png")
    before = (UserMessage("m", (*[image] * older, Text("See."))), AssistantMessage("a", (Text("I see."),)))
    messages = (*before, UserMessage("n", (*[image] * newest, Text("And?"))))
    assert pressure(BUDGET, messages, LIMITS, threshold=0.8, prepare=0.7) == level


@pytest.mark.parametrize(
    ("stop", "total", "ended"),
    [
        ("context_overflow", 0, True),
        ("max_tokens", 28_500, False),
        ("max_tokens", 28_501, True),
        ("end_turn", 30_000, False),
    ],
)
def test_an_answer_ended_for_want_of_room_only_where_the_window_was_full(
    stop: StopReason, total: int, ended: bool
) -> None:
    answer = AssistantMessage("m", (Text("x"),), "", stop, Usage(total, 0) if total else None)
    assert truncated_by_window(answer, BUDGET) is ended
