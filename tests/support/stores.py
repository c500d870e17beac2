"""Session stores for the tests of storage: each there is, opened afresh, written to and read whole.

Another store joins by its name and a way to open it in `STORES`. Knows no test.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeAlias

from acp_agent.conversation.events import Event, LoggedEvent, NoteAdded, SessionStarted
from acp_agent.storage.sqlite import SqliteStore
from acp_agent.storage.store import SessionStore

Open: TypeAlias = Callable[[], Awaitable[SessionStore]]
STORES: dict[str, Callable[[Path], Awaitable[SessionStore]]] = {
    "sqlite": lambda folder: SqliteStore.open(folder / "sessions.db"),
    "sqlite without FTS5": lambda folder: SqliteStore.open(folder / "sessions.db", full_text=False),
}
START = SessionStarted("/shop")


@asynccontextmanager
async def opened(open_store: Open) -> AsyncIterator[SessionStore]:
    """A store that is closed at the end."""
    store = await open_store()
    try:
        yield store
    finally:
        await store.aclose()


async def read(store: SessionStore, session_id: str, after: int = 0) -> list[LoggedEvent]:
    """A session's log behind a place in it."""
    return [entry async for entry in store.events(session_id, after)]


def notes(*texts: str) -> list[Event]:
    """Events that say these texts."""
    return [NoteAdded("msg_1", text) for text in texts]
