"""Reading the list of sessions: one record, or a page of them with the cursor of the next."""

from __future__ import annotations

import json
import sqlite3
from base64 import urlsafe_b64decode, urlsafe_b64encode

from acp_agent.errors import InvalidParamsError, SessionNotFoundError
from acp_agent.storage.rows import storable
from acp_agent.storage.store import SessionPage, SessionRecord

_LARGEST_INTEGER = (1 << 63) - 1

_RECORD = "session_id, cwd, additional_directories, title, created_at, updated_at, head"
_LIST = f"""
    SELECT {_RECORD} FROM sessions
    WHERE deleted_at IS NULL AND (?1 IS NULL OR cwd = ?1)
        AND (updated_at < ?2 OR (updated_at = ?2 AND session_id > ?3))
    ORDER BY updated_at DESC, session_id LIMIT ?4
"""


def read_record(connection: sqlite3.Connection, session_id: str) -> SessionRecord:
    """What is known of one session.

    :raises SessionNotFoundError: no such session.
    """
    query = f"SELECT {_RECORD} FROM sessions WHERE session_id = ? AND deleted_at IS NULL"
    row = connection.execute(query, (storable(session_id),)).fetchone()
    if row is None:
        raise SessionNotFoundError(session_id)
    return _record(row)


def read_page(connection: sqlite3.Connection, cwd: str | None, cursor: str | None, limit: int) -> SessionPage:
    """Sessions, newest first, of one directory where `cwd` is given.

    :param limit: 1 or more.
    :raises InvalidParamsError: the cursor is not one of ours.
    """
    place = (_LARGEST_INTEGER, "") if cursor is None else _place(cursor)
    cwd = None if cwd is None else storable(cwd)
    records = tuple(_record(row) for row in connection.execute(_LIST, (cwd, *place, limit + 1)))
    shown = records[:limit]
    return SessionPage(shown, _cursor(shown[-1]) if len(records) > limit else None)


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
    return updated_at, storable(session_id)
