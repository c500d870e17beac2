"""`OriginalEntries`: the log entries from which excerpts are taken, and their index."""

from __future__ import annotations

from collections.abc import Sequence

import anyio
from anyio import to_thread

from acp_agent.compaction.excerpts.index import ExcerptIndex
from acp_agent.conversation.context import Context
from acp_agent.conversation.events import (
    ContextRestored,
    ContextSwapped,
    LoggedEvent,
    TurnRefused,
)
from acp_agent.conversation.messages import Entry, UserMessage
from acp_agent.conversation.swaps import REPLACE
from acp_agent.session.log import SessionLog


class OriginalEntries:
    """One session's original entries. They are read from the log on first use, and then
    updated.

    :ivar entries: the entries as of the last `index()`, in order.
    """

    def __init__(self, log: SessionLog) -> None:
        self._log = log
        self._lock = anyio.Lock()
        self._head = 0
        self._index = ExcerptIndex()
        self.entries: tuple[Entry, ...] = ()

    async def index(self) -> ExcerptIndex:
        """Return the index of all entries so far."""
        async with self._lock:
            swaps = self._log.context.swaps
            events = await self._events(self._head)
            if any(
                isinstance(each.event, TurnRefused | ContextRestored) for each in events
            ):
                # Some indexed entries are no longer part of the conversation, or others
                # are part of it again.
                self._forget()
                events = await self._events(0)
            if events:
                try:
                    await to_thread.run_sync(self._add, events, swaps)
                except Exception:
                    self._forget()  # some of them may be in the index
                    raise
                self._head = events[-1].seq
            return self._index

    def _forget(self) -> None:
        self._head = 0
        self.entries = ()
        self._index = ExcerptIndex()

    async def _events(self, after: int) -> list[LoggedEvent]:
        if after == self._log.context.head:
            return []
        return [each async for each in self._log.events(after)]

    def _add(self, events: Sequence[LoggedEvent], swaps: Sequence[int]) -> None:
        entries = list(self.entries)
        for logged in events:
            event = logged.event
            if isinstance(event, TurnRefused):
                entries = [entry for entry in entries if not event.removes(entry.seq)]
            elif isinstance(event, ContextSwapped):
                if event.strategy == REPLACE and logged.seq in swaps:
                    kept = (entry for entry in entries if entry.seq >= event.keep_from)
                    entries = [
                        Entry(
                            event.keep_from - 1,
                            UserMessage(event.message_id, event.sent),
                            note=True,
                        ),
                        *kept,
                    ]
            elif not isinstance(event, ContextRestored):
                entries += Context().apply(logged).entries
        known = self.entries
        self.entries = tuple(entries)
        if self.entries[: len(known)] != known:
            self._index = ExcerptIndex()
            known = ()
        for entry in self.entries[len(known) :]:
            self._index.add(entry)
