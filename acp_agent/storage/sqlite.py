"""`SessionStore` on one SQLite file, which several processes may share.

Owns the tables' reading and writing. One connection, used by one worker thread at a time, so that neither a slow disk
nor another process's lock stops the event loop. What stands in an event is the codec's matter.
"""

from __future__ import annotations

import json
import sqlite3
import threading
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

import anyio
from anyio import to_thread

from acp_agent.conversation.codec import decode, encode
from acp_agent.conversation.context import Context
from acp_agent.conversation.events import ContextSwapped, Event, LoggedEvent, TitleChanged, TurnRefused
from acp_agent.errors import InvalidParamsError, SessionConflictError, SessionNotFoundError, StorageError
from acp_agent.storage.database import open_database, storage_errors, transaction
from acp_agent.storage.store import SessionPage, SessionRecord

P = ParamSpec("P")
T = TypeVar("T")

_BATCH_EVENTS = 500
_BATCH_CHARACTERS = 4 << 20
_LARGEST_INTEGER = (1 << 63) - 1

_RECORD = "session_id, cwd, additional_directories, title, created_at, updated_at, head"
_INSERT_SESSION = """
    INSERT INTO sessions (session_id, cwd, additional_directories, title, created_at, updated_at, head, context_from)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (session_id) DO NOTHING RETURNING id
"""
_INSERT_EVENT = "INSERT INTO events (session, seq, at, kind, data) VALUES (?, ?, ?, ?, ?)"
_ADVANCE = """
    UPDATE sessions
    SET head = ?, updated_at = ?, title = coalesce(?, title), context_from = coalesce(?, context_from)
    WHERE session_id = ? AND head = ? AND deleted_at IS NULL
    RETURNING id
"""
_LAST_SWAP = """
    SELECT events.seq, events.data FROM events JOIN sessions ON sessions.id = events.session
    WHERE sessions.session_id = ? AND events.kind = 'context_swapped' AND events.seq < ?
    ORDER BY events.seq DESC LIMIT 1
"""
_FIND = "SELECT id, head, context_from FROM sessions WHERE session_id = ? AND deleted_at IS NULL"
_READ_EVENTS = "SELECT seq, at, kind, data FROM events WHERE session = ? AND seq BETWEEN ? AND ? ORDER BY seq"
_LIST = f"""
    SELECT {_RECORD} FROM sessions
    WHERE deleted_at IS NULL AND (?1 IS NULL OR cwd = ?1)
        AND (updated_at < ?2 OR (updated_at = ?2 AND session_id > ?3))
    ORDER BY updated_at DESC, session_id LIMIT ?4
"""
_BURY = """
    UPDATE sessions SET deleted_at = ?, cwd = '', additional_directories = '[]', title = NULL
    WHERE session_id = ? AND deleted_at IS NULL RETURNING id
"""


class SqliteStore:
    """Sessions in an SQLite database; see `SessionStore` for what its methods promise."""

    def __init__(self, path: Path, connection: sqlite3.Connection, limiter: anyio.CapacityLimiter) -> None:
        self._path = path
        self._connection: sqlite3.Connection | None = connection
        self._limiter = limiter
        # The limiter makes tasks wait without a thread; the lock holds where a task that was cancelled past anyio
        # (`asyncio.Task.cancel`) has left its thread at work.
        self._lock = threading.Lock()

    @classmethod
    async def open(cls, path: Path) -> SqliteStore:
        """Open a database, or make it.

        :param path: absolute path of the file; its folder is made, and becomes private.
        :raises ConfigError: the folder cannot be used.
        :raises StorageError: the file cannot be used; it was left as it is.
        """
        limiter = anyio.CapacityLimiter(1)
        return cls(path, await to_thread.run_sync(open_database, path, limiter=limiter), limiter)

    async def create(
        self, session_id: str, cwd: str, additional_directories: Sequence[str], events: Sequence[Event]
    ) -> tuple[LoggedEvent, ...]:
        """Make a session whose log begins with these events.

        :raises StorageError: the id is taken, or was deleted.
        """
        return await self._run(_create, session_id, cwd, tuple(additional_directories), tuple(events))

    async def append(self, session_id: str, expected: int, events: Sequence[Event]) -> tuple[LoggedEvent, ...]:
        """Add events to the end of a log, if its head is still `expected`.

        :raises SessionConflictError: the head is another one.
        :raises SessionNotFoundError: no such session, or it was deleted.
        """
        return await self._run(_append, session_id, expected, tuple(events))

    async def record(self, session_id: str) -> SessionRecord:
        """What is known of one session.

        :raises SessionNotFoundError: no such session.
        """
        return await self._run(_read_record, session_id)

    async def context(self, session_id: str) -> Context:
        """The context folded from the log, read from the tail of the last compaction on.

        :raises SessionNotFoundError: no such session.
        """
        return await self._run(_read_context, session_id)

    async def events(self, session_id: str, after: int = 0) -> AsyncIterator[LoggedEvent]:
        """The log in order, from behind `after` up to the head that it has when this is called.

        :raises SessionNotFoundError: no such session, or it was deleted while this read it.
        """
        head, batch = await self._run(_read_batch, session_id, after, None)
        while batch:
            for logged in batch:
                yield logged
            _, batch = await self._run(_read_batch, session_id, batch[-1].seq, head)

    async def list(self, cwd: str | None = None, cursor: str | None = None, limit: int = 50) -> SessionPage:
        """Sessions, newest first, of one directory where `cwd` is given.

        :param limit: 1 or more.
        :raises InvalidParamsError: the cursor is not one of ours.
        """
        place = (_LARGEST_INTEGER, "") if cursor is None else _place(cursor)
        records = await self._run(_read_list, cwd, place, limit + 1)
        shown = records[:limit]
        return SessionPage(shown, _cursor(shown[-1]) if len(records) > limit else None)

    async def delete(self, session_id: str) -> None:
        """Remove a session and its log for good; an unknown one is no error. A later append cannot revive it."""
        await self._run(_delete, session_id)

    async def aclose(self) -> None:
        """Close the store; safe to call twice."""
        with anyio.CancelScope(shield=True):
            await to_thread.run_sync(self._close, limiter=self._limiter)

    def _close(self) -> None:
        with self._lock, storage_errors(self._path):
            if self._connection is not None:
                self._connection.close()
            self._connection = None

    async def _run(self, work: Callable[Concatenate[sqlite3.Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        def locked() -> T:
            with self._lock, storage_errors(self._path):
                if self._connection is None:
                    raise StorageError(f"The session store {self._path} was closed. Start acp-agent again.")
                return work(self._connection, *args, **kwargs)

        return await to_thread.run_sync(locked, limiter=self._limiter)


def _create(
    connection: sqlite3.Connection,
    session_id: str,
    cwd: str,
    additional_directories: tuple[str, ...],
    events: tuple[Event, ...],
) -> tuple[LoggedEvent, ...]:
    logged, rows = _numbered(0, events)
    now = _now()
    directories = json.dumps([_storable(directory) for directory in additional_directories], ensure_ascii=False)
    title, context_from = _derived(logged)
    with transaction(connection):
        values = (_storable(session_id), _storable(cwd), directories, title, now, now, len(logged), context_from or 1)
        made = connection.execute(_INSERT_SESSION, values).fetchone()
        if made is None:
            raise StorageError(f"The session id {session_id!r} is taken, or was, by a session that is now deleted.")
        connection.executemany(_INSERT_EVENT, ((made[0], *row) for row in rows))
    return logged


def _append(
    connection: sqlite3.Connection, session_id: str, expected: int, events: tuple[Event, ...]
) -> tuple[LoggedEvent, ...]:
    # Encoded before the lock is taken, which other processes wait for.
    logged, rows = _numbered(expected, events)
    head = expected + len(logged)
    title, context_from = _derived(logged)
    with transaction(connection):
        if any(isinstance(entry.event, TurnRefused) for entry in logged) and context_from is None:
            context_from = _before_refusal(connection, session_id, logged)
        values = (head, _now(), title, context_from, _storable(session_id), expected)
        session = connection.execute(_ADVANCE, values).fetchone()
        if session is None:
            _, head, _ = _find(connection, session_id)
            raise SessionConflictError(
                f"Session {session_id!r} went on elsewhere: its log ends at entry {head}, not at {expected}. "
                "Load the session again and repeat what you asked for. Nothing was written."
            )
        connection.executemany(_INSERT_EVENT, ((session[0], *row) for row in rows))
    return logged


def _before_refusal(connection: sqlite3.Connection, session_id: str, logged: tuple[LoggedEvent, ...]) -> int:
    """Where a context begins that has to go back behind a refused turn, and so behind compactions within it."""
    from_seq = min(entry.event.from_seq for entry in logged if isinstance(entry.event, TurnRefused))
    row = connection.execute(_LAST_SWAP, (_storable(session_id), from_seq)).fetchone()
    if row is None:
        return 1
    seq, data = row
    swap = decode("context_swapped", data)
    return min(swap.keep_from, seq) if isinstance(swap, ContextSwapped) else 1


def _delete(connection: sqlite3.Connection, session_id: str) -> None:
    with transaction(connection):
        buried = connection.execute(_BURY, (_now(), _storable(session_id))).fetchone()
        if buried is None:
            return
        connection.execute("DELETE FROM events WHERE session = ?", buried)
    # What was deleted is overwritten in the file (`secure_delete`), but would stay in the write-ahead log.
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _read_record(connection: sqlite3.Connection, session_id: str) -> SessionRecord:
    query = f"SELECT {_RECORD} FROM sessions WHERE session_id = ? AND deleted_at IS NULL"
    row = connection.execute(query, (_storable(session_id),)).fetchone()
    if row is None:
        raise SessionNotFoundError(session_id)
    return _record(row)


def _read_context(connection: sqlite3.Connection, session_id: str) -> Context:
    with transaction(connection, "DEFERRED"):
        session, head, context_from = _find(connection, session_id)
        return Context.from_log(_read_events(connection, session, context_from, head))


def _read_batch(
    connection: sqlite3.Connection, session_id: str, after: int, upto: int | None
) -> tuple[int, tuple[LoggedEvent, ...]]:
    with transaction(connection, "DEFERRED"):
        session, head, _ = _find(connection, session_id)
        upto = head if upto is None else upto
        last = min(upto, after + _BATCH_EVENTS)
        return upto, tuple(_read_events(connection, session, after + 1, last, _BATCH_CHARACTERS))


def _read_events(
    connection: sqlite3.Connection, session: int, first: int, last: int, characters: int | None = None
) -> Iterator[LoggedEvent]:
    size = 0
    with closing(connection.execute(_READ_EVENTS, (session, first, last))) as rows:
        for seq, at, kind, data in rows:
            yield LoggedEvent(seq, at, decode(kind, data))
            size += len(data)
            if characters is not None and size >= characters:
                return


def _read_list(
    connection: sqlite3.Connection, cwd: str | None, place: tuple[int, str], limit: int
) -> tuple[SessionRecord, ...]:
    cwd = None if cwd is None else _storable(cwd)
    return tuple(_record(row) for row in connection.execute(_LIST, (cwd, *place, limit)))


def _find(connection: sqlite3.Connection, session_id: str) -> tuple[int, int, int]:
    found: tuple[int, int, int] | None = connection.execute(_FIND, (_storable(session_id),)).fetchone()
    if found is None:
        raise SessionNotFoundError(session_id)
    return found


def _numbered(
    head: int, events: tuple[Event, ...]
) -> tuple[tuple[LoggedEvent, ...], tuple[tuple[int, int, str, str], ...]]:
    """The events in their places, as a later reader will find them, and their rows."""
    now = _now()
    logged: list[LoggedEvent] = []
    rows: list[tuple[int, int, str, str]] = []
    for seq, event in enumerate(events, head + 1):
        data = encode(event)
        # This character may stand for something that the codec could not store.
        logged.append(LoggedEvent(seq, now, decode(event.kind, data) if "\ufffd" in data else event))
        rows.append((seq, now, event.kind, data))
    return tuple(logged), tuple(rows)


def _derived(logged: tuple[LoggedEvent, ...]) -> tuple[str | None, int | None]:
    """The title that these events give the session, and where its context begins after them; None for as it was."""
    title, context_from = None, None
    for entry in logged:
        if isinstance(entry.event, TitleChanged):
            title = _storable(entry.event.title)
        elif isinstance(entry.event, ContextSwapped):
            context_from = min(entry.event.keep_from, entry.seq)
    return title, context_from


def _record(row: tuple[str, str, str, str | None, int, int, int]) -> SessionRecord:
    session_id, cwd, directories, title, created_at, updated_at, head = row
    return SessionRecord(session_id, cwd, tuple(json.loads(directories)), title, created_at, updated_at, head)


def _cursor(last: SessionRecord) -> str:
    return urlsafe_b64encode(json.dumps([last.updated_at, last.session_id]).encode()).decode()


def _place(cursor: str) -> tuple[int, str]:
    try:
        updated_at, session_id = json.loads(urlsafe_b64decode(cursor))
    except (TypeError, ValueError, RecursionError):
        updated_at, session_id = None, None
    if type(updated_at) is not int or not 0 <= updated_at <= _LARGEST_INTEGER or not isinstance(session_id, str):
        raise InvalidParamsError(
            "The cursor is not one that an earlier page of the list gave. Ask for the list without a cursor."
        )
    return updated_at, _storable(session_id)


def _storable(text: str) -> str:
    """The text without lone surrogates, which no database takes; see `codec.encode`."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _now() -> int:
    return time.time_ns() // 1_000_000
