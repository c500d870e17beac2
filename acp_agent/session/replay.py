"""`replay`: a log as the user saw it, every event turned back into updates, in order.

Partial answers show only where no whole message superseded them, which is what was on the screen when the agent was
killed. A compaction shows once, at its place, completed; one that failed changed nothing and is not shown again.
Nothing of a recipe's text or of a framing is shown.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator

from acp_agent.conversation.closing import was_cancelled
from acp_agent.conversation.context import Partial
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


async def replay(events: AsyncIterator[LoggedEvent], view_of: Callable[[ToolCall], CallView]) -> AsyncIterator[Update]:
    """Yield everything that the user saw in a session.

    :param events: the whole log, from its beginning.
    :param view_of: returns what an editor shows of a call that has no result.
    """
    player = _Player(view_of)
    async for logged in events:
        for update in player.play(logged):
            yield update
    for update in player.finish():
        yield update


class _Player:
    """Turns events into updates, and remembers a partial answer and calls without a result."""

    def __init__(self, view_of: Callable[[ToolCall], CallView]) -> None:
        self._view_of = view_of
        self._partial: Partial | None = None
        self._calls: dict[str, ToolCall] = {}

    def play(self, logged: LoggedEvent) -> Iterator[Update]:
        event = logged.event
        match event:
            case UserPrompted():
                yield from self.finish()
                for part in event.shown:
                    yield UserSaid(event.message_id, part)
            case PartialAnswer():
                self._partial = Partial.extended(self._partial, event)
            case AssistantAnswered():
                self._partial = None
                yield from self._answer(event.message)
            case ToolReturned():
                call = self._calls.pop(event.result.call_id, None)
                if call is not None:
                    yield self._call(call, event)
            case TurnEnded():
                yield from self.finish()
            case NoteAdded():
                yield AgentSaid(event.message_id, event.text)
            case PlanChanged():
                yield PlanUpdated(event.entries)
            case ContextSwapped():
                yield finished(event, replayed=True)
            case _:
                pass

    def finish(self) -> Iterator[Update]:
        """Yield what a turn left unsettled, as far as it got."""
        partial, self._partial = self._partial, None
        if partial is not None:
            if partial.thinking:
                yield AgentThought(partial.message_id, partial.thinking)
            if partial.text:
                yield AgentSaid(partial.message_id, partial.text)
        calls, self._calls = self._calls, {}
        for call in calls.values():
            yield CallFinished(
                call.id, call.name, self._view_of(call), call.arguments, "failed", _NO_RESULT, replayed=True
            )

    def _answer(self, message: AssistantMessage) -> Iterator[Update]:
        for part in message.parts:
            match part:
                case Text():
                    yield AgentSaid(message.id, part.text)
                case Thinking():
                    if part.text:
                        yield AgentThought(message.id, part.text)
                case ToolCall():
                    self._calls[part.id] = part

    @staticmethod
    def _call(call: ToolCall, event: ToolReturned) -> CallFinished:
        status: CallStatus = "failed" if event.result.is_error else "completed"
        if was_cancelled(event.result):
            status = "cancelled"
        return CallFinished(call.id, call.name, event.view, call.arguments, status, event.result.parts, replayed=True)
