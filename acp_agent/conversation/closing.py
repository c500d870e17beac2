"""The events that close an unfinished turn, so that the log is valid again.

They are appended when a turn is cancelled or fails, and before the first prompt after
the agent was killed in the middle of a turn. The part of an answer that was shown
becomes a message, and every call without a result gets a result.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from acp_agent.conversation.context import Context
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
    Text,
    Thinking,
    ToolCall,
    ToolResult,
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
    if turn is None:
        return None
    # A summary stays, since it also covers earlier turns.
    begin = max(turn.from_seq, *context.swaps[-1:], 0)
    inside = [
        entry
        for entry in context.entries
        if begin <= entry.seq < turn.before_seq and not entry.summary
    ]
    answers = [
        entry.seq for entry in inside if isinstance(entry.message, AssistantMessage)
    ]
    if answers and not turn.is_shortened:
        return TurnRefused(answers[-1], turn.before_seq)
    return TurnRefused(inside[0].seq, turn.before_seq) if inside else None
