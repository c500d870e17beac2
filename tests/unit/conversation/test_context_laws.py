"""What holds of the context for every legal log; see `support.logs`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from acp_agent.conversation.context import Context, Entry
from acp_agent.conversation.events import (
    ContextRestored,
    ContextSwapped,
    EditsUndone,
    Event,
    LoggedEvent,
    PinRemoved,
    TextPinned,
    TurnRefused,
)
from acp_agent.conversation.messages import (
    AssistantMessage,
    AssistantPart,
    Thinking,
    UserMessage,
    name_of,
)
from acp_agent.conversation.surroundings import amendments_in
from support.logs import LogBuilder, is_legal, legal_logs

Log = tuple[LoggedEvent, ...]


@given(legal_logs(), st.data())
def test_a_fold_that_stops_and_goes_on_later_sees_the_same(
    log: Log, data: st.DataObject
) -> None:
    pause = data.draw(st.integers(0, len(log)))
    context = Context.from_log(log[:pause])
    for entry in log[pause:]:
        context = context.apply(entry)
    assert context == Context.from_log(log)
    assert context.head == len(log)


def fold_start(log: Log) -> int:
    """Where the newest compaction, undo or refusal of a log lets a fold begin, as their
    events say; 0 for the start.
    """
    for entry in reversed(log):
        match entry.event:
            case ContextSwapped() as swap:
                return swap.fold_from or min(swap.keep_from, entry.seq)
            case ContextRestored():
                return entry.seq
            case TurnRefused(from_seq=prompt, before_seq=0):
                return fold_start(log[: prompt - 1])
            case _:
                pass
    return 0


@given(legal_logs())
def test_at_every_moment_the_messages_are_legal_and_the_tail_that_the_newest_compaction_names_is_enough(
    log: Log,
) -> None:
    context = Context()
    seen = list[tuple[Context, str]]()
    for entry in log:
        seen.append((context, repr(context)))
        context = context.apply(entry)
        assert context.fold_from == fold_start(log[: entry.seq])
        assert (
            Context.from_log(log[max(context.fold_from, 1) - 1 : entry.seq]) == context
        )
        if not context.open_calls:
            assert is_legal(context.messages)
        # What was read of these files does not hold any more.
        if isinstance(entry.event, EditsUndone):
            assert not context.files.keys() & set(entry.event.paths)
            assert context.entries[-1].note
    assert all(repr(before) == kept for before, kept in seen), (
        "applying an event leaves the context before it as it was"
    )


def steps(
    log: Log, *kinds: type[Event]
) -> Iterator[tuple[list[Context], LoggedEvent, Context]]:
    """Every entry of these kinds: the contexts after each of the entries before it,
    from the empty one on, and the one after it.
    """
    contexts = [Context()]
    for entry in log:
        after = contexts[-1].apply(entry)
        if isinstance(entry.event, kinds):
            yield contexts, entry, after
        contexts.append(after)


@given(legal_logs())
def test_a_refusal_brings_back_what_the_model_saw_before_the_prompt_whatever_the_turn_did(
    log: Log,
) -> None:
    for contexts, entry, after in steps(log, TurnRefused):
        assert isinstance(entry.event, TurnRefused)
        since = log[entry.event.from_seq - 1 : entry.seq]
        if any(
            isinstance(each.event, TurnRefused) and each.event.before_seq
            for each in since
        ):
            continue  # this refusal restores less; see the next test
        before = contexts[entry.event.from_seq - 1]
        last = contexts[-1]
        assert after == replace(
            last,
            head=entry.seq,
            revision=entry.seq,
            entries=without_void(before.entries, last),
            declared=before.declared,
            announced=before.announced,
            usage=before.usage,
            baseline=before.baseline,
            baseline_seq=before.baseline_seq,
            memory=replace(
                before.memory, pins=last.memory.pins, next_pin=last.memory.next_pin
            ),
            swaps=before.swaps,
            fold_from=before.fold_from,
            restored=before.restored,
            files={},
            partial=None,
            refusals=last.refusals + 1,
        )


@given(legal_logs())
def test_what_a_provider_has_refused_twice_leaves_the_context_and_nothing_else_does(
    log: Log,
) -> None:
    for contexts, entry, after in steps(log, TurnRefused):
        event = entry.event
        last = contexts[-1]
        assert isinstance(event, TurnRefused)
        if not event.before_seq:
            continue
        assert last.refused_turn is not None
        gone = [each for each in last.entries if each not in after.entries]
        assert gone
        assert all(
            last.refused_turn.from_seq <= each.seq < last.refused_turn.before_seq
            for each in gone
        )
        assert after.entries == tuple(each for each in last.entries if each not in gone)
        assert after.turn_from == last.turn_from
        # Refusing the current prompt does not restore the entries that are gone.
        assert after.turn_from is not None
        again = after.apply(
            LoggedEvent(after.head + 1, 0, TurnRefused(after.turn_from))
        )
        assert not {each.seq for each in again.entries} & {each.seq for each in gone}


def without_void(entries: Iterable[Entry], context: Context) -> tuple[Entry, ...]:
    """The entries without the provider's form of reasoning that it did not take."""
    return tuple(
        replace(
            entry,
            message=replace(
                entry.message,
                parts=tuple(without_data(each, context) for each in parts),
            ),
        )
        if isinstance(entry.message, AssistantMessage)
        and (parts := entry.message.parts)
        else entry
        for entry in entries
    )


def without_data(part: AssistantPart, context: Context) -> AssistantPart:
    return (
        replace(part, data={})
        if isinstance(part, Thinking) and name_of(part) in context.void
        else part
    )


def shortened(entries: Iterable[Entry], event: ContextSwapped) -> tuple[Entry, ...]:
    """The entries with those messages rewritten that the event rewrites."""
    new = {rewritten.seq: rewritten.message for rewritten in event.rewritten}
    return tuple(
        replace(entry, message=new[entry.seq], shortened=True)
        if entry.seq in new and not entry.summary
        else entry
        for entry in entries
    )


@given(legal_logs())
def test_a_swap_leaves_its_summary_the_pinned_and_the_tail_or_rewrites_messages_and_changes_no_other(
    log: Log,
) -> None:
    for contexts, entry, after in steps(log, ContextSwapped):
        event = entry.event
        before = contexts[-1]
        assert isinstance(event, ContextSwapped)
        if event.sent:
            summary, *rest = after.entries
            assert summary == Entry(
                entry.seq, UserMessage(event.message_id, event.sent), summary=True
            )
            pinned = [
                e
                for e in before.entries
                if e.seq == before.turn_from and e.seq < event.keep_from
            ]
            tail = [
                left
                for left in before.entries
                if left.seq >= event.keep_from and not left.summary
            ]
            assert tuple(rest) == shortened([*pinned, *tail], event)
            assert after.carried() == replace(event.carried, cost=before.cost + 0.5)
            assert after.swaps == (*before.swaps, entry.seq)
        else:
            assert after == replace(
                before,
                head=entry.seq,
                revision=entry.seq,
                entries=shortened(before.entries, event),
                usage=None,
                baseline=event.tokens_after,
                baseline_seq=entry.seq,
                swaps=(*before.swaps, entry.seq),
                fold_from=before.fold_from or 1,
                restored=False,
                files={version.path: version.digest for version in event.files},
                unbound_until=entry.seq,
                refusals=0,
                refused_turn=None,
                partial=None,
            )


@given(legal_logs())
def test_an_undone_swap_leaves_what_was_there_before_it_and_what_was_said_since(
    log: Log,
) -> None:
    for contexts, entry, after in steps(log, ContextRestored):
        event = entry.event
        assert isinstance(event, ContextRestored)
        before = contexts[event.undone - 1]
        last = contexts[-1]
        since = tuple(e for e in last.entries if e.seq > event.undone)
        assert after == replace(
            last,
            head=entry.seq,
            revision=entry.seq,
            entries=without_void((*before.entries, *since), last),
            announced=last.declared.after(amendments_in((*before.entries, *since))),
            usage=None,
            baseline=event.tokens,
            baseline_seq=entry.seq,
            memory=replace(
                before.memory, pins=last.memory.pins, next_pin=last.memory.next_pin
            ),
            swaps=before.swaps,
            fold_from=entry.seq,
            restored=True,
            files={**before.files, **last.files},
            unbound_until=entry.seq,
            refusals=0,
            refused_turn=None,
            partial=None,
        )


@given(legal_logs())
def test_when_every_compaction_is_undone_the_context_is_as_if_none_had_been(
    log: Log,
) -> None:
    undone = LogBuilder()
    undone.add(*(entry.event for entry in log[len(undone.logged) :]))
    while undone.context.swaps:
        undone.restore()
    never = (
        entry
        for entry in log
        if not isinstance(entry.event, ContextSwapped | ContextRestored)
    )
    expected = Context.from_log(never)
    assert undone.context.entries == expected.entries
    assert undone.context.memory == expected.memory


@given(legal_logs())
def test_pins_outlive_everything_but_being_taken_back_and_no_number_is_given_twice(
    log: Log,
) -> None:
    context = Context()
    pins = dict[int, str]()
    given_out = set[int]()
    for entry in log:
        match entry.event:
            case TextPinned(number=number, text=text):
                assert number not in given_out
                given_out.add(number)
                pins[number] = text
            case PinRemoved(number=number):
                del pins[number]
            case _:
                pass
        context = context.apply(entry)
        assert {pin.number: pin.text for pin in context.memory.pins} == pins
        assert context.memory.next_pin > max(given_out, default=0)
