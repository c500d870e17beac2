"""The statements that create, fork, extend, archive and delete sessions. Each function
is one transaction.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from acp_agent.conversation.attachments import (
    extract_blobs,
    extract_texts,
    restore_texts,
)
from acp_agent.conversation.codec import decode, encode
from acp_agent.conversation.events import (
    ContextRestored,
    ContextSwapped,
    DirectoriesChanged,
    Event,
    LoggedEvent,
    TitleChanged,
    TurnRefused,
)
from acp_agent.errors import InvalidParamsError, SessionConflictError, StorageError
from acp_agent.storage.database import transaction
from acp_agent.storage.rows import find, fold_from, storable

_Row: TypeAlias = tuple[int, int, str, str]
_INSERT_SESSION = """
    INSERT INTO sessions (session_id, cwd, additional_directories, title, created_at, updated_at, head, context_from)
    VALUES (?, ?, ?, ?, ?, ?, ?, 1) ON CONFLICT (session_id) DO NOTHING RETURNING id
"""
_INSERT_EVENT = (
    "INSERT INTO events (session, seq, at, kind, data) VALUES (?, ?, ?, ?, ?)"
)
_INSERT_BLOB = "INSERT OR IGNORE INTO blobs (sha256, data) VALUES (?, ?)"
_ADVANCE = """
    UPDATE sessions
    SET head = ?, updated_at = ?, title = coalesce(?, title),
        additional_directories = coalesce(?, additional_directories), cwd = coalesce(?, cwd)
    WHERE session_id = ? AND head = ? AND deleted_at IS NULL
    RETURNING id
"""
_SET_FOLD = "UPDATE sessions SET context_from = ? WHERE id = ?"
_COPY_EVENTS = """
    INSERT INTO events (session, seq, at, kind, data)
    SELECT ?, seq, at, kind, data FROM events WHERE session = ? AND seq <= ? ORDER BY seq
"""
_LAST_TITLE = """
    SELECT kind, data FROM events WHERE session = ? AND seq <= ? AND kind = 'title_changed' ORDER BY seq DESC LIMIT 1
"""
_ARCHIVE = """
    UPDATE sessions SET archived_at = CASE WHEN ? THEN coalesce(archived_at, ?) END
    WHERE session_id = ? AND deleted_at IS NULL
"""
_MARK_DELETED = """
    UPDATE sessions SET deleted_at = ?, cwd = '', additional_directories = '[]', title = NULL
    WHERE session_id = ? AND deleted_at IS NULL RETURNING id
"""


def create(
    connection: sqlite3.Connection,
    session_id: str,
    cwd: str,
    additional_directories: tuple[str, ...],
    events: tuple[Event, ...],
    copied: tuple[str, int] = ("", 0),
) -> tuple[LoggedEvent, ...]:
    """Create or fork a session; see `SessionStore.create` and `SessionStore.fork`. A
    fork copies entries without decoding them.

    :param copied: the session to copy entries from, and the sequence number of the last
        entry to copy. The default copies nothing.
    :raises StorageError: if the id is in use or belonged to a deleted session.
    """
    source, at = copied
    logged, rows, blobs = _numbered(at, events)
    last = at + len(logged)
    moment = _now()
    titled = logged
    with transaction(connection):
        number = 0
        if source:
            number, head, _ = find(connection, source)
            if not 1 <= at <= head:
                raise InvalidParamsError(
                    f"Session {source!r} cannot be forked at entry {at}: its log has entries 1 to {head}."
                )
            if found := connection.execute(_LAST_TITLE, (number, at)).fetchone():
                titled = (LoggedEvent(at, 0, decode(*found)), *logged)
        directories = _stored_directories(additional_directories)
        values = (
            storable(session_id),
            storable(cwd),
            directories,
            _title(titled),
            moment,
            moment,
            last,
        )
        made = connection.execute(_INSERT_SESSION, values).fetchone()
        if made is None:
            raise StorageError(
                f"The session id {session_id!r} is in use or belonged to a session that is now deleted."
            )
        session: int = made[0]
        connection.execute(_COPY_EVENTS, (session, number, at))
        _insert_events(connection, session, rows, blobs)
        connection.execute(_SET_FOLD, (fold_from(connection, session, last), session))
    return logged


def append(
    connection: sqlite3.Connection,
    session_id: str,
    expected: int,
    events: tuple[Event, ...],
) -> tuple[LoggedEvent, ...]:
    """Append events to a log; see `SessionStore.append`."""
    # Encode before taking the lock, since other processes wait for it.
    logged, rows, blobs = _numbered(expected, events)
    head = expected + len(logged)
    with transaction(connection):
        values = (
            head,
            _now(),
            _title(logged),
            *_directories(logged),
            storable(session_id),
            expected,
        )
        session = connection.execute(_ADVANCE, values).fetchone()
        if session is None:
            _, head, _ = find(connection, session_id)
            raise SessionConflictError(
                f"Session {session_id!r} was continued elsewhere: its log ends at entry {head}, not at {expected}. "
                "Reload the session and repeat your request. Nothing was written."
            )
        _insert_events(connection, session[0], rows, blobs)
        if any(
            isinstance(entry.event, ContextSwapped | ContextRestored | TurnRefused)
            for entry in logged
        ):
            connection.execute(
                _SET_FOLD, (fold_from(connection, session[0], head), session[0])
            )
    return logged


def archive(connection: sqlite3.Connection, session_id: str, archived: bool) -> None:
    """Hide a session from the default list, or show it again; see
    `SessionStore.archive`.
    """
    with transaction(connection):
        find(connection, session_id)
        connection.execute(_ARCHIVE, (archived, _now(), storable(session_id)))


def delete(connection: sqlite3.Connection, session_id: str) -> int | None:
    """Delete a session and its log; see `SessionStore.delete`.

    :returns: the session's number; None if there was no such session.
    """
    with transaction(connection):
        # Earlier versions keep an index of the words of searched sessions in this
        # database, and rebuild the index if it is missing.
        connection.execute("DROP TABLE IF EXISTS message_index")
        connection.execute("UPDATE sessions SET indexed = 0 WHERE indexed > 0")
        deleted = connection.execute(
            _MARK_DELETED, (_now(), storable(session_id))
        ).fetchone()
        if deleted is not None:
            connection.execute("DELETE FROM events WHERE session = ?", deleted)
            connection.execute("DELETE FROM blob_uses WHERE session = ?", deleted)
    return None if deleted is None else deleted[0]


def _insert_events(
    connection: sqlite3.Connection,
    session: int,
    rows: Iterable[_Row],
    blobs: Mapping[str, bytes],
) -> None:
    """Insert blobs, and then the events that refer to them. Inserting an event fires a
    trigger that marks its blobs as used.
    """
    connection.executemany(_INSERT_BLOB, blobs.items())
    connection.executemany(_INSERT_EVENT, ((session, *row) for row in rows))


def _numbered(
    head: int, events: tuple[Event, ...]
) -> tuple[tuple[LoggedEvent, ...], tuple[_Row, ...], dict[str, bytes]]:
    """Return the events with their sequence numbers, their rows, and the blobs that
    they refer to.

    The events are returned as a later reader will load them.
    """
    moment = _now()
    logged: list[LoggedEvent] = []
    rows: list[_Row] = []
    blobs: dict[str, bytes] = {}
    for seq, whole in enumerate(events, head + 1):
        event = extract_blobs(whole, blobs)
        data = encode(extract_texts(event, blobs))
        # `encode` writes U+FFFD in place of characters that cannot be stored.
        stored = (
            restore_texts(decode(event.kind, data), blobs.get)
            if "\ufffd" in data
            else event
        )
        logged.append(LoggedEvent(seq, moment, stored))
        rows.append((seq, moment, event.kind, data))
    return tuple(logged), tuple(rows), blobs


def _title(logged: tuple[LoggedEvent, ...]) -> str | None:
    """Return the title that these events give the session; None if they do not change
    it.
    """
    titles = [
        entry.event.title for entry in logged if isinstance(entry.event, TitleChanged)
    ]
    return storable(titles[-1]) if titles else None


def _directories(logged: tuple[LoggedEvent, ...]) -> tuple[str | None, str | None]:
    """Return the additional directories and the working directory set by these events;
    None for a value that they do not change.
    """
    changes = [
        entry.event for entry in logged if isinstance(entry.event, DirectoriesChanged)
    ]
    moves = [storable(change.cwd) for change in changes if change.cwd]
    more = _stored_directories(changes[-1].additional_directories) if changes else None
    return more, moves[-1] if moves else None


def _stored_directories(directories: Sequence[str]) -> str:
    return json.dumps(
        [storable(directory) for directory in directories], ensure_ascii=False
    )


def _now() -> int:
    return time.time_ns() // 1_000_000
