"""Queries for events and sessions that the other modules of the store share; the caller holds a transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing

from acp_agent.conversation.attachments import restore_texts
from acp_agent.conversation.codec import decode
from acp_agent.conversation.events import (
    ContextSwapped,
    Event,
    LoggedEvent,
    TurnRefused,
)
from acp_agent.errors import SessionNotFoundError

_FIND = "SELECT id, head, context_from FROM sessions WHERE session_id = ? AND deleted_at IS NULL"
_READ_EVENTS = "SELECT seq, at, kind, data FROM events WHERE session = ? AND seq BETWEEN ? AND ? ORDER BY seq"
_READ_EVENT = "SELECT seq, at, kind, data FROM events WHERE session = ? AND seq = ?"
_LAST_CHANGE = """
    SELECT seq, kind, data FROM events
    WHERE session = ? AND seq <= ? AND kind IN ('context_swapped', 'context_restored', 'turn_refused')
    ORDER BY seq DESC LIMIT 1
"""
_READ_TEXT = "SELECT data FROM blobs WHERE sha256 = ?"
_REFERENCE = '"of_text"'


def find(connection: sqlite3.Connection, session_id: str) -> tuple[int, int, int]:
    """Return a session's number, its head, and where its context begins.

    :raises SessionNotFoundError: no such session.
    """
    found: tuple[int, int, int] | None = connection.execute(_FIND, (storable(session_id),)).fetchone()
    if found is None:
        raise SessionNotFoundError(session_id)
    return found


def read_events(
    connection: sqlite3.Connection, session: int, first: int, last: int, characters: int | None = None
) -> Iterator[LoggedEvent]:
    """Yield entries of a log in order.

    :param last: seq of the last entry to read.
    :param characters: stop behind the entry at which the total length reaches this.
    """
    size = 0
    with closing(connection.execute(_READ_EVENTS, (session, first, last))) as rows:
        for seq, at, kind, data in rows:
            event, length = load(connection, seq, kind, data)
            yield LoggedEvent(seq, at, event)
            size += length
            if characters is not None and size >= characters:
                return


def read_some(connection: sqlite3.Connection, session: int, seqs: Iterable[int]) -> Iterator[LoggedEvent]:
    """Yield the entries at these places, which have to be places of the log."""
    for wanted in seqs:
        for seq, at, kind, data in connection.execute(_READ_EVENT, (session, wanted)).fetchall():
            yield LoggedEvent(seq, at, load(connection, seq, kind, data)[0])


def load(connection: sqlite3.Connection, seq: int, kind: str, data: str) -> tuple[Event, int]:
    """Return an event of a log with its referenced texts restored, and the number of characters read for it."""
    event, size = decode(kind, data, seq), len(data)
    if _REFERENCE not in data:
        return event, size

    def text(digest: str) -> bytes | None:
        nonlocal size
        row: tuple[bytes] | None = connection.execute(_READ_TEXT, (digest,)).fetchone()
        size += len(row[0]) if row else 0
        return row[0] if row else None

    return restore_texts(event, text), size


def fold_from(connection: sqlite3.Connection, session: int, seq: int) -> int:
    """Return the seq at which the fold of the context after entry `seq` begins.

    After a refused turn it is the one from before that turn, since compactions within it no longer count. The search
    goes backwards, through entries that the fold reads anyway.
    """
    while True:
        row = connection.execute(_LAST_CHANGE, (session, seq)).fetchone()
        if row is None:
            return 1
        at, kind, data = row
        match decode(kind, data, at):
            case TurnRefused() as refused:
                seq = min(refused.from_seq, at) - 1
            case ContextSwapped() as swap:  # it carries what was before its tail
                return swap.fold_from or min(swap.keep_from, at)
            case _:  # a restored context holds all of itself
                return at


def storable(text: str) -> str:
    """Return the text without lone surrogates, which no database takes; see `codec.encode`."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
