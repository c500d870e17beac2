"""Where a compaction cuts: how much is summarised, and what stays."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_agent.compaction.cuts import Cut, legal_cuts, plan_cut
from acp_agent.compaction.estimate import estimate_message
from acp_agent.conversation.context import Context, Entry
from acp_agent.conversation.messages import AssistantMessage
from support.histories import History, histories
from support.logs import LogBuilder, is_legal, legal_logs

TAILS = st.sampled_from([0, 20, 400, 5_000, 10**6])


def of(log: LogBuilder, tail_tokens: int, *, leave_tail: bool = False) -> Cut | None:
    return plan_cut(log.context.entries, log.context.turn_from, tail_tokens, leave_tail=leave_tail)


@st.composite
def contexts(draw: st.DrawFn) -> History:
    """Contexts as sessions log them, at the moments at which a model may be asked: no call is open."""
    log = draw(legal_logs())
    context = Context.from_log(log[: draw(st.integers(0, len(log)))])
    while context.open_calls:
        context = Context.from_log(log[: context.head - 1])
    return History(context.entries, context.turn_from)


HISTORIES = contexts() | histories()


def must_stay(history: History) -> tuple[Entry, ...]:
    """What the model has not answered yet in a running turn: its newest answer and what follows, or all of it."""
    if history.turn_from is None:
        return ()
    turn = [entry for entry in history.entries if not entry.summary and entry.seq >= history.turn_from]
    answers = [index for index, entry in enumerate(turn) if isinstance(entry.message, AssistantMessage)]
    return tuple(turn[answers[-1] if answers else 0 :])


def replaceable(history: History, before: int) -> bool:
    """Whether a cut before this place takes out anything but an earlier summary and the running prompt."""
    return any(not entry.summary and entry.seq != history.turn_from for entry in history.entries[:before])


@given(HISTORIES, TAILS, st.booleans())
def test_a_cut_loses_nothing_tears_nothing_apart_and_keeps_what_the_model_has_not_answered(
    history: History, tail: int, leave_tail: bool
) -> None:
    cut = plan_cut(history.entries, history.turn_from, tail, leave_tail=leave_tail)
    possible = [
        place
        for place in legal_cuts(history.entries, history.turn_from)
        if replaceable(history, place) and not (leave_tail and place == len(history.entries))
    ]
    assert (cut is None) == (not possible)
    if cut is None:
        return
    assert (*cut.summarised, *cut.kept) == history.entries
    assert len(cut.summarised) in possible
    assert is_legal(tuple(entry.message for entry in cut.summarised))
    unanswered = must_stay(history)
    assert cut.kept[len(cut.kept) - len(unanswered) :] == unanswered
    assert cut.kept or not leave_tail
    prompts = [entry for entry in cut.summarised if entry.seq == history.turn_from and not entry.summary]
    assert [(pin.seq, pin.message) for pin in cut.pinned] == [(entry.seq, entry.message) for entry in prompts]


@given(HISTORIES, TAILS, st.booleans())
def test_the_tail_is_as_long_as_its_size_allows(history: History, tail: int, leave_tail: bool) -> None:
    cut = plan_cut(history.entries, history.turn_from, tail, leave_tail=leave_tail)
    if cut is None:
        return
    places = legal_cuts(history.entries, history.turn_from)
    least = max(place for place in places if not (leave_tail and place == len(history.entries)))
    fitting = [place for place in places if tokens(history.entries[place:]) <= tail]
    if fitting and replaceable(history, fitting[0]) and fitting[0] <= least:
        assert len(cut.summarised) == fitting[0]
    else:
        # All of it would fit, or not even the newest step does.
        assert len(cut.summarised) == least


def tokens(entries: tuple[Entry, ...]) -> int:
    return sum(estimate_message(entry.message) for entry in entries)


def test_a_history_that_fits_into_the_tail_is_summarised_as_a_whole() -> None:
    log = LogBuilder()
    log.prompt("One?")
    log.step("One.")
    log.end()
    cut = of(log, 10_000)
    assert cut == Cut(log.context.entries, (), ())


@pytest.mark.parametrize("tail", [0, 40, 10_000])
def test_the_prompt_of_the_running_turn_is_pinned_and_its_last_step_kept(tail: int) -> None:
    log = LogBuilder()
    prompt = log.prompt("Fix it.")
    first = log.step("I look.", calls=1)
    log.step("I look again.", calls=2)
    cut = of(log, tail)
    assert cut is not None
    assert [pin.seq for pin in cut.pinned] == [prompt]
    assert [entry.seq for entry in cut.kept] == [first + 1, first + 2, first + 3]


def test_a_running_turn_without_a_finished_step_leaves_nothing_to_summarise() -> None:
    log = LogBuilder()
    assert of(log, 100) is None
    log.prompt("Fix it.")
    assert of(log, 0) is None
    log.step("I look.", calls=2)
    assert of(log, 0) is None


def test_a_summary_alone_is_not_summarised_again() -> None:
    log = LogBuilder()
    log.prompt("One?")
    log.step("One.")
    log.end()
    log.swap()
    log.prompt("/compact", sent="")
    assert of(log, 0) is None
