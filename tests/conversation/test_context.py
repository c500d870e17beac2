"""The context as a fold over the log."""

from __future__ import annotations

import copy
from dataclasses import FrozenInstanceError, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_agent.conversation.context import Context, Partial
from acp_agent.conversation.events import (
    AssistantAnswered,
    CallView,
    CompactionFailed,
    ContextSwapped,
    Event,
    FileVersion,
    InstructionsLoaded,
    LoggedEvent,
    ModeChanged,
    ModelChanged,
    NoteAdded,
    PartialAnswer,
    PermissionGranted,
    PlanChanged,
    PlanEntry,
    SessionStarted,
    ThoughtLevelChanged,
    TitleChanged,
    ToolReturned,
    TurnRefused,
)
from acp_agent.conversation.messages import AssistantMessage, Text, ToolCall, ToolResult, Usage, UserMessage
from support.logs import LogBuilder, is_legal, legal_logs

Log = tuple[LoggedEvent, ...]


def texts(context: Context) -> list[str]:
    return [
        message.text
        if not isinstance(message, UserMessage)
        else "".join(part.text for part in message.parts if isinstance(part, Text))
        for message in context.messages
    ]


@given(legal_logs(), st.data())
def test_a_fold_that_stops_and_goes_on_later_sees_the_same(log: Log, data: st.DataObject) -> None:
    pause = data.draw(st.integers(0, len(log)))
    context = Context.from_log(log[:pause])
    for entry in log[pause:]:
        context = context.apply(entry)
    assert context == Context.from_log(log)
    assert context.head == len(log)


@given(legal_logs())
def test_at_every_moment_the_tail_of_the_last_compaction_is_enough(log: Log) -> None:
    for length in range(1, len(log) + 1):
        seen = log[:length]
        # A refusal goes back behind the compactions of its turn.
        undone = {
            seq
            for entry in seen
            if isinstance(entry.event, TurnRefused)
            for seq in range(entry.event.from_seq, entry.seq)
        }
        swaps = [e.event for e in seen if isinstance(e.event, ContextSwapped) and e.seq not in undone]
        if swaps:
            tail = log[swaps[-1].keep_from - 1 : length]
            assert Context.from_log(tail) == Context.from_log(log[:length])


@given(legal_logs())
def test_applying_an_event_leaves_the_context_before_it_as_it_was(log: Log) -> None:
    context, seen = Context(), list[tuple[Context, Context]]()
    for entry in log:
        seen.append((context, copy.deepcopy(context)))
        context = context.apply(entry)
    assert all(before == kept for before, kept in seen)


@given(legal_logs())
def test_a_legal_log_gives_messages_that_a_provider_takes(log: Log) -> None:
    context = Context()
    for entry in log:
        context = context.apply(entry)
        if not context.open_calls:
            assert is_legal(context.messages)


@given(legal_logs())
def test_a_refusal_leaves_exactly_what_was_there_before_the_prompt(log: Log) -> None:
    contexts = [Context()]
    for entry in log:
        contexts.append(contexts[-1].apply(entry))
        if isinstance(entry.event, TurnRefused):
            before, after = contexts[entry.event.from_seq - 1], contexts[-1]
            assert after.revision == entry.seq
            assert after.entries == before.entries


@given(legal_logs())
def test_after_a_swap_the_context_is_the_summary_the_pinned_and_the_tail(log: Log) -> None:
    before = Context()
    for entry in log:
        after = before.apply(entry)
        if isinstance(event := entry.event, ContextSwapped):
            summary, *rest = after.entries
            pinned, tail = rest[: len(event.pinned)], rest[len(event.pinned) :]
            assert summary.summary
            assert summary.seq == after.revision == entry.seq
            assert summary.message == UserMessage(event.message_id, event.sent)
            assert [(pin.seq, pin.message) for pin in pinned] == [(pin.seq, pin.message) for pin in event.pinned]
            assert tail == [left for left in before.entries if left.seq >= event.keep_from and not left.summary]
            assert after.carried() == replace(before.carried(), cost=before.cost + 0.5)
        before = after


def test_a_swap_clears_the_usage_and_the_files_that_were_seen_and_sets_the_estimate() -> None:
    log = LogBuilder()
    log.prompt("fix it")
    log.step(calls=2, usage=Usage(100, 20, 3, 4))
    assert log.context.usage == Usage(100, 20, 3, 4)
    assert (log.context.baseline, log.context.baseline_seq) == (127, 4)
    assert set(log.context.files) == {"/shop/0.py", "/shop/1.py"}
    log.swap(keep_from=log.cuts()[-2])
    assert log.context.usage is None
    assert log.context.files == {}
    assert (log.context.baseline, log.context.baseline_seq) == (100, log.head)


def test_a_swap_keeps_the_running_turns_prompt_word_for_word() -> None:
    log = LogBuilder()
    log.prompt("first")
    log.step("done")
    log.end()
    log.prompt("second")
    log.step("looking", calls=1)
    log.swap(summary="the first is done")
    assert texts(log.context) == ["History: the first is done", "second"]
    log.step("found")
    assert texts(log.context) == ["History: the first is done", "second", "found"]


def test_a_second_summary_takes_the_place_of_the_first() -> None:
    log = LogBuilder()
    log.prompt("first")
    kept = log.step("done")
    log.end()
    log.swap(kept, summary="one")
    log.swap(kept, summary="two")
    assert texts(log.context) == ["History: two", "done"]


def test_a_refused_turn_that_was_compacted_leaves_nothing_not_even_in_a_summary() -> None:
    log = LogBuilder()
    log.prompt("first")
    log.step("done")
    log.end()
    log.prompt("bad")
    log.step("looking", calls=1)
    log.swap(summary="the first is done")
    log.step("more", calls=1)
    log.refuse()
    assert texts(log.context) == ["first", "done"]
    assert log.context.turn_from is None


def test_a_refusal_voids_the_count_that_included_the_refused_turn() -> None:
    log = LogBuilder()
    log.prompt("bad")
    log.step("looking", calls=1, usage=Usage(100))
    log.refuse()
    assert log.context.usage is None
    assert (log.context.baseline, log.context.baseline_seq) == (0, 0)


def test_a_prompt_is_what_the_recipe_says_and_a_command_is_nothing() -> None:
    log = LogBuilder()
    log.prompt("/fix it", sent="Fix it well.")
    log.end()
    log.prompt("/compact", sent="")
    assert texts(log.context) == ["Fix it well."]
    assert log.context.turn_from == log.head


def test_checkpoints_of_an_answer_add_up_until_the_whole_one_supersedes_them() -> None:
    log = LogBuilder()
    log.prompt("hello")
    log.add(PartialAnswer("msg_9", "Go", "h"), PartialAnswer("msg_9", "od", "m"))
    assert log.context.partial == Partial("msg_9", "Good", "hm")
    assert texts(log.context) == ["hello"]
    log.add(AssistantAnswered(AssistantMessage("msg_9", (Text("Good day"),))))
    assert log.context.partial is None
    assert texts(log.context) == ["hello", "Good day"]


def test_a_checkpoint_of_another_answer_begins_afresh() -> None:
    log = LogBuilder()
    log.add(PartialAnswer("msg_1", "old", "o"), PartialAnswer("msg_2", "new"))
    assert log.context.partial == Partial("msg_2", "new", "")


def test_a_checkpoint_is_forgotten_with_the_next_prompt_and_with_the_turns_end() -> None:
    for forget in (lambda log: log.prompt("next"), lambda log: log.end("cancelled")):
        log = LogBuilder()
        log.prompt("hello")
        log.add(PartialAnswer("msg_9", "Go"))
        forget(log)
        assert log.context.partial is None


def test_an_answer_that_says_nothing_is_no_message_but_is_paid_for() -> None:
    log = LogBuilder()
    log.prompt("hello")
    log.add(AssistantAnswered(AssistantMessage("msg_9", (), stop_reason="cancelled", usage=Usage(5, cost=0.5))))
    assert texts(log.context) == ["hello"]
    assert log.context.cost == 0.5


def test_open_calls_are_those_of_the_newest_answer_without_a_result() -> None:
    log = LogBuilder()
    assert log.context.open_calls == ()
    log.prompt("fix it")
    log.step(calls=2)
    calls = tuple(ToolCall(f"call_{name}", "read") for name in "xyz")
    log.add(AssistantAnswered(AssistantMessage("msg_9", (Text("three"), *calls), stop_reason="tool_use")))
    assert log.context.open_calls == calls
    log.add(ToolReturned(ToolResult("call_y", (Text("t"),)), CallView("Read")))
    assert log.context.open_calls == (calls[0], calls[2])
    for name in "zx":
        log.add(ToolReturned(ToolResult(f"call_{name}", (Text("t"),)), CallView("Read")))
    assert log.context.open_calls == ()
    log.prompt("next")
    assert log.context.open_calls == ()


def test_the_newest_version_of_a_file_counts_and_one_that_is_gone_is_known_to_be() -> None:
    log = LogBuilder()
    for path, digest in (("/a", "1"), ("/b", "1"), ("/a", "2"), ("/b", None)):
        log.add(ToolReturned(ToolResult("c", ()), CallView("Edit", "edit"), (FileVersion(path, digest),)))
    assert log.context.files == {"/a": "2", "/b": None}


def test_costs_of_answers_and_of_compactions_that_failed_or_not_add_up() -> None:
    log = LogBuilder()
    log.prompt("fix it")
    log.step("a", usage=Usage(1, cost=0.25))
    log.step("b", usage=Usage(1))
    log.add(CompactionFailed("compaction_1", "manual", "failed", "empty", Usage(1, cost=0.125)))
    log.add(CompactionFailed("compaction_2", "manual", "cancelled"))
    log.swap()  # 0.5
    assert log.context.cost == 0.875


@pytest.mark.parametrize(
    ("event", "changes"),
    [
        (SessionStarted("/w", ("/l",), "plan", "a/b", "low"), {"cwd": "/w", "additional_directories": ("/l",)}),
        (InstructionsLoaded("Be brief."), {"instructions": "Be brief."}),
        (PlanChanged((PlanEntry("x"),)), {"plan": (PlanEntry("x"),)}),
        (ModeChanged("plan"), {"mode": "plan"}),
        (ModelChanged("a/b"), {"model": "a/b"}),
        (ThoughtLevelChanged("high"), {"thought_level": "high"}),
        (TitleChanged("The cart"), {"title": "The cart"}),
        (PermissionGranted("edit"), {"grants": frozenset({"edit"})}),
        (NoteAdded("msg_1", "a note"), {"entries": ()}),
    ],
    ids=lambda value: value.kind if hasattr(value, "kind") else "",
)
def test_a_setting_is_what_was_said_last_and_outlives_a_compaction(event: Event, changes: dict[str, object]) -> None:
    log = LogBuilder()
    log.add(event)
    assert {name: getattr(log.context, name) for name in changes} == changes
    log.swap()
    kept = Context.from_log(log.logged[-1:])
    assert kept == log.context
    assert {name: getattr(kept, name) for name in changes if name != "entries"} == {
        name: value for name, value in changes.items() if name != "entries"
    }


def test_a_context_cannot_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        Context().head = 1  # type: ignore[misc]
