"""Full-text search in one session: an index that is built by the first search, and a plain scan.

The index is an FTS5 table without the texts themselves. A session is brought into it by its first search, and behind
its head by each later one, so that appending costs nothing and sessions that are never searched take no room.

- It splits words as `unicode61` does, with `_`, `/` and `.` between them, and looks for a path or an identifier as a
  phrase of its parts: `app/user.py` and `foo_bar` are found whole and by their parts, `E1101` whole. Signs of scripts
  without spaces are words each, so that any run of them is found as a phrase. SQLite's `trigram` would find all parts
  of all words; measured on 10,000 messages (18 MB) its index took 3.4 s and 41 MB, this one 0.3 s and 6 MB, and two
  signs of Chinese are too short for it.
- Words that the index does not hold (a part of `CamelCase`, `->`) are found by the scan, which reads the session's
  whole log and distinguishes accents.
- Removing rows from an index without texts takes the texts as they were indexed, and leaves the words in its segments
  for long. So, with a session that was searched, the whole index goes, and the next search of another makes it again.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable
from contextlib import closing

from acp_agent.conversation.events import AssistantAnswered, LoggedEvent, ToolReturned
from acp_agent.frozen import frozen
from acp_agent.storage.database import transaction
from acp_agent.storage.rows import called, find, load, read_some
from acp_agent.storage.words import (
    RECALL_TOOL,
    SEARCHED_KINDS,
    Role,
    Word,
    holds,
    indexed_form,
    role_of,
    searchable_text,
    snippet,
)

_BATCH_EVENTS = 2000
_BATCH_CHARACTERS = 4 << 20
_SESSION_SHIFT = 32
"""A row's number in the index is the session's, so many bits to the left, and the entry's: searching a session is
searching a range."""

_KINDS = ", ".join(f"'{kind}'" for kind in SEARCHED_KINDS)
_CREATE = """
    CREATE VIRTUAL TABLE IF NOT EXISTS message_index
    USING fts5 (text, content = '', tokenize = 'unicode61 remove_diacritics 2')
"""
_INDEXED = "SELECT indexed FROM sessions WHERE id = ? AND deleted_at IS NULL"
_UNINDEXED = f"""
    SELECT seq, at, kind, data FROM events
    WHERE session = ? AND seq BETWEEN ? AND ? AND kind IN ({_KINDS}) ORDER BY seq
"""
_MATCHES = """
    SELECT rowid FROM message_index WHERE message_index MATCH ? AND rowid BETWEEN ? AND ?
    ORDER BY rank, rowid DESC LIMIT ?
"""
_REFERS = """data LIKE '%"of_text":%true%'"""
"""SQL for: the event has a text that is stored separately (see `extract_texts`)."""
_SCAN = f"""
    SELECT seq, at, kind, data FROM events
    WHERE session = ? AND seq < ? AND kind IN ({_KINDS}) AND (({{conditions}}) OR {_REFERS}) ORDER BY seq DESC
"""


@frozen
class Found:
    """A message that a search found.

    :ivar at: milliseconds since the epoch.
    :ivar tool: name of the tool, for a result.
    :ivar title: what the call was shown as, for a result.
    :ivar snippet: one line of the text, around the words that were looked for.
    """

    seq: int
    at: int
    role: Role
    tool: str
    title: str
    snippet: str


def index_more(connection: sqlite3.Connection, session_id: str) -> None:
    """Bring the index one batch nearer to the session's head.

    :raises SessionNotFoundError: no such session.
    """
    # Read before the lock is taken, which other processes wait for.
    with transaction(connection, "DEFERRED"):
        session, head, _ = find(connection, session_id)
        (before,) = connection.execute(_INDEXED, (session,)).fetchone()
        texts, after = _unindexed(connection, session, before, min(head, before + _BATCH_EVENTS))
    with transaction(connection):
        # Another process may have indexed the same, or deleted this or another session.
        if connection.execute(_INDEXED, (session,)).fetchone() != (before,):
            return
        connection.execute(_CREATE)
        connection.executemany("INSERT INTO message_index (rowid, text) VALUES (?, ?)", texts)
        connection.execute("UPDATE sessions SET indexed = ? WHERE id = ?", (after, session))


def search(
    connection: sqlite3.Connection,
    session_id: str,
    words: tuple[Word, ...],
    limit: int,
    before: int | None,
) -> tuple[Found, ...] | None:
    """Return what the index finds or, if that is nothing, the scan; None while the index lags behind the log.

    :raises SessionNotFoundError: no such session.
    """
    with transaction(connection, "DEFERRED"):
        session, head, _ = find(connection, session_id)
        if connection.execute(_INDEXED, (session,)).fetchone()[0] < head:
            return None
        upto = head if before is None else min(head, before - 1)
        if limit < 1 or upto < 1 or not words:
            return ()
        known = tuple(word for word in words if word.indexed)

        def matches(operator: str, prefixes: bool) -> list[int]:
            if not known:
                return []
            base = session << _SESSION_SHIFT
            rows = connection.execute(_MATCHES, (_expression(known, operator, prefixes), base, base + upto, limit))
            return [rowid - base for (rowid,) in rows.fetchall()]

        def scan(every: bool) -> list[int]:
            return _scan(connection, session, words, limit, upto, every)

        seqs = matches("AND", prefixes=False)
        if len(seqs) < limit:
            seqs = list(dict.fromkeys((*seqs, *matches("AND", prefixes=True))))[:limit]
        seqs = seqs or scan(every=True)
        if not seqs and len(words) > 1:
            seqs = matches("OR", prefixes=True) if known else scan(every=False)
        return _found(connection, session, words, seqs)


def forget(connection: sqlite3.Connection, session_id: str) -> None:
    """Take a session that is about to be deleted out of the index, and with it all others (see above)."""
    row = connection.execute("SELECT indexed FROM sessions WHERE session_id = ?", (session_id,)).fetchone()
    if row is not None and row[0]:
        connection.execute("DROP TABLE message_index")
        connection.execute("UPDATE sessions SET indexed = 0 WHERE indexed > 0")


def _unindexed(
    connection: sqlite3.Connection, session: int, after: int, last: int
) -> tuple[list[tuple[int, str]], int]:
    """Return the rows for the index, and how far they go."""
    texts: list[tuple[int, str]] = []
    names = called(connection, session, after + 1)
    size = 0
    with closing(connection.execute(_UNINDEXED, (session, after + 1, last))) as rows:
        for seq, _, kind, data in rows:
            event, length = load(connection, seq, kind, data)
            if isinstance(event, AssistantAnswered):
                names = {call.id: call.name for call in event.message.tool_calls}
            echo = isinstance(event, ToolReturned) and names.get(event.result.call_id) == RECALL_TOOL
            text = "" if echo else searchable_text(event)
            if text:
                texts.append((session << _SESSION_SHIFT | seq, indexed_form(text)))
            size += length
            if size >= _BATCH_CHARACTERS:
                return texts, seq
    return texts, last


def _expression(words: Iterable[Word], operator: str, prefixes: bool) -> str:
    """Return a query of FTS5 that holds nothing but quoted strings, so that no word of a user is its syntax."""
    return f" {operator} ".join(
        f'"{indexed_form(word.text)}"{"*" if prefixes and not word.exact else ""}' for word in words
    )


def _scan(
    connection: sqlite3.Connection, session: int, words: tuple[Word, ...], limit: int, upto: int, every: bool
) -> list[int]:
    """Return the seqs of messages that contain every word, or any of them, also within other words, newest first."""
    conditions = (" AND " if every else " OR ").join("data LIKE ? ESCAPE '\\'" for _ in words)
    patterns = [f"%{_pattern(word)}%" for word in words]
    seqs: list[int] = []
    with closing(connection.execute(_SCAN.format(conditions=conditions), (session, upto + 1, *patterns))) as rows:
        for seq, at, kind, data in rows:
            logged = LoggedEvent(seq, at, load(connection, seq, kind, data)[0])
            held = holds(searchable_text(logged.event), words, every)
            if held and _tool(connection, session, logged) != RECALL_TOOL:
                seqs.append(seq)
                if len(seqs) == limit:
                    break
    return seqs


def _pattern(word: Word) -> str:
    """Return what the JSON of a message that holds the word is LIKE; more may be."""
    if not word.indexed:
        signs = json.dumps(word.text, ensure_ascii=False)[1:-1]
        return "".join(f"\\{sign}" if sign in "\\%_" else sign for sign in signs)
    # LIKE knows capitals of ASCII alone, and between the parts of a word anything may stand.
    return "".join(sign if _is_plain(sign) else "%" for sign in word.text)


def _is_plain(sign: str) -> bool:
    return sign.isalnum() and (sign.isascii() or sign.lower() == sign.upper())


def _found(
    connection: sqlite3.Connection, session: int, words: tuple[Word, ...], seqs: Iterable[int]
) -> tuple[Found, ...]:
    found: list[Found] = []
    for logged in read_some(connection, session, seqs):
        event = logged.event
        title = event.view.title if isinstance(event, ToolReturned) else ""
        tool = _tool(connection, session, logged)
        piece = snippet(searchable_text(event), words)
        found.append(Found(logged.seq, logged.at, role_of(event), tool, title, piece))
    return tuple(found)


def _tool(connection: sqlite3.Connection, session: int, logged: LoggedEvent) -> str:
    """Return the name of the tool whose result this is; empty for all else."""
    if not isinstance(logged.event, ToolReturned):
        return ""
    return called(connection, session, logged.seq).get(logged.event.result.call_id, "")
