"""Cuts of a history: how much is summarised and how much is kept."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from acp_agent.compaction.cuts import legal_cuts, plan_cut
from acp_agent.compaction.estimate import estimate_message
from acp_agent.conversation.context import Context, Entry
from acp_agent.conversation.messages import AssistantMessage
from support.histories import History, histories
from support.logs import is_legal, legal_logs

TAILS = st.sampled_from([0, 20, 400, 5_000, 10**6])


@st.composite
def contexts(draw: st.DrawFn) -> History:
    """Contexts as sessions log them, at the moments at which a model may be asked: no
    call is open.
    """
    log = draw(legal_logs())
    context = Context.from_log(log[: draw(st.integers(0, len(log)))])
    while context.open_calls:
        context = Context.from_log(log[: context.head - 1])
    return History(context.entries, context.turn_from)


HISTORIES = contexts() | histories()


def must_stay(history: History) -> tuple[Entry, ...]:
    """What the model has not answered yet in a running turn: its newest answer and what
    follows, or all of it.
    """
    if history.turn_from is None:
        return ()
    turn = [
        entry
        for entry in history.entries
        if not entry.summary and entry.seq >= history.turn_from
    ]
    answers = [
        index
        for index, entry in enumerate(turn)
        if isinstance(entry.message, AssistantMessage)
    ]
    return tuple(turn[answers[-1] if answers else 0 :])


def replaceable(history: History, before: int) -> bool:
    """Whether a cut before this place takes out anything but an earlier summary and the
    running prompt.
    """
    return any(
        not entry.summary and entry.seq != history.turn_from
        for entry in history.entries[:before]
    )


@given(HISTORIES, TAILS, st.booleans())
def test_a_cut_loses_and_splits_nothing_and_keeps_unanswered_entries(
    history: History, tail: int, leave_tail: bool
) -> None:
    cut = plan_cut(history.entries, history.turn_from, tail, leave_tail=leave_tail)
    possible = [
        place
        for place in legal_cuts(history.entries, history.turn_from)
        if replaceable(history, place)
        and not (leave_tail and place == len(history.entries))
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
    prompts = [
        entry
        for entry in cut.summarised
        if entry.seq == history.turn_from and not entry.summary
    ]
    assert [(pin.seq, pin.message) for pin in cut.pinned] == [
        (entry.seq, entry.message) for entry in prompts
    ]


@given(HISTORIES, TAILS, st.booleans())
def test_the_tail_is_as_long_as_the_size_allows(
    history: History, tail: int, leave_tail: bool
) -> None:
    cut = plan_cut(history.entries, history.turn_from, tail, leave_tail=leave_tail)
    if cut is None:
        return
    places = legal_cuts(history.entries, history.turn_from)
    least = max(
        place for place in places if not (leave_tail and place == len(history.entries))
    )
    fitting = [place for place in places if tokens(history.entries[place:]) <= tail]
    if fitting and replaceable(history, fitting[0]) and fitting[0] <= least:
        assert len(cut.summarised) == fitting[0]
    else:
        # All of it would fit, or not even the newest step does.
        assert len(cut.summarised) == least


def tokens(entries: tuple[Entry, ...]) -> int:
    return sum(estimate_message(entry.message) for entry in entries)


@given(HISTORIES, TAILS, st.booleans())
def test_a_cut_that_keeps_reasoning_is_next_to_an_answer_and_pins_nothing(
    history: History, tail: int, leave_tail: bool
) -> None:
    cut = plan_cut(
        history.entries,
        history.turn_from,
        tail,
        leave_tail=leave_tail,
        keep_reasoning=True,
    )
    if cut is None:
        return
    assert cut.pinned == ()
    assert (*cut.summarised, *cut.kept) == history.entries
    if cut.kept:
        last = cut.summarised[-1].message
        first = cut.kept[0].message
        assert isinstance(last, AssistantMessage) != isinstance(first, AssistantMessage)
