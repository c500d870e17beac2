"""What the model does not see any more of a session, for the `recall` tool."""

from __future__ import annotations

from collections.abc import Sequence

from acp_agent.conversation.context import Context
from acp_agent.conversation.events import LoggedEvent
from acp_agent.storage.store import Found, SessionStore


class SessionArchive:
    """One session's log, without what is in its context anyway; see `Archive`."""

    def __init__(self, store: SessionStore, session_id: str, context: Context) -> None:
        self._store = store
        self._session_id = session_id
        self._visible = {entry.seq for entry in context.entries if not entry.shortened}

    async def search(self, query: str, limit: int) -> Sequence[Found]:
        """Messages that hold the words of the query and that the model does not see now, best first."""
        found = await self._store.search(self._session_id, query, limit=limit + len(self._visible))
        return [hit for hit in found if hit.seq not in self._visible][:limit]

    async def read(self, seqs: Sequence[int]) -> Sequence[LoggedEvent]:
        """The entries with these numbers, without those that do not exist."""
        return await self._store.read(self._session_id, seqs)

    async def neighbours(self, seq: int) -> tuple[int | None, int | None]:
        """Numbers of the last message before and the first one behind a number."""
        return await self._store.neighbours(self._session_id, seq)
