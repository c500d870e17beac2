"""The room that a window leaves, and that no number of it is ever below zero."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from acp_agent.compaction.budget import MIN_OUTPUT, TokenBudget

windows = st.integers(-5, 2_000_000)
counts = st.integers(-1_000, 4_000_000)


@given(windows, counts, counts, counts, counts)
def test_no_number_is_below_zero_whatever_a_provider_says(
    window: int, reserve: int, used: int, system: int, wanted: int
) -> None:
    budget = TokenBudget(window, reserve).filled(used, system)
    numbers = (budget.output_reserve, budget.system, budget.messages, budget.used, budget.free)
    assert min(numbers) >= 0
    assert min(budget.window, budget.usable, budget.limit, budget.output(budget.used, max(1, wanted))) >= 1
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
def test_a_request_at_the_limit_still_gets_an_answer_that_is_worth_it(window: int, wanted: int) -> None:
    budget = TokenBudget(window, wanted)
    assert budget.limit + budget.output(budget.limit, wanted) <= window
    assert budget.output(budget.limit, wanted) >= min(wanted, MIN_OUTPUT)


@given(st.integers(1, 2_000_000), st.integers(0, 200_000))
def test_what_is_over_the_limit_is_brought_below_it_with_room_for_a_longer_answer(window: int, wanted: int) -> None:
    budget = TokenBudget(window, wanted)
    assert 1 <= budget.target <= budget.limit
    if window >= 1_000:
        assert budget.output(budget.target, wanted) >= min(wanted, window // 4 - 1)
        assert budget.target > window * 0.7, "no more is given up than an answer is likely to need"
