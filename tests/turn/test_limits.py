"""What is left of a turn's limits when hooks let it go on."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from acp_agent.turn.host import TurnLimits

STEPS = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9).map(float)), max_size=5)


@given(STEPS)
def test_a_turn_that_goes_on_has_what_all_its_parts_have_left(steps: list[tuple[int, float]]) -> None:
    limits = TurnLimits(max_requests=100, max_cost=100.0, allowed_tools=frozenset({"read"}))
    for requests, cost in steps:
        limits = limits.less(requests, cost)
    assert limits.max_requests == 100 - sum(requests for requests, _ in steps)
    assert limits.max_cost == 100.0 - sum(cost for _, cost in steps)
    assert limits.allowed_tools == {"read"}
    assert TurnLimits().less(3, 1.0).max_cost is None
