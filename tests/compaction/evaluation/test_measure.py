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

from acp_agent.compaction.evaluation.facts import FactClass
from acp_agent.compaction.evaluation.importers import own, read_recording
from acp_agent.compaction.evaluation.measure import NOTHING_TO_DO, Measurement, measure
from acp_agent.compaction.evaluation.methods import Method, Model, PolicyMethod, TailMethod, strategy_methods
from acp_agent.compaction.evaluation.points import points, state_at
from acp_agent.compaction.evaluation.recording import Recording
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
GOOD = PolicyMethod("good", CompactionPolicy("", strategy="ledger", tail=500), SERVICE)
BAD = PolicyMethod("bad", CompactionPolicy("", strategy="truncate", tail=0, ledger=0, requests=0), SERVICE)


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
    good, bad = add_up(await measured([cart], [GOOD, BAD], (0.4, 0.6)), [GOOD, BAD])
    assert good.points == bad.points == 2
    assert good.score is not None
    assert bad.score is not None
    assert good.score > bad.score + 0.2
    assert good.classes["files"].kept > bad.classes["files"].kept
    assert good.classes["commands"].kept > bad.classes["commands"].kept


async def test_more_of_the_conversation_keeps_more_of_it(cart: Recording) -> None:
    tails = [TailMethod(0.2), TailMethod(0.6), TailMethod(0.9)]
    totals = add_up(await measured([cart], tails), tails)
    assert [each.left for each in totals] == sorted(each.left or 0 for each in totals)
    assert [each.need.kept for each in totals] == sorted(each.need.kept for each in totals)
    assert totals[0].need.kept < totals[-1].need.kept


async def test_the_same_input_gives_the_same_bytes(tmp_path: Path) -> None:
    methods = [*strategy_methods(SERVICE, None, None), TailMethod()]
    path = write(tmp_path / "cart.json", as_transcript(cart_session()))
    first, second = [await measured([read_recording(path)], methods, (0.4, 0.6, 0.8)) for _ in range(2)]
    assert table(first, methods, misses=5) == table(second, methods, misses=5)
    assert as_json(first, methods) == as_json(second, methods)


async def test_every_strategy_that_asks_no_model_is_a_method() -> None:
    assert [method.name for method in strategy_methods(SERVICE, None, None)] == ["ledger", "mask", "truncate"]


async def test_a_recipe_that_wants_a_summary_is_measured_without_one_and_says_so(cart: Recording) -> None:
    wants = PolicyMethod("/compact", CompactionPolicy("Summarise.", tail=500), SERVICE)
    without = PolicyMethod("ledger", CompactionPolicy("", strategy="ledger", tail=500), SERVICE)
    first, second = await measured([cart], [wants, without])
    assert replace(first, method="", seconds=0) == replace(second, method="", seconds=0)
    text = table([first, second], [wants, without])
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
    policy = CompactionPolicy("Summarise.", tail=0, ledger=0, requests=0)
    method = PolicyMethod("/compact", policy, SERVICE, model=model)
    [result] = await measured([cart], [method])
    assert [request.model for request in requests] == ["writer-1"]
    assert dict(result.classes)["numbers"].share == 1
    assert result.unverified is not None
    assert any("invented_thing" in piece for piece in result.unverified)
    assert "unverified" in table([result], [method])
    assert add_up([result], [method])[0].unverified_per_summary == len(result.unverified)


async def test_what_is_needed_does_not_depend_on_what_a_summary_says(cart: Recording) -> None:
    needed: list[dict[FactClass, int]] = []
    for written in (
        "Nothing.",
        "We decided to paint it green because the vouchers are stacked there twice. Port 8347.",
    ):
        policy = CompactionPolicy("Summarise.", tail=0, ledger=0, requests=0)
        method = PolicyMethod("/compact", policy, SERVICE, model=telling(written, []))
        [result] = await measured([cart], [method])
        needed.append({kind: tally.needed for kind, tally in result.classes})
    assert needed[0] == needed[1]
    assert needed[0]["decisions"] == 1


async def test_a_method_that_comes_to_nothing_is_told_of_and_not_counted(cart: Recording) -> None:
    failing = PolicyMethod("failing", CompactionPolicy("Summarise."), SERVICE, model=telling("", []))
    idle = PolicyMethod("idle", CompactionPolicy("", strategy="mask", tail=1_000_000), SERVICE)
    results = await measured([cart], [failing, idle], window=1_000_000)
    assert "empty summary" in results[0].failure
    assert results[1].failure == NOTHING_TO_DO
    text = table(results, [failing, idle])
    assert "failing: no result at 1 point: The model answered with an empty summary" in text
    assert "idle: no result at 2 points: " in table([*results, results[1]], [failing, idle])
    assert add_up(results, [failing, idle])[0].score is None


async def test_the_json_has_every_fact_that_was_lost(cart: Recording) -> None:
    results = await measured([cart], [BAD])
    document: dict[str, Any] = json.loads(as_json(results, [BAD]))
    [point] = document["measurements"]
    assert ("files", "shop/rounding.py") in {(each["class"], each["fact"]) for each in point["missed"]}
    [totals] = document["methods"]
    lost = sum(tally["needed"] - tally["kept"] for kind, tally in totals["classes"].items() if kind != "words")
    assert lost == len(point["missed"])
    assert totals["tokens_after"] < totals["tokens_before"]
    assert f"bad lost {lost}" in table(results, [BAD], misses=1)


@given(legal_logs(), st.lists(st.floats(0.01, 0.99), max_size=4))
def test_points_are_legal_places_with_something_on_both_sides(
    log: tuple[LoggedEvent, ...], shares: list[float]
) -> None:
    recording = own.from_log(log, "sess_1")
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
