"""Session stores for the tests of storage: opened afresh, written to, searched, and
read whole.
"""

from __future__ import annotations

import _sqlite3
import ctypes
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import TypeAlias

import pytest

from acp_agent.conversation.events import (
    Event,
    LoggedEvent,
    NoteAdded,
    SessionStarted,
    UserPrompted,
)
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


async def read(
    store: SessionStore, session_id: str, after: int = 0
) -> list[LoggedEvent]:
    return [entry async for entry in store.events(session_id, after)]


async def seqs(
    store: SessionStore, query: str, session_id: str = "s1", limit: int = 50
) -> list[int]:
    return [found.seq for found in await store.search(session_id, query, limit=limit)]


def notes(*texts: str) -> list[Event]:
    return [NoteAdded("msg_1", text) for text in texts]


def said(text: str) -> Event:
    return UserPrompted("msg", (Text(text),))


@contextmanager
def sqlite_without_fts5() -> Iterator[None]:
    """Open every connection without FTS5, as if SQLite had been built without it.

    SQLite itself removes the module (https://sqlite.org/c3ref/drop_modules.html). The
    test is skipped if Python hides SQLite's functions.
    """
    library = ctypes.CDLL(_sqlite3.__file__)
    try:
        drop, register, cancel = (
            getattr(library, f"sqlite3_{name}")
            for name in ("drop_modules", "auto_extension", "cancel_auto_extension")
        )
    except AttributeError:
        pytest.skip("this Python's SQLite cannot be asked to drop a module")
    drop.argtypes = [ctypes.c_void_p, ctypes.POINTER(ctypes.c_char_p)]
    kept = (ctypes.c_char_p * 3)(b"json_each", b"json_tree", None)

    @ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
    def open_without(connection: int, *_: int) -> int:
        return drop(connection, kept)

    register(open_without)
    try:
        yield
    finally:
        cancel(open_without)
