"""The accumulator: a fold that continues where it stopped."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_agent.accumulator import Accumulator


@given(st.lists(st.lists(st.integers(0, 2), max_size=6).map(tuple), max_size=6))
def test_the_result_depends_only_on_the_given_items(
    asked: list[tuple[int, ...]],
) -> None:
    accumulator = Accumulator[int, tuple[int, ...]](
        (), lambda folded, added: folded + added
    )
    assert [accumulator.over(items) for items in asked] == asked


def test_only_new_items_are_folded_if_they_continue_the_last_ones() -> None:
    added: list[tuple[int, ...]] = []
    accumulator = Accumulator[int, int](
        0, lambda folded, more: added.append(more) or folded + sum(more)
    )
    assert [
        accumulator.over(items) for items in ((1, 2), (1, 2, 3), (1, 2, 3), (1, 4))
    ] == [3, 6, 6, 5]
    assert added == [(1, 2), (3,), (1, 4)]


def test_an_error_while_folding_loses_no_earlier_items() -> None:
    def add(folded: tuple[str, ...], added: tuple[str, ...]) -> tuple[str, ...]:
        if "bad" in added:
            raise ValueError("bad")
        return folded + added

    accumulator = Accumulator[str, tuple[str, ...]]((), add)
    accumulator.over(("a", "b", "c"))
    with pytest.raises(ValueError, match="bad"):
        accumulator.over(("a", "bad"))
    assert accumulator.over(("a", "b", "c", "d")) == ("a", "b", "c", "d")
