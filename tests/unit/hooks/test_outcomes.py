"""How the outcomes of several hooks are combined."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from acp_agent.conversation.messages import Text, UserMessage
from acp_agent.hooks.outcomes import (
    NOTHING,
    Action,
    Compact,
    Continue,
    Decision,
    Outcome,
    Replace,
    Summarize,
    SwapContext,
)

WORDS = st.sampled_from(["", " ", "a", "b", "c"])
ACTIONS: st.SearchStrategy[Action] = st.one_of(
    st.builds(SwapContext, WORDS),
    st.builds(Compact, WORDS),
    st.builds(Summarize, WORDS),
    st.builds(Continue, st.tuples(WORDS)),
    st.builds(
        Replace,
        st.tuples(st.builds(UserMessage, WORDS, st.tuples(st.builds(Text, WORDS)))),
    ),
)
DECISIONS = st.builds(Decision, st.sampled_from(["allow", "ask", "block"]), WORDS)
OUTCOMES = st.builds(
    Outcome,
    decision=st.none() | DECISIONS,
    tool_input=st.none() | st.dictionaries(WORDS, WORDS, max_size=2),
    tool_output=st.none() | WORDS,
    message=st.none() | WORDS,
    context=st.lists(WORDS, max_size=2).map(tuple),
    action=st.none() | ACTIONS,
    summary=st.none() | WORDS,
    stop=st.none() | WORDS,
    notices=st.lists(WORDS, max_size=2).map(tuple),
)


@given(OUTCOMES, OUTCOMES, OUTCOMES)
def test_combining_outcomes_is_associative(a: Outcome, b: Outcome, c: Outcome) -> None:
    assert a.then(b).then(c) == a.then(b.then(c))


@given(OUTCOMES)
def test_an_empty_outcome_changes_nothing(outcome: Outcome) -> None:
    assert NOTHING.then(outcome) == outcome
    assert outcome.then(NOTHING) == outcome


@given(OUTCOMES, OUTCOMES)
def test_no_hook_can_allow_an_action_that_another_hook_blocks(
    first: Outcome, second: Outcome
) -> None:
    both = first.then(second)
    assert both.blocks == (first.blocks or second.blocks)
    if first.blocks:
        assert both.decision == first.decision


@given(OUTCOMES, OUTCOMES)
def test_the_first_action_and_summary_win_and_the_last_replacement_wins(
    first: Outcome, second: Outcome
) -> None:
    both = first.then(second)
    assert both.action == (first.action if first.action is not None else second.action)
    assert both.summary == (
        first.summary if first.summary is not None else second.summary
    )
    assert both.tool_input == (
        second.tool_input if second.tool_input is not None else first.tool_input
    )
    assert both.context == (*first.context, *second.context)


def test_an_empty_answer_differs_from_no_answer() -> None:
    assert Outcome(tool_output="full").then(Outcome(tool_output="")).tool_output == ""
    assert Outcome(message="").then(NOTHING).message == ""
