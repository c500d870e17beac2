"""Reading the list of sessions: one record, or a page of them with the cursor of the next."""

from __future__ import annotations

import json
import sqlite3
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Collection
from typing import Literal, TypeAlias

from acp_agent.errors import InvalidParamsError, SessionNotFoundError
from acp_agent.frozen import frozen
from acp_agent.storage.rows import storable

ArchiveFilter: TypeAlias = Literal["exclude", "include", "only"]
"""What becomes of archived sessions in a list: left out, listed among the others, or all that is listed."""

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


@frozen
class SessionRecord:
    """What a list of sessions shows; times are milliseconds since the epoch."""

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
    """Part of the list, newest first, and the cursor of the next part."""

    sessions: tuple[SessionRecord, ...]
    next_cursor: str | None


def read_record(connection: sqlite3.Connection, session_id: str) -> SessionRecord:
    """Return the record of one session.

    :raises SessionNotFoundError: no such session.
    """
    query = f"SELECT {_RECORD} FROM sessions WHERE session_id = ? AND deleted_at IS NULL"
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
    not_begun: Collection[str] | None,
) -> SessionPage:
    """See `SessionStore.list`.

    :param limit: 1 or more.
    :raises InvalidParamsError: the cursor is not one of ours.
    """
    time, session_id = (_LARGEST_INTEGER, "") if cursor is None else _place(cursor)
    values: dict[str, str | int | None] = {"time": time, "id": session_id, "limit": limit + 1}
    # Two statements, since each has an index that holds its rows in order.
    where = _ARCHIVED[archived]
    if cwd is not None:
        where += " AND cwd = :cwd"
        values["cwd"] = storable(cwd)
    if not_begun is not None:
        named = {f"not_begun_{number}": storable(each) for number, each in enumerate(not_begun)}
        where += f" AND (begun OR archived_at IS NOT NULL OR session_id IN ({', '.join(f':{name}' for name in named)}))"
        values |= named
    query = _LIST.format(where=where)
    records = tuple(_record(row) for row in connection.execute(query, values))
    shown = records[:limit]
    return SessionPage(shown, _cursor(shown[-1]) if len(records) > limit else None)


def _record(row: tuple[str, str, str, str | None, int, int, int, int | None]) -> SessionRecord:
    session_id, cwd, directories, title, created_at, updated_at, head, archived_at = row
    additional = tuple(json.loads(directories))
    return SessionRecord(
        session_id, cwd, additional, title, created_at, updated_at, head, archived=archived_at is not None
    )


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
    return updated_at, storable(session_id)
