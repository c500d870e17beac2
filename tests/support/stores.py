"""Session stores for the tests of storage: opened afresh, written to, searched, and read whole."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeAlias

from acp_agent.conversation.events import Event, LoggedEvent, NoteAdded, SessionStarted, UserPrompted
from acp_agent.conversation.messages import Text
from acp_agent.storage.store import SessionStore

Open: TypeAlias = Callable[[], Awaitable[SessionStore]]
START = SessionStarted("/shop")


@asynccontextmanager
async def opened(open_store: Open) -> AsyncIterator[SessionStore]:
    store = await open_store()
    try:
        yield store
    finally:
        await store.aclose()


async def read(store: SessionStore, session_id: str, after: int = 0) -> list[LoggedEvent]:
    return [entry async for entry in store.events(session_id, after)]


async def seqs(store: SessionStore, query: str, session_id: str = "s1", limit: int = 50) -> list[int]:
    return [found.seq for found in await store.search(session_id, query, limit=limit)]


def notes(*texts: str) -> list[Event]:
    return [NoteAdded("msg_1", text) for text in texts]


def said(text: str) -> Event:
    return UserPrompted("msg", (Text(text),))
