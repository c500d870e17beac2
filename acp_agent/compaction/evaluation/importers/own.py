"""Sessions of this agent, from their log: everything that was said, as if no compaction had ever happened."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from acp_agent.compaction.evaluation.recording import NO_RESULT, Recording
from acp_agent.conversation.context import Context, Entry
from acp_agent.conversation.events import ContextRestored, ContextSwapped, LoggedEvent
from acp_agent.conversation.messages import AssistantMessage, Text, ToolResult

FORM = "acp-agent"


def from_log(events: Iterable[LoggedEvent], name: str) -> Recording:
    """A session of ours as a recording.

    :param events: the whole log.
    """
    kept = (logged for logged in events if not isinstance(logged.event, ContextSwapped | ContextRestored))
    context = Context.from_log(kept)
    entries = tuple(replace(entry, seq=seq) for seq, entry in enumerate(_answered(context.entries), 1))
    return Recording(name, FORM, entries, context.instructions, context.cwd)


def _answered(entries: tuple[Entry, ...]) -> Iterator[Entry]:
    """The entries with a result for each call; a session that was killed lacks some."""
    results = {entry.message.call_id: entry for entry in entries if isinstance(entry.message, ToolResult)}
    for entry in entries:
        message = entry.message
        if isinstance(message, ToolResult):
            continue
        yield entry
        if isinstance(message, AssistantMessage):
            for call in message.tool_calls:
                missing = ToolResult(call.id, (Text(NO_RESULT),), is_error=True)
                yield results.pop(call.id, replace(entry, message=missing))
