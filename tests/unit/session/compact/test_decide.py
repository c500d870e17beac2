"""Whether and how a context is compacted: the table of `decide`, and its properties."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_agent.compaction.budget import NEW_INPUT, Pressure
from acp_agent.session.compact.decide import (
    GROWTH,
    Action,
    Background,
    Situation,
    decide,
)

AT_ONCE: tuple[Pressure, ...] = ("urgent", "request_size", "full")
"""Levels at which a turn does not continue while a summary is written."""

NONE, PREPARE, THRESHOLD, URGENT, REQUEST_SIZE, FULL = (
    Situation(level) for level in get_args(Pressure)
)
REFUSED = replace(FULL, refused=True)
TABLE: dict[str, tuple[Situation, Action]] = {
    "there is room": (NONE, "nothing"),
    "there is room, and a summary is ready": (
        replace(NONE, background="ready"),
        "nothing",
    ),
    "there is room, and a summary saves money": (
        replace(NONE, background="ready", saves=True),
        "nothing",
    ),
    "there is room, and a summary saves money in the first request of a turn": (
        replace(NONE, background="ready", saves=True, opens_turn=True),
        "use_summary",
    ),
    "a hook wants none, though a summary saves money": (
        replace(NONE, background="ready", saves=True, opens_turn=True, vetoed=True),
        "nothing",
    ),
    "a compaction was undone, though a summary saves money": (
        replace(NONE, background="ready", saves=True, opens_turn=True, undone=True),
        "nothing",
    ),
    "a summary that saves money could not be used": (
        replace(NONE, background="unavailable", saves=True, opens_turn=True, used=True),
        "nothing",
    ),
    # prepare
    "a summary begins": (PREPARE, "begin_summary"),
    "a summary is being written": (replace(PREPARE, background="running"), "nothing"),
    "a summary failed and does not begin again": (
        replace(PREPARE, background="unavailable"),
        "nothing",
    ),
    "a summary is ready, in mid-turn": (
        replace(PREPARE, background="ready"),
        "nothing",
    ),
    "a summary is ready, and a turn begins": (
        replace(PREPARE, background="ready", opens_turn=True),
        "use_summary",
    ),
    "nothing is prepared": (replace(PREPARE, prepares=False), "nothing"),
    "nothing is written that could be prepared": (
        replace(PREPARE, writes=False),
        "nothing",
    ),
    "a hook wants no summary": (replace(PREPARE, vetoed=True), "nothing"),
    "little has come since the last one": (
        replace(PREPARE, grown=GROWTH / 2),
        "nothing",
    ),
    "enough has come since the last one": (
        replace(PREPARE, grown=GROWTH),
        "begin_summary",
    ),
    # threshold
    "a prepared summary takes its place": (
        replace(THRESHOLD, background="ready"),
        "use_summary",
    ),
    "a summary that is written is not waited for": (
        replace(THRESHOLD, background="running"),
        "nothing",
    ),
    "nor by those who wait": (
        replace(THRESHOLD, background="running", wait=True),
        "nothing",
    ),
    "no summary has begun": (THRESHOLD, "begin_summary"),
    "no summary has begun, and the user waits": (
        replace(THRESHOLD, wait=True),
        "begin_summary",
    ),
    "a summary failed": (replace(THRESHOLD, background="unavailable"), "without_model"),
    "a summary failed, and the user waits": (
        replace(THRESHOLD, background="unavailable", wait=True),
        "without_model",
    ),
    "nothing is prepared, at the threshold": (
        replace(THRESHOLD, prepares=False),
        "without_model",
    ),
    "nothing is prepared, and the user waits": (
        replace(THRESHOLD, prepares=False, wait=True),
        "wait_for_summary",
    ),
    "no model is asked, at the threshold": (
        replace(THRESHOLD, writes=False),
        "without_model",
    ),
    "no model is asked, and the user waits": (
        replace(THRESHOLD, writes=False, wait=True),
        "without_model",
    ),
    "a hook wants no compaction": (replace(THRESHOLD, vetoed=True), "nothing"),
    "a hook wants none, and a summary is ready": (
        replace(THRESHOLD, vetoed=True, background="ready"),
        "nothing",
    ),
    "the last attempt saw nearly the same": (
        replace(THRESHOLD, grown=NEW_INPUT / 2),
        "nothing",
    ),
    "the last attempt saw less": (replace(THRESHOLD, grown=NEW_INPUT), "begin_summary"),
    "the last attempt saw the same, before the prompt": (
        replace(THRESHOLD, grown=0, opens_turn=True),
        "begin_summary",
    ),
    "the newest one was undone": (replace(THRESHOLD, undone=True), "nothing"),
    "too many images, and the newest one was undone": (
        replace(REQUEST_SIZE, undone=True),
        "without_model",
    ),
    # urgent and request_size; each is tried with both
    "excerpts at once": (URGENT, "without_model"),
    "excerpts at once, whatever is being written": (
        replace(URGENT, background="running"),
        "without_model",
    ),
    "excerpts at once, since a summary failed": (
        replace(URGENT, background="unavailable"),
        "without_model",
    ),
    "the summary is there in time": (
        replace(URGENT, background="ready"),
        "use_summary",
    ),
    "the user waits": (replace(URGENT, wait=True), "wait_for_summary"),
    "the user waits for what is being written": (
        replace(URGENT, wait=True, background="running"),
        "wait_for_summary",
    ),
    "the user waits, but a summary failed": (
        replace(URGENT, wait=True, background="unavailable"),
        "without_model",
    ),
    "the user waits, but no model is asked": (
        replace(URGENT, wait=True, writes=False),
        "without_model",
    ),
    "urgent, and a hook wants no compaction": (replace(URGENT, vetoed=True), "nothing"),
    "urgent, and the last attempt saw nearly the same": (
        replace(URGENT, grown=NEW_INPUT / 2),
        "nothing",
    ),
    # full
    "it does not fit": (FULL, "without_model"),
    "it does not fit, and the user wants none": (
        replace(FULL, auto=False),
        "without_model",
    ),
    "it does not fit, and the newest one was undone": (
        replace(FULL, undone=True),
        "without_model",
    ),
    "it does not fit, and a hook wants none": (
        replace(FULL, vetoed=True),
        "without_model",
    ),
    "it does not fit, and a summary is ready": (
        replace(FULL, background="ready"),
        "use_summary",
    ),
    "it does not fit, and a summary is being written": (
        replace(FULL, background="running"),
        "without_model",
    ),
    "it does not fit, and the user waits": (
        replace(FULL, wait=True),
        "wait_for_summary",
    ),
    "it does not fit, and the last attempt saw the same": (
        replace(FULL, grown=0),
        "nothing",
    ),
    "it does not fit, and the prompt is new": (
        replace(FULL, grown=0, opens_turn=True),
        "without_model",
    ),
    "it does not fit again, after a little more": (
        replace(FULL, grown=NEW_INPUT / 2),
        "without_model",
    ),
    "it does not fit again, and the user waited already": (
        replace(FULL, grown=NEW_INPUT / 2, wait=True),
        "without_model",
    ),
    # after a prepared summary was swapped in, or could not be swapped in
    "the summary was enough": (replace(PREPARE, used=True), "nothing"),
    "the summary was enough for now": (replace(URGENT, used=True), "nothing"),
    "the summary was not enough": (
        replace(FULL, used=True, grown=NEW_INPUT),
        "without_model",
    ),
    "the summary could not be used": (
        replace(THRESHOLD, used=True, background="unavailable"),
        "without_model",
    ),
    "the summary could not be used, and there is room": (
        replace(PREPARE, used=True, background="unavailable"),
        "nothing",
    ),
    # after a refusal
    "refused": (REFUSED, "without_model"),
    "refused, and a summary is ready": (
        replace(REFUSED, background="ready"),
        "use_summary",
    ),
    "refused while a summary is written": (
        replace(REFUSED, background="running"),
        "without_model",
    ),
    "refused, and the user waits": (replace(REFUSED, wait=True), "wait_for_summary"),
    "refused, and the user waits and a summary is ready": (
        replace(REFUSED, wait=True, background="ready"),
        "use_summary",
    ),
    "refused, but it fits with a shorter answer": (
        replace(REFUSED, shorter_fits=True),
        "shorten",
    ),
    "refused again": (replace(REFUSED, made_room=True), "give_up"),
    "refused again, but it fits with a shorter answer": (
        replace(REFUSED, made_room=True, shorter_fits=True),
        "shorten",
    ),
}
SITUATIONS = st.builds(
    Situation,
    st.sampled_from(get_args(Pressure)),
    auto=st.booleans(),
    undone=st.booleans(),
    writes=st.booleans(),
    prepares=st.booleans(),
    wait=st.booleans(),
    background=st.sampled_from(get_args(Background)),
    opens_turn=st.booleans(),
    grown=st.floats(-1, 2),
    vetoed=st.booleans(),
    saves=st.booleans(),
)


@pytest.mark.parametrize(("at", "action"), TABLE.values(), ids=list(TABLE))
def test_each_situation_leads_to_the_action_in_the_table(
    at: Situation, action: Action
) -> None:
    assert decide(at) == action
    if at.level == "urgent":
        assert decide(replace(at, level="request_size")) == action
    if at.level != "full":
        assert decide(replace(at, auto=False)) == "nothing"
    if at.refused:
        assert (
            decide(
                replace(
                    at, auto=False, undone=True, vetoed=True, opens_turn=True, grown=0
                )
            )
            == action
        )


@given(SITUATIONS)
def test_a_turn_waits_for_a_summary_only_if_the_user_wants_that(at: Situation) -> None:
    if decide(at) == "wait_for_summary":
        assert at.wait
        assert at.writes
        assert at.background != "unavailable"
    without = decide(replace(at, wait=False))
    assert without == (
        "without_model" if decide(at) == "wait_for_summary" else decide(at)
    )


@given(SITUATIONS.filter(lambda at: at.level != "full"))
def test_if_automatic_compaction_is_off_or_vetoed_only_a_full_window_compacts(
    at: Situation,
) -> None:
    assert decide(replace(at, auto=False)) == "nothing"
    assert decide(replace(at, vetoed=True)) == "nothing"


@given(
    SITUATIONS.filter(lambda at: at.level == "full" and (at.grown > 0 or at.opens_turn))
)
def test_a_request_that_does_not_fit_is_compacted_whatever_the_settings(
    at: Situation,
) -> None:
    assert decide(at) in ("use_summary", "without_model", "wait_for_summary")
    assert decide(at) == decide(replace(at, auto=not at.auto, vetoed=not at.vetoed))


@given(SITUATIONS)
def test_a_summary_begins_only_if_the_strategy_uses_a_model_and_none_is_running(
    at: Situation,
) -> None:
    if decide(at) == "begin_summary":
        assert at.writes
        assert at.prepares
        assert at.background == "none"
    assert (decide(at) == "use_summary") <= (at.background == "ready")


@given(SITUATIONS, st.floats(0, 1))
def test_more_growth_never_stops_a_compaction(at: Situation, more: float) -> None:
    if decide(at) != "nothing":
        assert decide(replace(at, grown=at.grown + more)) != "nothing"


@given(SITUATIONS, st.sampled_from(["threshold", *AT_ONCE]))
def test_a_prepared_summary_is_used_from_the_threshold_on(
    at: Situation, level: Pressure
) -> None:
    assert (
        decide(
            replace(
                at,
                level=level,
                auto=True,
                undone=False,
                vetoed=False,
                background="ready",
            )
        )
        == "use_summary"
    )
