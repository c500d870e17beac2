"""The events that close an unfinished turn, so that the log is valid again.

They are appended when a turn is cancelled or fails, and before the first prompt after
the agent was killed in the middle of a turn. The part of an answer that was shown
becomes a message, and every call without a result gets a result.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from acp_agent.conversation.context import Context, RefusedTurn
from acp_agent.conversation.events import (
    AssistantAnswered,
    CallView,
    Event,
    ToolReturned,
    TurnRefused,
)
from acp_agent.conversation.messages import (
    AssistantMessage,
    AssistantPart,
    Entry,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    call_digest,
)

_RESULTS = {
    "cancelled": "The user cancelled this call before it finished. It may have had part of its effect.",
    "interrupted": "The agent was interrupted before this call finished. It may have had part of its effect.",
}
_NOT_RUN = {
    "cancelled": "The user cancelled this call before it ran. It had no effect.",
    "interrupted": "The agent was interrupted before this call ran. It had no effect.",
}


ENDED_BY_USER = "The user ended this command while it ran."
"""Beginning of the result of a command that the user stopped while the turn went on."""


def was_cancelled(result: ToolResult) -> bool:
    """Return whether this is the result of a call that the user cancelled, with its
    turn or on its own.
    """
    if not result.is_error:
        return False
    first = result.parts[0] if result.parts else None
    return result.parts in (
        (Text(_RESULTS["cancelled"]),),
        (Text(_NOT_RUN["cancelled"]),),
    ) or (isinstance(first, Text) and first.text.startswith(ENDED_BY_USER))


def closing_events(
    context: Context,
    reason: Literal["cancelled", "interrupted"],
    view_of: Callable[[ToolCall], CallView],
    started_call: str | None = None,
) -> tuple[Event, ...]:
    """Return the events that make this context valid; empty if it already is.

    :param reason: why the turn ended, for the model.
    :param view_of: returns what an editor shows for a call.
    :param started_call: ID of the last call that was started; None if unknown. Calls
        run one after another, so at most the first open call has started.
    """
    events: list[Event] = []
    partial = context.partial
    if partial is not None:
        parts: list[AssistantPart] = []
        if partial.thinking:
            parts.append(Thinking(partial.thinking))
        if partial.text:
            parts.append(Text(partial.text))
        events.append(
            AssistantAnswered(
                AssistantMessage(
                    partial.message_id, tuple(parts), context.model, reason
                )
            )
        )
    for number, call in enumerate(context.open_calls):
        may_have_run = number == 0 and started_call in (None, call.id)
        result = ToolResult(
            call.id,
            (Text((_RESULTS if may_have_run else _NOT_RUN)[reason]),),
            is_error=True,
        )
        events.append(ToolReturned(result, view_of(call)))
    return tuple(events)


def leaving_out_refused(context: Context) -> TurnRefused | None:
    """Return the event that removes messages from the context because a provider has
    refused them twice.

    The request before the refused one was answered, so the newest step (an answer and
    the results of its tool calls) is the most likely cause. If that step has already
    been removed, the event removes the rest of the turn.

    :returns: None if no turn ended with a refusal, or if the provider has answered
        since.
    """
    turn = context.refused_turn
    if turn is None or turn.is_answered:
        return None
    inside = _inside(context, turn)
    answers = [
        entry.seq for entry in inside if isinstance(entry.message, AssistantMessage)
    ]
    if answers and not turn.is_shortened:
        return TurnRefused(answers[-1], turn.before_seq)
    return TurnRefused(inside[0].seq, turn.before_seq) if inside else None


def leaving_out_repeated(
    context: Context, *, again: bool = False
) -> tuple[TurnRefused, ...]:
    """Return the events that remove the newest step of the open turn at its first
    refusal, because an earlier step was removed for the same reason.

    The newest step is removed if it repeats a call of the removed step, or if the model
    has answered only with tool calls since that removal. In both cases, waiting for a
    second refusal would only make another prompt fail.

    The rest of the earlier turn may lead the model to request the same call again. It
    is removed too if the newest step repeats a call, if that step is the first one
    since the removal, or if the open turn has already lost a step.

    :param again: whether the open turn has already lost a step.
    :returns: the events, first the one that removes the newest step; empty if the
        newest step meets neither condition.
    """
    if context.turn_from is None or context.open_calls:
        return ()
    steps = [
        (number, entry.seq, entry.message)
        for number, entry in enumerate(context.entries)
        if entry.seq >= context.turn_from
        and isinstance(entry.message, AssistantMessage)
    ]
    if not steps or not steps[-1][2].tool_calls:
        return ()
    number, seq, newest = steps[-1]
    turn = context.refused_turn
    is_repeated = any(
        call_digest(call) in context.refused_calls for call in newest.tool_calls
    )
    if not is_repeated and (turn is None or not turn.is_answered):
        return ()
    later = (
        entry.seq
        for entry in context.entries[number + 1 :]
        if not isinstance(entry.message, ToolResult)
    )
    events = [TurnRefused(seq, next(later, context.head + 1))]
    is_first = not any(context.revision < other < seq for _, other, _ in steps)
    inside = [] if turn is None else _inside(context, turn)
    if turn is not None and inside and (is_repeated or is_first or again):
        events.append(TurnRefused(inside[0].seq, turn.before_seq))
    return tuple(events)


def _inside(context: Context, turn: RefusedTurn) -> list[Entry]:
    """Return the entries of a turn that are still in the context."""
    # Leave a summary out of the result, since it also covers earlier turns.
    begin = max(turn.from_seq, *context.swaps[-1:], 0)
    return [
        entry
        for entry in context.entries
        if begin <= entry.seq < turn.before_seq and not entry.summary
    ]
