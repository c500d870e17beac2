"""A fold that goes on where it stopped."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_agent.accumulator import Accumulator


@given(st.lists(st.lists(st.integers(0, 2), max_size=6).map(tuple), max_size=6))
def test_whatever_was_folded_before_the_fold_is_that_of_these_items_alone(
    asked: list[tuple[int, ...]],
) -> None:
    accumulator = Accumulator[int, tuple[int, ...]](
        (), lambda folded, added: folded + added
    )
    assert [accumulator.over(items) for items in asked] == asked


def test_what_continues_the_last_items_is_folded_alone() -> None:
    added: list[tuple[int, ...]] = []
    accumulator = Accumulator[int, int](
        0, lambda folded, more: added.append(more) or folded + sum(more)
    )
    assert [
        accumulator.over(items) for items in ((1, 2), (1, 2, 3), (1, 2, 3), (1, 4))
    ] == [3, 6, 6, 5]
    assert added == [(1, 2), (3,), (1, 4)]


def test_items_that_cannot_be_folded_lose_none_of_those_before() -> None:
    def add(folded: tuple[str, ...], added: tuple[str, ...]) -> tuple[str, ...]:
        if "bad" in added:
            raise ValueError("bad")
        return folded + added

    accumulator = Accumulator[str, tuple[str, ...]]((), add)
    accumulator.over(("a", "b", "c"))
    with pytest.raises(ValueError, match="bad"):
        accumulator.over(("a", "bad"))
    assert accumulator.over(("a", "b", "c", "d")) == ("a", "b", "c", "d")
