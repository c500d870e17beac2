"""Closing a turn that did not end by itself, so that the log is legal again.

Used when a turn is cancelled or fails, and before the first prompt after the agent was killed in mid-turn: what the
user had already seen of an answer becomes a message, and every call without a result gets one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from acp_agent.conversation.context import Context
from acp_agent.conversation.events import AssistantAnswered, CallView, Event, ToolReturned
from acp_agent.conversation.messages import AssistantMessage, AssistantPart, Text, Thinking, ToolCall, ToolResult

_RESULTS = {
    "cancelled": "The user cancelled this call before it finished. It may have had part of its effect.",
    "interrupted": "The agent was interrupted before this call finished. It may have had part of its effect.",
}
_NOT_RUN = {
    "cancelled": "The user cancelled this call before it ran. It had no effect.",
    "interrupted": "The agent was interrupted before this call ran. It had no effect.",
}


ENDED_BY_USER = "The user ended this command while it ran."
"""How the result of a command begins that the user ended in the middle of a turn, which goes on."""


def was_cancelled(result: ToolResult) -> bool:
    """Whether a call has this result because the user cancelled it, with its turn or alone."""
    if not result.is_error:
        return False
    first = result.parts[0] if result.parts else None
    return result.parts in ((Text(_RESULTS["cancelled"]),), (Text(_NOT_RUN["cancelled"]),)) or (
        isinstance(first, Text) and first.text.startswith(ENDED_BY_USER)
    )


def closing_events(
    context: Context,
    reason: Literal["cancelled", "interrupted"],
    view_of: Callable[[ToolCall], CallView],
    begun: str | None = None,
) -> tuple[Event, ...]:
    """The events that make this context legal; empty where it is.

    :param reason: how the turn came to its end, for the model to read.
    :param view_of: what an editor shows of a call.
    :param begun: the id of the call that began to run last; None where that is not known. Calls run one after another,
        so that no more than the first open one may have.
    """
    events: list[Event] = []
    partial = context.partial
    if partial is not None:
        parts: list[AssistantPart] = []
        if partial.thinking:
            parts.append(Thinking(partial.thinking))
        if partial.text:
            parts.append(Text(partial.text))
        events.append(AssistantAnswered(AssistantMessage(partial.message_id, tuple(parts), context.model, reason)))
    for number, call in enumerate(context.open_calls):
        may_have_run = number == 0 and begun in (None, call.id)
        result = ToolResult(call.id, (Text((_RESULTS if may_have_run else _NOT_RUN)[reason]),), is_error=True)
        events.append(ToolReturned(result, view_of(call)))
    return tuple(events)
