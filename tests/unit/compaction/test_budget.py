"""How much of a window is free, and when a context has to be compacted."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_agent.compaction.budget import (
    MIN_OUTPUT,
    Limits,
    TokenBudget,
    pressure,
    truncated_by_window,
)
from acp_agent.conversation.messages import (
    AssistantMessage,
    Image,
    StopReason,
    Text,
    Usage,
    UserMessage,
)

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
def test_the_pressure_rises_with_the_size_of_the_context(used: int, level: str) -> None:
    assert (
        pressure(
            BUDGET.filled(used, 3_000),
            limits_exceeded=False,
            threshold=0.8,
            prepare=0.7,
        )
        == level
    )


@given(
    st.integers(0, 50_000),
    st.integers(0, 50_000),
    st.floats(0.3, 0.95),
    st.floats(0.1, 0.29),
)
def test_more_tokens_never_lower_the_pressure(
    used: int, more: int, threshold: float, prepare: float
) -> None:
    first, second = (
        pressure(
            BUDGET.filled(tokens, 0),
            limits_exceeded=False,
            threshold=threshold,
            prepare=prepare,
        )
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
def test_images_and_bytes_are_limited_too(
    older: int, newest: int, size: int, level: str
) -> None:
    image = Image("x" * size, "image/png")
    before = (
        UserMessage("m", (*[image] * older, Text("See."))),
        AssistantMessage("a", (Text("I see."),)),
    )
    messages = (*before, UserMessage("n", (*[image] * newest, Text("And?"))))
    assert (
        pressure(
            BUDGET,
            limits_exceeded=LIMITS.exceeded(messages),
            threshold=0.8,
            prepare=0.7,
        )
        == level
    )


@pytest.mark.parametrize(
    ("stop", "total", "ended"),
    [
        ("context_overflow", 0, True),
        ("max_tokens", 28_500, False),
        ("max_tokens", 28_501, True),
        ("end_turn", 30_000, False),
    ],
)
def test_truncation_is_blamed_on_the_window_only_if_it_was_full(
    stop: StopReason, total: int, ended: bool
) -> None:
    answer = AssistantMessage(
        "m", (Text("x"),), "", stop, Usage(total, 0) if total else None
    )
    assert truncated_by_window(answer, BUDGET) is ended


windows = st.integers(-5, 2_000_000)
counts = st.integers(-1_000, 4_000_000)


@given(windows, counts, counts, counts, counts)
def test_no_value_is_negative_whatever_a_provider_reports(
    window: int, reserve: int, used: int, system: int, wanted: int
) -> None:
    budget = TokenBudget(window, reserve).filled(used, system)
    numbers = (
        budget.output_reserve,
        budget.system,
        budget.messages,
        budget.used,
        budget.free,
    )
    assert min(numbers) >= 0
    assert (
        min(
            budget.window,
            budget.usable,
            budget.limit,
            budget.output(budget.used, max(1, wanted)),
        )
        >= 1
    )
    assert budget.utilisation >= 0
    assert budget.used == max(0, used)
    assert budget.free == 0 or budget.used + budget.free == budget.usable


@given(st.integers(1, 2_000_000), st.integers(0, 2_000_000), st.floats(0.1, 0.95))
def test_a_budget_leaves_room_for_the_answer_and_knows_when_it_is_exceeded(
    window: int, reserve: int, threshold: float
) -> None:
    budget = TokenBudget(window, reserve)
    assert window * 0.75 <= budget.usable <= window
    assert budget.usable >= window - reserve
    limit = int(budget.usable * threshold)
    assert not budget.exceeded(limit, threshold)
    assert budget.exceeded(limit + 1, threshold)


@given(st.integers(8_192, 2_000_000), st.integers(1, 200_000))
def test_a_request_at_the_limit_leaves_room_for_a_useful_answer(
    window: int, wanted: int
) -> None:
    budget = TokenBudget(window, wanted)
    assert budget.limit + budget.output(budget.limit, wanted) <= window
    assert budget.output(budget.limit, wanted) >= min(wanted, MIN_OUTPUT)


@given(st.integers(1, 2_000_000), st.integers(0, 200_000))
def test_a_request_over_the_limit_is_shortened_enough_for_a_longer_answer(
    window: int, wanted: int
) -> None:
    budget = TokenBudget(window, wanted)
    assert 1 <= budget.target <= budget.limit
    if window >= 1_000:
        assert budget.output(budget.target, wanted) >= min(wanted, window // 4 - 1)
        assert budget.target > window * 0.7, (
            "no more is given up than an answer is likely to need"
        )
