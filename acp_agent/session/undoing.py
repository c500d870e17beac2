"""Undo a compaction: the context is again what it was before it, with what has been said since."""

from __future__ import annotations

from dataclasses import replace

from acp_agent.compaction.estimate import estimate_messages, used_tokens
from acp_agent.conversation.context import Context
from acp_agent.conversation.events import (
    ContextRestored,
    ContextSwapped,
    Event,
    FileVersion,
    LoggedEvent,
    RestoredEntry,
)
from acp_agent.errors import CompactionError
from acp_agent.session.log import SessionLog
from acp_agent.session.replacing import REPLACE
from acp_agent.storage.store import SessionStore


async def undo(store: SessionStore, session_id: str, log: SessionLog, prefix_tokens: int) -> ContextRestored:
    """Undo the newest compaction that is in force.

    :param prefix_tokens: estimate of what stands before the messages.
    :raises CompactionError: there is none.
    """
    if not log.context.swaps:
        raise CompactionError("There is no compaction to undo. Nothing was changed.")
    undone = log.context.swaps[-1]
    [swap] = await store.read(session_id, [undone])
    event = swap.event
    replaced = isinstance(event, ContextSwapped) and event.strategy == REPLACE
    # What a hook supplied stands right before its swap.
    last = event.keep_from - 1 if isinstance(event, ContextSwapped) and replaced else undone - 1
    before = await store.context_at(session_id, last)
    restored: list[ContextRestored] = []

    def build(context: Context) -> tuple[Event, ...]:
        if not context.swaps or context.swaps[-1] != undone:
            raise CompactionError("The session changed meanwhile. Nothing was undone; try again.")
        restored.append(_restored_context(context, before, swap, prefix_tokens))
        return (restored[-1],)

    await log.append_built(build)
    return restored[-1]


def _restored_context(context: Context, before: Context, swap: LoggedEvent, prefix_tokens: int) -> ContextRestored:
    """Return the event that undoes a swap.

    :param context: as it is now.
    :param before: as it was right before the swap.
    """
    since = tuple(entry for entry in context.entries if entry.seq > swap.seq and not entry.summary)
    memory = replace(before.memory, pins=context.memory.pins, next_pin=context.memory.next_pin)
    return ContextRestored(
        compaction_id=swap.event.compaction_id if isinstance(swap.event, ContextSwapped) else "",
        undone=swap.seq,
        entries=tuple(
            RestoredEntry(e.seq, e.message, e.summary, e.note, e.shortened) for e in (*before.entries, *since)
        ),
        carried=replace(context.carried(), memory=memory),
        tokens=used_tokens(before, prefix_tokens) + estimate_messages(entry.message for entry in since),
        files=tuple(FileVersion(path, digest) for path, digest in {**before.files, **context.files}.items()),
        earlier=before.swaps,
    )
