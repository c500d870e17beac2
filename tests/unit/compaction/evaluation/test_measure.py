"""Comparing methods at points of a session: bad methods score lower, and the figures
are the same in every run.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_agent.compaction.evaluation.measure import (
    NOTHING_TO_DO,
    Measurement,
    Method,
    measure,
    policy_method,
    table,
)
from acp_agent.compaction.evaluation.recordings import (
    Recording,
    from_log,
    points,
    read_recording,
    state_at,
)
from acp_agent.compaction.service import CompactionService
from acp_agent.compaction.state import CompactionPolicy, ConversationState
from acp_agent.compaction.strategy import Writer
from acp_agent.conversation.events import LoggedEvent
from acp_agent.conversation.messages import Message, Text, Usage
from acp_agent.errors import CompactionError
from acp_agent.llm.provider import Answered, ModelEvent, ModelRequest
from benchmarks.excerpts_measure import MECHANISMS
from support.logs import is_legal, legal_logs
from support.recordings import as_transcript, cart_session, write


async def silent(_: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
    raise CompactionError("No model may be asked.")
    yield


SERVICE = partial(CompactionService(), call=silent)
EXCERPTS = CompactionPolicy("", strategy="excerpts")
GOOD = policy_method("good", replace(EXCERPTS, size=2_000), SERVICE)


async def forgetful(state: ConversationState) -> tuple[Sequence[Message], int]:
    return state.request.messages[-1:], 10


BAD: Method = ("bad", forgetful)


@pytest.fixture
def cart(tmp_path: Path) -> Recording:
    return read_recording(write(tmp_path / "cart.json", as_transcript(cart_session())))


async def measured(
    recordings: Sequence[Recording],
    methods: Sequence[Method],
    shares: Sequence[float] = (0.5,),
    model: str = "",
) -> list[Measurement]:
    return [each async for each in measure(recordings, methods, shares, model)]


def kept(measurements: Sequence[Measurement], method: str, kind: str) -> int:
    return sum(each.kept[kind] for each in measurements if each.method == method)


async def test_a_deliberately_bad_method_scores_lower(cart: Recording) -> None:
    results = await measured([cart], [GOOD, BAD], (0.4, 0.6))
    assert [each.method for each in results] == ["good", "bad", "good", "bad"]
    rows = {row[0]: row for row in map(str.split, table(results).splitlines()) if row}
    assert float(rows["good"][2]) > float(rows["bad"][2]) + 20
    for kind in ("files", "commands"):
        assert kept(results, "good", kind) > kept(results, "bad", kind)


async def test_a_given_size_overrides_the_policys_size_at_each_point(
    cart: Recording,
) -> None:
    half = policy_method(
        "half", replace(EXCERPTS, size=1), SERVICE, lambda budget: budget.messages // 2
    )
    for each in await measured([cart], [half], (0.4, 0.6)):
        assert 0.2 < each.tokens_after / each.tokens_before <= 0.5


async def test_a_recipe_without_a_model_is_measured_with_excerpts_and_marked(
    cart: Recording,
) -> None:
    wants = policy_method(
        "/compact", CompactionPolicy("Summarise."), SERVICE, has_model=False
    )
    without = policy_method("excerpts", EXCERPTS, SERVICE, has_model=False)
    first, second = await measured([cart], [wants, without])
    assert replace(first, method="") == replace(second, method="")
    text = table([first, second])
    assert "/compact*" in text
    assert "* measured with excerpts in place of the summary" in text


def telling(summary: str, requests: list[ModelRequest]) -> Method:
    """Return a recipe's method with a model that always gives the same answer."""

    async def call(request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        requests.append(request)
        yield Answered((Text(summary),), "end_turn", Usage(10, 10))

    writer = Writer("writer-1", 200_000, 4_096)
    policy = CompactionPolicy("Summarise.", tail=0, size=300)
    return policy_method(
        "/compact", policy, partial(CompactionService(), call=call, writer=writer)
    )


async def test_needed_facts_do_not_depend_on_a_summary(
    cart: Recording,
) -> None:
    needed: list[dict[str, int]] = []
    for written in (
        "It went well.",
        "We decided to paint it green because the vouchers are stacked there twice. Port 8347.",
    ):
        [result] = await measured([cart], [telling(written, [])])
        needed.append(dict(result.needed))
    assert needed[0] == needed[1]
    assert needed[0]["decisions"] == 1


async def test_a_method_without_a_result_is_reported_and_not_counted(
    cart: Recording,
) -> None:
    idle = policy_method("idle", replace(EXCERPTS, steps=()), SERVICE)
    results = await measured([cart], [telling("", []), idle])
    assert "empty summary" in results[0].failure
    assert results[1].failure == NOTHING_TO_DO
    text = table(results)
    assert (
        "/compact: no result at 1 of the points: The model answered with an empty summary"
        in text
    )
    assert "idle: no result at 2 of the points: " in table([*results, results[1]])
    assert "–" in table(results[:1])


@given(legal_logs(), st.lists(st.floats(0.01, 0.99), max_size=4))
def test_points_are_legal_cuts_with_messages_on_both_sides(
    log: tuple[LoggedEvent, ...], shares: list[float]
) -> None:
    recording = from_log(log, "sess_1")
    found = points(recording, shares)
    assert sorted({*found}) == found
    assert len(found) <= len(shares)
    for cut in found:
        assert 4 <= cut <= len(recording.entries) - 2
        assert is_legal(recording.messages[:cut])
        assert is_legal(recording.messages[cut:])
        state = state_at(recording, cut)
        assert 0.7 < state.budget.used / state.budget.window <= 0.8


def test_an_unfinished_turn_counts_as_running(cart: Recording) -> None:
    assert state_at(cart, 7).turn_from == 1
    assert state_at(cart, 8).turn_from is None
    assert state_at(cart, 9).turn_from == 9


def test_every_mechanism_that_the_benchmark_disables_exists() -> None:
    for place in (place for without in MECHANISMS.values() for place in without):
        module, _, name = place.rpartition(".")
        assert hasattr(import_module(f"acp_agent.compaction.{module}"), name), place
