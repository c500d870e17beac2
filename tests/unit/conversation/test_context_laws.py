"""Properties of the context for every valid log; see `support.logs`."""

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
    ToolResult,
    UserMessage,
    name_of,
)
from acp_agent.conversation.surroundings import amendments_in
from support.logs import LogBuilder, is_legal, legal_logs

Log = tuple[LoggedEvent, ...]


@given(legal_logs(), st.data())
def test_a_fold_can_stop_and_continue_later(log: Log, data: st.DataObject) -> None:
    pause = data.draw(st.integers(0, len(log)))
    context = Context.from_log(log[:pause])
    for entry in log[pause:]:
        context = context.apply(entry)
    assert context == Context.from_log(log)
    assert context.head == len(log)


def fold_start(log: Log) -> int:
    """Return where the newest compaction, undo or refusal says that a fold of the log
    may begin; 0 for the beginning.
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
def test_messages_are_always_valid_and_follow_from_the_tail_of_the_last_swap(
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
        # The model's version of these files is outdated.
        if isinstance(entry.event, EditsUndone):
            assert not context.files.keys() & set(entry.event.paths)
            assert context.entries[-1].note
    assert all(repr(before) == kept for before, kept in seen), (
        "applying an event changed the context before it"
    )


def steps(
    log: Log, *kinds: type[Event]
) -> Iterator[tuple[list[Context], LoggedEvent, Context]]:
    """Yield, for every entry of these kinds, the contexts after each entry before it,
    starting with the empty context, and the context after it.
    """
    contexts = [Context()]
    for entry in log:
        after = contexts[-1].apply(entry)
        if isinstance(entry.event, kinds):
            yield contexts, entry, after
        contexts.append(after)


@given(legal_logs())
def test_a_refusal_restores_the_context_before_the_prompt(
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
def test_only_messages_that_a_provider_refused_twice_leave_the_context(
    log: Log,
) -> None:
    for contexts, entry, after in steps(log, TurnRefused):
        event = entry.event
        last = contexts[-1]
        assert isinstance(event, TurnRefused)
        if not event.before_seq:
            continue
        gone = [each for each in last.entries if each not in after.entries]
        assert gone
        assert last.turn_from is not None
        if event.from_seq >= last.turn_from:
            # A step of the open turn: one answer, and the results of its calls.
            answer, *results = (each.message for each in gone)
            assert isinstance(answer, AssistantMessage)
            called = [call.id for call in answer.tool_calls]
            returned = [
                each.call_id for each in results if isinstance(each, ToolResult)
            ]
            assert len(returned) == len(results)
            assert sorted(returned) == sorted(called)
            assert after.turn_from == last.turn_from
            continue
        assert last.refused_turn is not None
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
    """Return the entries without the provider's form of rejected reasoning."""
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
    """Return the entries with the messages that the event rewrites."""
    new = {rewritten.seq: rewritten.message for rewritten in event.rewritten}
    return tuple(
        replace(entry, message=new[entry.seq], shortened=True)
        if entry.seq in new and not entry.summary
        else entry
        for entry in entries
    )


@given(legal_logs())
def test_a_swap_changes_only_the_messages_that_it_replaces_or_rewrites(
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
def test_undoing_a_swap_restores_the_messages_before_it_and_keeps_later_ones(
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
def test_undoing_every_compaction_gives_the_context_without_compactions(
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
def test_pins_stay_until_removed_and_no_number_is_reused(
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
