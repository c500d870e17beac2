"""`replay`: converts a log's events back into the updates that the user saw, in order.

A partial answer is shown only if no complete message followed it, so that it was on the
screen when the agent was killed. A compaction is shown once, as completed, at its place
in the log. A failed compaction changed nothing and is not shown. Neither the text of a
recipe nor the frame around a summary is shown.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping

from acp_agent.conversation.closing import was_cancelled
from acp_agent.conversation.events import (
    AssistantAnswered,
    CallView,
    ContextSwapped,
    LoggedEvent,
    NoteAdded,
    PartialAnswer,
    PlanChanged,
    ToolReturned,
    TurnEnded,
    UserPrompted,
)
from acp_agent.conversation.messages import AssistantMessage, Text, Thinking, ToolCall
from acp_agent.conversation.updates import (
    AgentSaid,
    AgentThought,
    CallFinished,
    CallStatus,
    PlanUpdated,
    Update,
    UserSaid,
)
from acp_agent.session.compact.report import finished

_NO_RESULT = (Text("The agent was interrupted before this call finished."),)


async def replay(
    events: AsyncIterator[LoggedEvent], view_of: Callable[[ToolCall], CallView]
) -> AsyncIterator[Update]:
    """Yield updates for everything that the user saw in a session.

    :param events: the whole log from its beginning.
    :param view_of: returns what an editor shows for a call without a result.
    """
    partial: PartialAnswer | None = None
    calls: dict[str, ToolCall] = {}  # without a result
    async for logged in events:
        event = logged.event
        match event:
            case UserPrompted() | TurnEnded():
                for update in _unsettled(partial, calls, view_of):
                    yield update
                partial = None
                calls = {}
                if isinstance(event, UserPrompted):
                    for part in event.shown:
                        yield UserSaid(event.message_id, part)
            case PartialAnswer():
                partial = event.after(partial)
            case AssistantAnswered():
                partial = None
                calls |= {call.id: call for call in event.message.tool_calls}
                for update in _answer(event.message):
                    yield update
            case ToolReturned(result=result) if call := calls.pop(result.call_id, None):
                status: CallStatus = "failed" if result.is_error else "completed"
                if was_cancelled(result):
                    status = "cancelled"
                yield CallFinished(
                    call.id,
                    call.name,
                    event.view,
                    call.arguments,
                    status,
                    result.parts,
                    replayed=True,
                )
            case NoteAdded():
                yield AgentSaid(event.message_id, event.text)
            case PlanChanged():
                yield PlanUpdated(event.entries)
            case ContextSwapped():
                yield finished(event, replayed=True)
            case _:
                pass
    for update in _unsettled(partial, calls, view_of):
        yield update


def _unsettled(
    partial: PartialAnswer | None,
    calls: Mapping[str, ToolCall],
    view_of: Callable[[ToolCall], CallView],
) -> Iterator[Update]:
    """Yield a turn's partial answer and its calls without a result."""
    if partial is not None:
        if partial.thinking:
            yield AgentThought(partial.message_id, partial.thinking)
        if partial.text:
            yield AgentSaid(partial.message_id, partial.text)
    for call in calls.values():
        yield CallFinished(
            call.id,
            call.name,
            view_of(call),
            call.arguments,
            "failed",
            _NO_RESULT,
            replayed=True,
        )


def _answer(message: AssistantMessage) -> Iterator[Update]:
    for part in message.parts:
        if isinstance(part, Text):
            yield AgentSaid(message.id, part.text)
        elif isinstance(part, Thinking) and part.text:
            yield AgentThought(message.id, part.text)
