"""Methods are compared at points of a session: what is bad scores lower, and the figures are the same every time."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_agent.compaction.evaluation.facts import CLASSES
from acp_agent.compaction.evaluation.importers import from_log, read_recording
from acp_agent.compaction.evaluation.measure import (
    NOTHING_TO_DO,
    Measurement,
    Method,
    Model,
    Tally,
    measure,
    newest,
    policy_method,
)
from acp_agent.compaction.evaluation.recording import Recording, points, state_at
from acp_agent.compaction.evaluation.report import add_up, as_json, table
from acp_agent.compaction.service import CompactionService
from acp_agent.compaction.state import CompactionPolicy
from acp_agent.compaction.strategy import Writer
from acp_agent.conversation.events import LoggedEvent
from acp_agent.conversation.messages import Text, Usage
from acp_agent.llm.provider import Answered, ModelEvent, ModelRequest
from support.logs import is_legal, legal_logs
from support.recordings import as_transcript, cart_session, write

SERVICE = CompactionService()
EXCERPTS = CompactionPolicy("", strategy="excerpts")
GOOD = policy_method("good", replace(EXCERPTS, size=2_000), SERVICE)
BAD = policy_method("bad", replace(EXCERPTS, size=300), SERVICE)


@pytest.fixture
def cart(tmp_path: Path) -> Recording:
    return read_recording(write(tmp_path / "cart.json", as_transcript(cart_session())))


async def measured(
    recordings: Sequence[Recording],
    methods: Sequence[Method],
    shares: Sequence[float] = (0.5,),
    window: int | None = None,
) -> list[Measurement]:
    return [each async for each in measure(recordings, methods, shares, window)]


async def test_a_deliberately_bad_method_scores_lower(cart: Recording) -> None:
    good, bad = add_up(await measured([cart], [GOOD, BAD], (0.4, 0.6)))
    assert good.points == bad.points == 2
    assert (good.figures["score"] or 0) > (bad.figures["score"] or 0) + 20
    assert good.tallies["files"].kept > bad.tallies["files"].kept
    assert good.tallies["commands"].kept > bad.tallies["commands"].kept


async def test_more_of_the_conversation_keeps_more_of_it(cart: Recording) -> None:
    tails = [newest(0.2), newest(0.6), newest(0.9)]
    totals = add_up(await measured([cart], tails))
    assert [each.figures["left"] for each in totals] == sorted(each.figures["left"] or 0 for each in totals)
    assert [each.tallies["need"].kept for each in totals] == sorted(each.tallies["need"].kept for each in totals)
    assert totals[0].tallies["need"].kept < totals[-1].tallies["need"].kept


async def test_the_same_input_gives_the_same_bytes(tmp_path: Path) -> None:
    methods = [GOOD, policy_method("mask", CompactionPolicy("", strategy="mask"), SERVICE), newest()]
    path = write(tmp_path / "cart.json", as_transcript(cart_session()))
    first, second = [await measured([read_recording(path)], methods, (0.4, 0.6, 0.8)) for _ in range(2)]
    assert table(first, misses=5) == table(second, misses=5)
    assert as_json(first) == as_json(second)


async def test_a_size_takes_the_place_of_the_policys_at_each_point(cart: Recording) -> None:
    half = policy_method("half", replace(EXCERPTS, size=1), SERVICE, lambda budget: budget.messages // 2)
    for each in await measured([cart], [half], (0.4, 0.6)):
        assert 0.3 < each.tokens_after / each.tokens_before <= 0.5


async def test_a_recipe_that_wants_a_summary_is_measured_without_one_and_says_so(cart: Recording) -> None:
    wants = policy_method("/compact", CompactionPolicy("Summarise."), SERVICE)
    without = policy_method("excerpts", EXCERPTS, SERVICE)
    first, second = await measured([cart], [wants, without])
    assert replace(first, method="") == replace(second, method="")
    text = table([first, second])
    assert "/compact*" in text
    assert "* measured without its summary" in text
    assert "unverified" not in text


def telling(summary: str, requests: list[ModelRequest]) -> Model:
    """A model that has one thing to say."""

    async def call(request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        requests.append(request)
        yield Answered((Text(summary),), "end_turn", Usage(10, 10))

    return Model(call, Writer("writer-1", 200_000, 4_096))


async def test_what_a_model_writes_counts_and_what_it_invents_is_told(cart: Recording) -> None:
    requests: list[ModelRequest] = []
    model = telling("The server listens on port 8347; see `shop/invented_thing.py`.", requests)
    policy = CompactionPolicy("Summarise.", tail=0, size=300)
    method = policy_method("/compact", policy, SERVICE, model=model)
    [result] = await measured([cart], [method])
    assert [request.model for request in requests] == ["writer-1"]
    assert result.tallies["numbers"] == Tally(1, 1)
    assert result.unverified is not None
    assert any("invented_thing" in piece for piece in result.unverified)
    assert "unverified" in table([result])
    assert add_up([result])[0].figures["unverified"] == len(result.unverified)


async def test_what_is_needed_does_not_depend_on_what_a_summary_says(cart: Recording) -> None:
    needed: list[dict[str, int]] = []
    for written in (
        "Nothing.",
        "We decided to paint it green because the vouchers are stacked there twice. Port 8347.",
    ):
        policy = CompactionPolicy("Summarise.", tail=0, size=300)
        method = policy_method("/compact", policy, SERVICE, model=telling(written, []))
        [result] = await measured([cart], [method])
        needed.append({kind: tally.needed for kind, tally in result.tallies.items()})
    assert needed[0] == needed[1]
    assert needed[0]["decisions"] == 1


async def test_a_method_that_comes_to_nothing_is_told_of_and_not_counted(cart: Recording) -> None:
    failing = policy_method("failing", CompactionPolicy("Summarise."), SERVICE, model=telling("", []))
    idle = policy_method("idle", CompactionPolicy("", strategy="mask"), SERVICE)
    results = await measured([cart], [failing, idle], window=1_000_000)
    assert "empty summary" in results[0].failure
    assert results[1].failure == NOTHING_TO_DO
    text = table(results)
    assert "failing: no result at 1 of the points: The model answered with an empty summary" in text
    assert "idle: no result at 2 of the points: " in table([*results, results[1]])
    assert add_up(results)[0].figures["score"] is None


async def test_the_json_has_every_fact_that_was_lost(cart: Recording) -> None:
    results = await measured([cart], [BAD])
    document: dict[str, Any] = json.loads(as_json(results))
    [point] = document["measurements"]
    assert ("files", "shop/rounding.py") in {(each["class"], each["fact"]) for each in point["missed"]}
    [totals] = document["methods"]
    lost = sum(tally["needed"] - tally["kept"] for kind, tally in totals["tallies"].items() if kind in CLASSES)
    assert lost == len(point["missed"])
    assert totals["figures"]["left"] < 100
    assert f"bad lost {lost}" in table(results, misses=1)


@given(legal_logs(), st.lists(st.floats(0.01, 0.99), max_size=4))
def test_points_are_legal_places_with_something_on_both_sides(
    log: tuple[LoggedEvent, ...], shares: list[float]
) -> None:
    recording = from_log(log, "sess_1")
    found = points(recording, shares)
    assert len({point.cut for point in found}) == len(found) <= len(shares)
    for point in found:
        assert 4 <= point.cut <= len(recording.entries) - 2
        assert is_legal(recording.messages[: point.cut])
        assert is_legal(recording.messages[point.cut :])
        state = state_at(recording, point.cut)
        assert 0.7 < state.budget.used / state.budget.window <= 0.8


def test_a_turn_that_had_not_ended_is_running(cart: Recording) -> None:
    assert state_at(cart, 7).turn_from == 1
    assert state_at(cart, 8).turn_from is None
    assert state_at(cart, 9).turn_from == 9
