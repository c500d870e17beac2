"""Replaying a log as the updates that the user saw."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Iterable

import anyio
from hypothesis import given

from acp_agent.conversation.context import Context
from acp_agent.conversation.events import (
    AssistantAnswered,
    CallView,
    ContextAdded,
    ContextRestored,
    ContextSwapped,
    ContinuationAsked,
    EditsUndone,
    LoggedEvent,
    NoteAdded,
    PartialAnswer,
    PinRemoved,
    SummaryDropped,
    TextPinned,
    TurnEnded,
    UserPrompted,
)
from acp_agent.conversation.messages import (
    AssistantMessage,
    Text,
    ToolCall,
    Usage,
    UserMessage,
)
from acp_agent.conversation.updates import (
    AgentSaid,
    CallFinished,
    CompactionFinished,
    Update,
    UserSaid,
)
from acp_agent.session.replay import replay
from support.logs import LogBuilder, legal_logs


def replayed(log: Iterable[LoggedEvent]) -> list[Update]:
    async def events() -> AsyncIterator[LoggedEvent]:
        for logged in log:
            yield logged

    async def collect() -> list[Update]:
        return [
            update
            async for update in replay(events(), lambda call: CallView(call.name))
        ]

    return anyio.run(collect)


def texts(updates: Iterable[Update]) -> list[str]:
    """Return every visible text in order."""
    seen: list[str] = []
    for update in updates:
        match update:
            case AgentSaid():
                seen.append(update.text)
            case UserSaid(part=Text(text)):
                seen.append(text)
            case CompactionFinished():
                assert update.status == "completed"
                seen.append(update.summary or "")
            case _:
                pass
    return [text for text in seen if text]


def visible(log: Iterable[LoggedEvent]) -> list[str]:
    """Return every visible text according to the log. An answer that was never
    completed comes when its turn ends or the next turn begins.
    """
    seen: list[str] = []
    partial: list[PartialAnswer] = []

    def break_off() -> None:
        seen.append("".join(event.text for event in partial))
        partial.clear()

    for logged in log:
        match logged.event:
            case UserPrompted(shown=shown):
                break_off()
                seen.extend(part.text for part in shown if isinstance(part, Text))
            case PartialAnswer() as event:
                partial.append(event)
            case AssistantAnswered(message):
                partial.clear()
                seen.extend(
                    part.text for part in message.parts if isinstance(part, Text)
                )
            case TurnEnded():
                break_off()
            case NoteAdded(text=text) | ContextSwapped(summary=text):
                seen.append(text)
            case _:
                pass
    break_off()
    return [text for text in seen if text]


@given(legal_logs())
def test_every_visible_text_is_replayed_once_and_in_order(
    log: tuple[LoggedEvent, ...],
) -> None:
    updates = replayed(log)
    assert texts(updates) == visible(log)
    asked = [
        part.id
        for logged in log
        if isinstance(logged.event, AssistantAnswered)
        for part in logged.event.message.parts
        if isinstance(part, ToolCall)
    ]
    assert sorted(
        update.call_id for update in updates if isinstance(update, CallFinished)
    ) == sorted(asked)
    compactions = [
        logged.event.compaction_id
        for logged in log
        if isinstance(logged.event, ContextSwapped)
    ]
    done = [
        u
        for u in updates
        if isinstance(u, CompactionFinished) and u.status == "completed"
    ]
    assert [update.compaction_id for update in done] == compactions
    assert all(update.replayed for update in done)
    # The user has seen everything that the model knows of the conversation.
    unseen = {
        logged.event.message_id
        for logged in log
        if isinstance(logged.event, ContextSwapped)
        or (isinstance(logged.event, UserPrompted) and logged.event.sent)
    }
    known = [
        part.text
        for entry in Context.from_log(log).entries
        if isinstance(message := entry.message, UserMessage | AssistantMessage)
        if message.id not in unseen and not entry.note and not entry.shortened
        for part in message.parts
        if isinstance(part, Text) and part.text
    ]
    assert not Counter(known) - Counter(texts(updates))


def test_a_call_without_a_result_is_replayed_as_failed() -> None:
    log = LogBuilder()
    log.prompt("Fix it.")
    log.step("I look.", calls=2)
    broken = log.logged[:-1]
    first, second = (
        update for update in replayed(broken) if isinstance(update, CallFinished)
    )
    assert (first.status, second.status) == ("completed", "failed")
    assert first.call_id != second.call_id


def test_messages_for_the_model_only_are_not_replayed() -> None:
    log = LogBuilder()
    log.prompt("/pin prices are cents", sent="")
    log.pin("prices are cents")
    log.add(NoteAdded("msg_note", "Pinned as 1."))
    log.end()
    log.prompt("Fix it.")
    log.step("Cut off")
    log.swap(summary="So far.")
    log.ask_on()
    log.add_context()
    log.add(SummaryDropped(Usage(1, cost=0.5)))
    log.step(" and on.")
    log.end()
    log.unpin(1)
    log.undo_edits(["/shop/cart.py"])
    log.restore()
    seen = [
        "/pin prices are cents",
        "Pinned as 1.",
        "Fix it.",
        "Cut off",
        "So far.",
        " and on.",
    ]
    assert texts(replayed(log.logged)) == seen
    silent = (
        TextPinned,
        PinRemoved,
        ContextAdded,
        ContinuationAsked,
        SummaryDropped,
        ContextRestored,
        EditsUndone,
    )
    shown = (logged for logged in log.logged if not isinstance(logged.event, silent))
    assert replayed(log.logged) == replayed(shown)
