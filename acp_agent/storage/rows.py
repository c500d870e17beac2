"""The store's queries: the paged list of sessions, and the events of a session.

The functions that read events expect the caller to hold a transaction.
"""

from __future__ import annotations

import json
import os
import sqlite3
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Collection, Iterable, Iterator
from contextlib import closing
from typing import Literal, TypeAlias

from acp_agent.conversation.attachments import restore_texts
from acp_agent.conversation.codec import decode
from acp_agent.conversation.events import (
    ContextSwapped,
    Event,
    LoggedEvent,
    TurnRefused,
)
from acp_agent.errors import InvalidParamsError, SessionNotFoundError
from acp_agent.frozen import frozen

ArchiveFilter: TypeAlias = Literal["exclude", "include", "only"]
"""Whether a list leaves out archived sessions, includes them, or lists only them."""

_LARGEST_INTEGER = (1 << 63) - 1

_RECORD = "session_id, cwd, additional_directories, title, created_at, updated_at, head, archived_at"
_LIST = f"""
    SELECT {_RECORD} FROM sessions
    WHERE deleted_at IS NULL {{where}}
        AND updated_at <= :time AND (updated_at < :time OR session_id > :id)
    ORDER BY updated_at DESC, session_id LIMIT :limit
"""
_ARCHIVED: dict[ArchiveFilter, str] = {
    "exclude": "AND archived_at IS NULL",
    "include": "",
    "only": "AND archived_at IS NOT NULL",
}

_DIRECTORIES = "SELECT DISTINCT cwd FROM sessions WHERE deleted_at IS NULL"

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
    """Return a session's number, its head, and the sequence number at which the fold of
    its context begins.

    :raises SessionNotFoundError: if there is no such session.
    """
    found: tuple[int, int, int] | None = connection.execute(
        _FIND, (storable(session_id),)
    ).fetchone()
    if found is None:
        raise SessionNotFoundError(session_id)
    return found


def read_events(
    connection: sqlite3.Connection,
    session: int,
    first: int,
    last: int,
    characters: int | None = None,
) -> Iterator[LoggedEvent]:
    """Yield the entries of a log in order.

    :param last: the sequence number of the last entry to read.
    :param characters: stop after the entry with which the total length reaches this
        number.
    """
    size = 0
    with closing(connection.execute(_READ_EVENTS, (session, first, last))) as rows:
        for seq, at, kind, data in rows:
            event, length = load(connection, seq, kind, data)
            yield LoggedEvent(seq, at, event)
            size += length
            if characters is not None and size >= characters:
                return


def read_some(
    connection: sqlite3.Connection, session: int, seqs: Iterable[int]
) -> Iterator[LoggedEvent]:
    """Yield the entries with these sequence numbers, all of which must exist."""
    for wanted in seqs:
        for seq, at, kind, data in connection.execute(
            _READ_EVENT, (session, wanted)
        ).fetchall():
            yield LoggedEvent(seq, at, load(connection, seq, kind, data)[0])


def read_stored(connection: sqlite3.Connection, session: int, seq: int) -> str | None:
    """Return an entry's JSON in lower case, to search it without decoding it.

    :returns: None if the JSON may lack some letters or digits of the entry's texts,
        because a text is stored separately or contains non-ASCII characters.
    """
    for *_, data in connection.execute(_READ_EVENT, (session, seq)).fetchall():
        if data.isascii() and "\\u" not in data and _REFERENCE not in data:
            return data.lower()
    return None


def load(
    connection: sqlite3.Connection, seq: int, kind: str, data: str
) -> tuple[Event, int]:
    """Decode an event, and restore its separately stored texts.

    :returns: the event, and the number of characters that were read.
    """
    event = decode(kind, data, seq)
    size = len(data)
    if _REFERENCE not in data:
        return event, size

    def text(digest: str) -> bytes | None:
        nonlocal size
        row: tuple[bytes] | None = connection.execute(_READ_TEXT, (digest,)).fetchone()
        size += len(row[0]) if row else 0
        return row[0] if row else None

    return restore_texts(event, text), size


def fold_from(connection: sqlite3.Connection, session: int, seq: int) -> int:
    """Return the sequence number at which to start folding the context as of entry
    `seq`.

    If a prompt was refused, the fold starts where it did before that prompt, since
    compactions in the prompt's turn are no longer in effect. Compactions in an earlier
    turn that was removed from the context remain in effect. The search goes backwards,
    through entries that the fold reads anyway.
    """
    while True:
        row = connection.execute(_LAST_CHANGE, (session, seq)).fetchone()
        if row is None:
            return 1
        at, kind, data = row
        match decode(kind, data, at):
            case TurnRefused(before_seq=0) as refused:
                seq = min(refused.from_seq, at) - 1
            case TurnRefused():
                seq = at - 1
            case (
                ContextSwapped() as swap
            ):  # the swap carries everything before its tail
                return swap.fold_from or min(swap.keep_from, at)
            case _:  # a restored context is stored in full
                return at


def storable(text: str) -> str:
    """Return the text with lone surrogates replaced, since SQLite cannot store them;
    see `codec.encode`.
    """
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


@frozen
class SessionRecord:
    """A session's entry in a list. Times are milliseconds since the epoch."""

    session_id: str
    cwd: str
    additional_directories: tuple[str, ...]
    title: str | None
    created_at: int
    updated_at: int
    head: int
    archived: bool = False


@frozen
class SessionPage:
    """A page of the list, newest first, and the cursor for the next page."""

    sessions: tuple[SessionRecord, ...]
    next_cursor: str | None


def read_record(connection: sqlite3.Connection, session_id: str) -> SessionRecord:
    """Return the record of one session.

    :raises SessionNotFoundError: if there is no such session.
    """
    query = (
        f"SELECT {_RECORD} FROM sessions WHERE session_id = ? AND deleted_at IS NULL"
    )
    row = connection.execute(query, (storable(session_id),)).fetchone()
    if row is None:
        raise SessionNotFoundError(session_id)
    return _record(row)


def read_page(
    connection: sqlite3.Connection,
    cwd: str | None,
    cursor: str | None,
    limit: int,
    archived: ArchiveFilter,
    include_unused: Collection[str] | None,
) -> SessionPage:
    """Return a page of the list; see `SessionStore.list`.

    A session whose position does not change is listed exactly once, regardless of other
    changes between two pages.

    :param limit: 1 or more.
    :raises InvalidParamsError: if the cursor is invalid.
    """
    time, session_id = (
        (_LARGEST_INTEGER, "") if cursor is None else _parse_cursor(cursor)
    )
    values: dict[str, str | int | None] = {
        "time": time,
        "id": session_id,
        "limit": limit + 1,
    }
    # The statements with and without `cwd` each use an index that already has the
    # list's order.
    where = _ARCHIVED[archived]
    if cwd is not None:
        directories = {
            f"cwd_{number}": directory
            for number, directory in enumerate(_same_directories(connection, cwd))
        }
        where += f" AND cwd IN ({', '.join(f':{name}' for name in directories)})"
        values |= directories
    if include_unused is not None:
        named = {
            f"unused_{number}": storable(each)
            for number, each in enumerate(include_unused)
        }
        where += f" AND (begun OR archived_at IS NOT NULL OR session_id IN ({', '.join(f':{name}' for name in named)}))"
        values |= named
    query = _LIST.format(where=where)
    records = tuple(_record(row) for row in connection.execute(query, values))
    shown = records[:limit]
    return SessionPage(shown, _cursor(shown[-1]) if len(records) > limit else None)


def read_working_directories(connection: sqlite3.Connection) -> list[str]:
    """Return the distinct working directories of all sessions."""
    return [directory for (directory,) in connection.execute(_DIRECTORIES)]


def _same_directories(connection: sqlite3.Connection, cwd: str) -> list[str]:
    """Return `cwd` and all other paths that sessions use for the same directory."""
    real = _real(cwd)
    given = storable(cwd)
    known = read_working_directories(connection)
    return [
        given,
        *(each for each in known if each != given and _real(each) == real),
    ]


def _real(path: str) -> str:
    try:
        return os.path.realpath(path)
    except ValueError:  # the text is not a valid path
        return path


def _record(
    row: tuple[str, str, str, str | None, int, int, int, int | None],
) -> SessionRecord:
    session_id, cwd, directories, title, created_at, updated_at, head, archived_at = row
    additional = tuple(json.loads(directories))
    return SessionRecord(
        session_id,
        cwd,
        additional,
        title,
        created_at,
        updated_at,
        head,
        archived=archived_at is not None,
    )


def _cursor(last: SessionRecord) -> str:
    """Return the cursor of the page after this session."""
    return urlsafe_b64encode(
        json.dumps([last.updated_at, last.session_id]).encode()
    ).decode()


def _parse_cursor(cursor: str) -> tuple[int, str]:
    """Return the update time and the ID of the last session of the earlier page."""
    try:
        updated_at, session_id = json.loads(urlsafe_b64decode(cursor))
    except (TypeError, ValueError, RecursionError):
        updated_at = None
        session_id = None
    if (
        type(updated_at) is not int
        or not 0 <= updated_at <= _LARGEST_INTEGER
        or not isinstance(session_id, str)
    ):
        raise InvalidParamsError(
            "The cursor does not come from an earlier page of the list. Request the list without a cursor."
        )
    return updated_at, storable(session_id)
