"""The events that close an unfinished turn, so that the log is legal again.

They are appended when a turn is cancelled or fails, and before the first prompt after the agent was killed in mid-turn:
the part of an answer that was shown becomes a message, and every call without a result gets one.
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
"""Beginning of the result of a command that the user stopped while the turn went on."""


def was_cancelled(result: ToolResult) -> bool:
    """Return whether a call has this result because the user cancelled it, with its turn or alone."""
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
    """Return the events that make this context legal; empty where it is.

    :param reason: why the turn ended, for the model to read.
    :param view_of: returns what an editor shows of a call.
    :param begun: id of the call that was started last; None if that is not known. Calls run one after another, so at
        most the first open one has started.
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
