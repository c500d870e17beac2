"""What there is room for is known before a model is asked, and a summary that was paid for is used where it can be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from acp_agent.compaction import CompactionPolicy, ConversationState
from acp_agent.compaction.calls import MAX_REQUESTS
from acp_agent.compaction.estimate import estimate_messages
from acp_agent.compaction.preview import preview
from acp_agent.compaction.service import LAST_STEP
from acp_agent.conversation.messages import AssistantMessage, Message, Text, ToolCall, ToolResult, UserMessage
from acp_agent.errors import CompactionError, ContextOverflowError, ModelError
from support.histories import History, faults, histories
from support.ladder import AT_THRESHOLD, BY_HAND, MUST_FIT
from support.small_windows import SHORT, STRATEGIES, Model, OwnCompaction, compacted, run, talk

MODES = (BY_HAND, AT_THRESHOLD, MUST_FIT)


def small_window(messages: Sequence[Message], window: int = 24_000) -> ConversationState:
    """A window of which the system prompt takes 8,000 tokens, and which may take 13,000 afterwards."""
    return ConversationState.of(messages, window=window, system="s" * 32_000)


# Before a model is asked ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", [BY_HAND, AT_THRESHOLD, MUST_FIT])
def test_the_tail_is_as_small_as_a_small_window_demands(policy: CompactionPolicy) -> None:
    state = small_window(talk(20, 2_400))
    model = Model("# Goal\n" + "word " * 900)
    result = compacted(state, replace(policy, steps=("summary",)), model)
    assert len(model.requests) == 1
    assert result.rewritten == ()
    assert 4 <= len(result.entries) - 1 <= 10
    assert result.entries[1:] == state.entries[-len(result.entries[1:]) :]
    assert result.tokens_after <= 13_000


def test_nothing_gives_way_where_there_is_room() -> None:
    state = ConversationState.of(talk(100, 6_000), window=200_000)
    wide = compacted(state, BY_HAND)
    assert 0.9 < sum(len(str(message)) for message in wide.messages[1:]) / 80_000 < 1.1
    assert "little room" not in str(wide.sent)


def test_where_there_is_little_room_the_model_is_told_so() -> None:
    model, other = Model(), Model()
    compacted(small_window(talk(20, 1_200), 16_000), BY_HAND, model)
    compacted(ConversationState.of(talk(20, 1_200), window=32_000), BY_HAND, other)
    [told], [untold] = ([str(request.messages[-1]) for request in one.requests] for one in (model, other))
    assert "at most 350 words" in told
    assert "words" not in untold


def test_a_preview_in_a_small_window_says_what_is_then_done() -> None:
    state = small_window(talk(20, 2_400))
    seen = preview(state, BY_HAND)
    assert seen is not None
    assert seen.cut is not None
    assert seen.cut.kept == compacted(state, BY_HAND).entries[1:]
    assert seen.after <= 13_000
    tiny = small_window(talk(20, 1_200), 16_000)
    seen = preview(tiny, BY_HAND)
    assert seen is not None
    assert seen.summary < 1_000
    assert seen.after <= 10_000


@pytest.mark.parametrize("strategy", ["summary", "native"])
@pytest.mark.parametrize("policy", MODES)
def test_no_model_is_asked_for_a_summary_that_could_not_be_shorter(policy: CompactionPolicy, strategy: str) -> None:
    model = Model()
    state = ConversationState.of([UserMessage("u", (Text("Never touch it. " * 3),)), *talk(1, 20)], window=20_000)
    with pytest.raises(CompactionError, match=r"too little to compact.*The history is unchanged") as caught:
        run(state, replace(policy, strategy=strategy, steps=(strategy,)), model, OwnCompaction())
    assert model.requests == []
    assert "unchanged" not in caught.value.reason


def test_no_model_is_asked_where_what_has_to_stay_leaves_no_room() -> None:
    model = Model()
    calls = AssistantMessage("c", (ToolCall("c", "read", {"path": "a"}),))
    unread = [UserMessage("r", (Text("Read it."),)), calls, ToolResult("c", (Text("line\n" * 13_000),))]
    state = replace(ConversationState.of([*talk(4, 3_000), *unread], window=20_000), turn_from=9)
    with pytest.raises(CompactionError, match="What has to stay"):
        run(state, replace(AT_THRESHOLD, steps=("summary",)), model)
    assert model.requests == []
    compacted(state, replace(MUST_FIT, steps=("summary",)), model)
    assert len(model.requests) == 1


@pytest.mark.parametrize("strategy", ["ledger", "mask", "truncate"])
def test_the_last_step_fits_whatever_share_of_a_small_window_is_the_target(strategy: str) -> None:
    for last in (UserMessage("u", (Text("x" * 96_000),)), AssistantMessage("v", (Text("x" * 96_000),))):
        state = ConversationState.of([*talk(3, 2_000), UserMessage("q", (Text("Well?"),)), last], window=12_000)
        result = compacted(state, replace(MUST_FIT, strategy=strategy, target=0.9))
        assert result.tokens_after <= state.budget.limit


@pytest.mark.parametrize("strategy", ["ledger", "truncate"])
@pytest.mark.parametrize("policy", [BY_HAND, MUST_FIT])
def test_without_a_model_the_tail_has_fewer_messages_before_one_in_it_is_shortened(
    policy: CompactionPolicy, strategy: str
) -> None:
    state = ConversationState.of(talk(20, 1_200), window=8_000, system="s" * 100)
    result = compacted(state, replace(policy, strategy=strategy, target=0.2))
    assert result.rewritten == ()
    tail = result.entries[1:]
    assert tail == state.entries[-len(tail) :]
    # As many as have room, and not one less.
    more = state.entries[-len(tail) - 2 : -len(tail)]
    assert result.tokens_after <= 1_600 < result.tokens_after + estimate_messages(entry.message for entry in more)


def test_the_system_prompt_is_as_large_as_the_provider_counts_it() -> None:
    state = ConversationState.of([UserMessage("p", (Text("x " * 48_000),))], window=12_000, system="s" * 19_200)
    state = replace(state, budget=state.budget.filled(int(state.budget.used * 1.8), state.budget.system))
    result = compacted(state, replace(MUST_FIT, strategy="ledger"))
    assert result.tokens_after <= state.budget.limit


# After it was asked --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", MODES)
def test_a_summary_that_is_longer_than_expected_is_used_and_the_longest_of_the_tail_give_way(
    policy: CompactionPolicy,
) -> None:
    paste = UserMessage("p", (Text("Look at this. " + "log line\n" * 1_500 + "Why?"),))
    state = ConversationState.of([*talk(20, 2_000), paste, *talk(1, 20)], window=20_000)
    model = Model("# Goal\n" + "word " * 5_500)
    result = compacted(state, replace(policy, steps=("summary",)), model)
    assert len(model.requests) == 1
    assert result.tokens_after <= 10_000
    shortened = {rewrite.seq for rewrite in result.rewritten}
    for entry in result.entries[1:]:
        assert (entry in state.entries) == (entry.seq not in shortened)
    assert 41 in shortened
    assert result.receipt.rewritten == len(shortened)
    assert result.entries[-1] == state.entries[-1]
    assert "recall" not in str(result.messages)


def test_what_the_model_has_not_read_is_shortened_only_as_far_as_an_answer_needs_room() -> None:
    def reading(lines: int) -> ConversationState:
        calls = AssistantMessage("c", (ToolCall("c", "read", {"path": "a"}),))
        unread = [UserMessage("r", (Text("Read it."),)), calls, ToolResult("c", (Text("line\n" * lines),))]
        return replace(ConversationState.of([*talk(12, 3_000), *unread], window=20_000), turn_from=25)

    long, short = Model("# Goal\n" + "word " * 6_000), Model("# Goal\nA cart.")
    for policy in (AT_THRESHOLD, MUST_FIT):
        with pytest.raises(CompactionError, match="After the summary"):
            run(reading(5_000), replace(policy, steps=("summary",)), long)
    # With what is carried over it is more than the target, but it fits.
    assert compacted(reading(11_800), replace(MUST_FIT, steps=("chunked",)), short).rewritten == ()
    state = reading(20_000)
    for steps in (("chunked",), ("ledger",)):
        result = compacted(state, replace(MUST_FIT, steps=steps), short)
        assert [rewrite.seq for rewrite in result.rewritten] == [27]
        assert state.budget.roomy * 0.95 < result.tokens_after <= state.budget.roomy < state.budget.limit


# Whatever comes ------------------------------------------------------------------------------------------------------


@settings(max_examples=120, deadline=None)
@given(
    histories(),
    st.sampled_from(STRATEGIES),
    st.sampled_from(MODES),
    st.sampled_from([600, 2_000, 9_000, 40_000]),
    st.sampled_from([0.1, 0.5, 0.9]),
    st.sampled_from([SHORT, "word " * 1_000, "word " * 20_000]),
    st.sampled_from([0, 3_000]),
    st.sampled_from(["Summarise.", "Summarise. " * 3_000]),
)
def test_whatever_comes_the_result_can_be_sent_or_a_sentence_says_why_there_is_none(
    history: History,
    strategy: str,
    policy: CompactionPolicy,
    window: int,
    target: float,
    written: str,
    system: int,
    prompt: str,
) -> None:
    state = replace(
        ConversationState.of(history.messages, window=window, system="s" * system),
        entries=history.entries,
        turn_from=history.turn_from,
    )
    model = Model(written)
    policy = replace(policy, strategy=strategy, target=target, prompt=prompt)
    said = ""
    try:
        result = run(state, policy, model, OwnCompaction(written))
    except (CompactionError, ModelError) as error:
        result, said = None, str(error)
    assert len(model.requests) <= MAX_REQUESTS
    assert not said or "unchanged" in said or "Nothing was changed" in said
    if result is not None:
        assert faults(result.messages) <= faults(state.request.messages)
        assert result.tokens_after < result.tokens_before
        # The last rung may take what there is: an answer is short then, and the turn goes on.
        room = state.budget.most if result.strategy == LAST_STEP else state.budget.limit
        assert not policy.must_fit or result.tokens_after <= room
        assert "hange" not in "".join(result.receipt.notes)


def test_a_newest_step_that_is_larger_than_the_tail_leaves_only_where_a_person_asks() -> None:
    answer = AssistantMessage("a", (Text("It is so, and it is long. " * 800),))
    state = ConversationState.of([*talk(12, 3_000), UserMessage("u", (Text("Why?"),)), answer], window=20_000)
    by_hand = compacted(state, replace(BY_HAND, steps=("summary",)), Model("# Goal\nA cart."))
    assert by_hand.boundary == len(state.entries)
    by_itself = compacted(state, replace(AT_THRESHOLD, steps=("summary",)), Model("# Goal\nA cart."))
    assert by_itself.messages[-1] == answer


def test_of_several_failures_the_last_one_is_told() -> None:
    state = ConversationState.of(talk(12, 5_000), window=20_000)
    with pytest.raises(CompactionError, match="empty summary"):
        run(state, AT_THRESHOLD, Model(ContextOverflowError("too long"), " "))
