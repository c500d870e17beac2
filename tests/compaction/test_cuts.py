"""Where a context may be cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_agent.compaction.cuts import Cut, plan_cut
from acp_agent.compaction.estimate import estimate_message
from acp_agent.conversation.context import Context, Entry
from acp_agent.conversation.events import LoggedEvent
from acp_agent.conversation.messages import AssistantMessage, ToolResult, UserMessage
from support.logs import LogBuilder, is_legal, legal_logs

LONG = "words and words " * 100


@st.composite
def contexts(draw: st.DrawFn) -> Context:
    """Contexts at the moments at which a model may be asked: no call is open."""
    log: tuple[LoggedEvent, ...] = draw(legal_logs())
    context = Context.from_log(log[: draw(st.integers(0, len(log)))])
    while context.open_calls:
        log = log[:-1]
        context = Context.from_log(log[: context.head - 1])
    return context


def must_stay(context: Context) -> tuple[Entry, ...]:
    """What the model has not answered yet in a running turn: its newest answer with the results, or the prompt."""
    if context.turn_from is None:
        return ()
    turn = [entry for entry in context.entries if not entry.summary and entry.seq >= context.turn_from]
    last = next((i for i in reversed(range(len(turn))) if not isinstance(turn[i].message, ToolResult)), 0)
    return tuple(turn[last:])


def replaceable(context: Context) -> tuple[Entry, ...]:
    kept = must_stay(context)
    rest = context.entries[: len(context.entries) - len(kept)]
    return tuple(entry for entry in rest if not entry.summary and entry.seq != context.turn_from)


@given(contexts(), st.integers(0, 400))
def test_a_cut_loses_nothing_tears_nothing_apart_and_keeps_what_the_model_has_not_answered(
    context: Context, tail: int
) -> None:
    cut = plan_cut(context, tail)
    assert (cut is None) == (not replaceable(context))
    if cut is None:
        return
    assert (*cut.summarised, *cut.kept) == context.entries
    assert any(entry in cut.summarised for entry in replaceable(context))
    # Both parts are conversations that a provider takes; no batch of calls is split.
    assert is_legal(tuple(entry.message for entry in cut.summarised))
    assert is_legal(tuple(entry.message for entry in cut.kept))
    unanswered = must_stay(context)
    assert cut.kept[len(cut.kept) - len(unanswered) :] == unanswered
    prompts = [entry for entry in cut.summarised if entry.seq == context.turn_from and not entry.summary]
    assert [(pin.seq, pin.message) for pin in cut.pinned] == [(entry.seq, entry.message) for entry in prompts]


@given(contexts(), st.integers(0, 400))
def test_the_tail_is_as_long_as_its_budget_allows(context: Context, tail: int) -> None:
    cut = plan_cut(context, tail)
    if cut is None:
        return
    size = sum(estimate_message(entry.message) for entry in cut.kept)
    least = len(must_stay(context))
    assert size <= tail or len(cut.kept) == least
    # One more legal step back would be too much, or would leave nothing to summarise.
    for start in reversed(range(len(cut.summarised))):
        longer = (*cut.summarised[start:], *cut.kept)
        if isinstance(longer[0].message, UserMessage | AssistantMessage):
            fits = sum(estimate_message(entry.message) for entry in longer) <= tail
            left = [entry for entry in replaceable(context) if entry in cut.summarised[:start]]
            assert not fits or not left or len(cut.kept) == least
            break


def test_a_history_that_fits_into_the_tail_is_summarised_as_a_whole() -> None:
    log = LogBuilder()
    log.prompt("One?")
    log.step("One.")
    log.end()
    cut = plan_cut(log.context, 10_000)
    assert cut == Cut(log.context.entries, (), ())


@pytest.mark.parametrize("tail", [100, 500, 10_000])
def test_what_came_after_a_long_summary_can_be_summarised_whether_or_not_it_fits_into_the_tail(tail: int) -> None:
    log = LogBuilder()
    log.prompt("One?")
    log.step("One.")
    log.end()
    log.swap(summary=LONG)
    log.prompt("Two?")
    log.step(LONG[:1_200])
    log.end()
    cut = plan_cut(log.context, tail)
    assert cut is not None
    assert cut.summarised == log.context.entries


@pytest.mark.parametrize("tail", [0, 40, 10_000])
def test_the_prompt_of_the_running_turn_is_pinned_and_its_last_step_kept(tail: int) -> None:
    log = LogBuilder()
    prompt = log.prompt("Fix it.")
    first = log.step("I look.", calls=1)
    log.step("I look again.", calls=2)
    cut = plan_cut(log.context, tail)
    assert cut is not None
    assert [pin.seq for pin in cut.pinned] == [prompt]
    assert [entry.seq for entry in cut.kept] == [first + 1, first + 2, first + 3]


def test_a_running_turn_without_a_finished_step_leaves_nothing_to_summarise() -> None:
    log = LogBuilder()
    assert plan_cut(log.context, 100) is None
    log.prompt("Fix it.")
    assert plan_cut(log.context, 0) is None
    log.step("I look.", calls=2)
    assert plan_cut(log.context, 0) is None


def test_a_summary_alone_is_not_summarised_again() -> None:
    log = LogBuilder()
    log.prompt("One?")
    log.step("One.")
    log.end()
    log.swap()
    log.prompt("/compact", sent="")
    assert plan_cut(log.context, 0) is None
