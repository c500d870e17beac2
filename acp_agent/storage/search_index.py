"""The search index of a session: an FTS5 table in its own small database file next to
the store.

The index is a cache. It is extended to the log's head before each search, and between
the turns of a session that was compacted, so that a search finds little left to index.
Since the index is not part of the store, it never delays an append, earlier versions of
the agent can still open the store, and a damaged index can be deleted and rebuilt
without any risk to the log.

The index only records which words each message contains. FTS5 stores no texts
(`content=''`), no word positions (`detail=none`) and no sizes (`columnsize=0`), so the
index takes about a fifth of the space of the texts
(https://sqlite.org/fts5.html#fts5_table_creation_and_initialization). FTS5 matches the
stems of words; a separate list of all words is used to find parts of words.
"""

from __future__ import annotations

import json
import logging
import os
import sqlite3
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing, contextmanager
from itertools import chain, islice
from pathlib import Path
from urllib.parse import quote_from_bytes

from acp_agent.conversation.codec import decode
from acp_agent.frozen import frozen
from acp_agent.storage.database import transaction
from acp_agent.storage.rows import find, load
from acp_agent.storage.texts import (
    CUT_WORD,
    SEARCHED_KINDS,
    RecallEchoes,
    folded,
    index_words,
    is_unspaced,
    searchable_text,
)

_log = logging.getLogger(__name__)

FORMAT = 2
"""Version of the index format (`PRAGMA user_version`). An index with another version is
deleted and rebuilt.
"""
_BATCH_EVENTS = 2000
_BATCH_CHARACTERS = 1 << 20
_BUSY_SECONDS = 0.05
_MOST_WORDS = 500
"""Maximum number of words containing a given part that are looked up."""

# `words` shows which words are new. `word_lists` has every word once, in a few long
# texts with a line break around each word: finding a part in these is twenty times as
# fast as in single rows. `id` counts the messages, so the ids of neighbours differ by
# one. `covered` has one row: the last indexed entry and its digest. The digest shows
# whether the log is still the same, since a backup of the store may have been restored.
_SCHEMA = (
    """
    CREATE VIRTUAL TABLE postings
    USING fts5 (words, content = '', detail = none, columnsize = 0, tokenize = 'porter ascii')
    """,
    "CREATE TABLE words (word TEXT PRIMARY KEY) STRICT, WITHOUT ROWID",
    "CREATE TABLE word_lists (words TEXT NOT NULL) STRICT",
    "CREATE TABLE entries (id INTEGER PRIMARY KEY, seq INTEGER NOT NULL, length INTEGER NOT NULL) STRICT",
    "CREATE TABLE covered (session_id TEXT NOT NULL, seq INTEGER NOT NULL, digest TEXT NOT NULL) STRICT",
    f"PRAGMA user_version = {FORMAT}",
)
_KINDS = ", ".join(f"'{kind}'" for kind in SEARCHED_KINDS)
_MESSAGES = f"""
    SELECT seq, kind, data FROM events
    WHERE session = ? AND seq BETWEEN ? AND ? AND kind IN ({_KINDS}) ORDER BY seq LIMIT {_BATCH_EVENTS}
"""
_LAST_ANSWER = """
    SELECT kind, data FROM events WHERE session = ? AND seq <= ? AND kind = 'assistant_answered'
    ORDER BY seq DESC LIMIT 1
"""
_ENTRY = "SELECT at, data FROM events WHERE session = ? AND seq = ?"
_ADD_WORDS = "INSERT OR IGNORE INTO words SELECT value FROM json_each(?) WHERE true RETURNING word"
_LIVE = "SELECT id FROM sessions WHERE deleted_at IS NULL"


class IndexUnusableError(Exception):
    """The index cannot be used now. Search without it."""


@frozen
class _Covered:
    session_id: str
    seq: int
    digest: str


@frozen
class _Message:
    seq: int
    length: int
    words: tuple[str, ...]


@frozen
class _Batch:
    messages: tuple[_Message, ...]
    covered: _Covered
    more: bool


def extend(
    connection: sqlite3.Connection,
    store: Path,
    session_id: str,
    characters: int = _BATCH_CHARACTERS,
) -> bool:
    """Index the next batch of a session's messages.

    :param connection: the store's connection.
    :param store: path of the store's file.
    :param characters: the batch ends after the message with which it reaches this
        length.
    :returns: whether there is more to index. False also if the index cannot be written:
        without FTS5, on a full disk, or while it is locked.
    :raises SessionNotFoundError: if there is no such session.
    """
    if not _has_fts5(connection):
        return False
    session, _, _ = find(connection, session_id)
    file = _file(store, session)
    try:
        _make_private(file)
        # An error in the store is treated here like an error in the index. The search
        # then scans the store without an index, meets the same error and reports it.
        with _opened(file, "rw") as index:
            _prepare(index)
            before = _covered(index)
            batch = _next_batch(connection, session_id, before, characters)
            if batch is None:
                return False
            _write(index, before, batch)
            return batch.more
    except IndexUnusableError:
        return False
    finally:
        if not connection.execute(f"{_LIVE} AND id = ?", (session,)).fetchone():
            _remove(file)  # another process has deleted the session meanwhile


@contextmanager
def reading(
    connection: sqlite3.Connection, store: Path, session_id: str
) -> Generator[SearchIndex]:
    """Open the index of a session that is indexed up to its head.

    :raises IndexUnusableError: if there is no such index.
    """
    session, head, _ = find(connection, session_id)
    file = _file(store, session)
    if not file.exists() or not _has_fts5(connection):
        raise IndexUnusableError
    with _opened(file, "ro") as index:
        covered = _covered(index)
        if (
            covered is None
            or covered.seq < head
            or not _is_index_of(connection, session, covered, session_id)
        ):
            raise IndexUnusableError
        yield SearchIndex(index)


def forget(store: Path, session: int) -> None:
    """Delete the index of a session."""
    _remove(_file(store, session))


def forget_deleted(connection: sqlite3.Connection, store: Path) -> None:
    """Delete the indexes of deleted sessions. Earlier versions of the agent leave such
    indexes behind.
    """
    prefix = _file_prefix(store)
    numbers: dict[int, Path] = {}
    with os.scandir(store.parent) as entries:
        for entry in entries:
            number = entry.name.removeprefix(prefix).partition("-")[0]
            if entry.name.startswith(prefix) and number.isdecimal():
                numbers[int(number)] = Path(f"{store}{_INFIX}{number}")
    if numbers:
        live = {session for (session,) in connection.execute(_LIVE)}
        for number in numbers.keys() - live:
            _remove(numbers[number])


class SearchIndex:
    """The index of one session, open for reading. Every method raises
    `IndexUnusableError` if the index is damaged.
    """

    def __init__(self, index: sqlite3.Connection) -> None:
        self._index = index
        self._lists: list[str] | None = None

    def entries(self) -> list[tuple[int, int]]:
        """Return the sequence number and the length in characters of each message; the
        first message is number 1.
        """
        return self._index.execute(
            "SELECT seq, length FROM entries ORDER BY id"
        ).fetchall()

    def messages_with(self, piece: str) -> frozenset[int]:
        """Return the numbers of the messages that contain a word with the same stem.

        :param piece: a word from `query_pieces`.
        """
        # Text in scripts without spaces is indexed by pairs of characters, so a single
        # character is looked up as the beginning of a pair.
        return self._matching(
            f'"{piece}"*' if is_unspaced(piece) and len(piece) == 1 else f'"{piece}"'
        )

    def messages_with_part(self, part: str) -> frozenset[int] | None:
        """Return the numbers of the messages with an indexed word that contains `part`.
        Return None if there are too many such words to look up.
        """
        words = list(islice(self._words_with(part), _MOST_WORDS))
        if len(words) == _MOST_WORDS:
            return None
        return (
            self._matching(" OR ".join(f'"{word}"' for word in words))
            if words
            else frozenset()
        )

    def messages_with_cut_words(self) -> frozenset[int]:
        """Return the numbers of the messages with a word that is too long to be indexed
        in full.
        """
        return self._matching(f'"{CUT_WORD}"')

    def _words_with(self, part: str) -> Iterator[str]:
        if self._lists is None:
            self._lists = [
                words
                for (words,) in self._index.execute("SELECT words FROM word_lists")
            ]
        for words in self._lists:
            at = words.find(part)
            while at >= 0:
                end = words.index("\n", at)
                yield words[words.rindex("\n", 0, at) + 1 : end]
                at = words.find(part, end)

    def _matching(self, expression: str) -> frozenset[int]:
        rows = self._index.execute(
            "SELECT rowid FROM postings WHERE postings MATCH ?", (expression,)
        )
        return frozenset(chain.from_iterable(rows))


_INFIX = ".search-"


def _file_prefix(store: Path) -> str:
    return f"{store.name}{_INFIX}"


def _file(store: Path, session: int) -> Path:
    return store.with_name(f"{_file_prefix(store)}{session}")


def _has_fts5(connection: sqlite3.Connection) -> bool:
    return (
        connection.execute(
            "SELECT 1 FROM pragma_module_list WHERE name = 'fts5'"
        ).fetchone()
        is not None
    )


def _make_private(file: Path) -> None:
    try:
        os.close(
            os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        )
    except OSError as error:
        _log.warning(
            "The search index %s cannot be created (%s); searches read the whole log",
            file,
            error.strerror,
        )
        raise IndexUnusableError from error


@contextmanager
def _opened(file: Path, mode: str) -> Generator[sqlite3.Connection]:
    """Open an index, and delete it if it turns out to be damaged.

    :raises IndexUnusableError: instead of any SQLite error.
    """
    uri = f"file:{quote_from_bytes(os.fsencode(file))}?mode={mode}"
    try:
        with closing(
            sqlite3.connect(
                uri,
                uri=True,
                timeout=_BUSY_SECONDS,
                isolation_level=None,
                check_same_thread=False,
            )
        ) as index:
            yield index
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code in _TRANSIENT_ERRORS:
            _log.info(
                "The search index %s cannot be used at the moment (%s)", file, error
            )
        else:
            _log.warning("The search index %s is rebuilt (%s)", file, error)
            _remove(file)
        raise IndexUnusableError from error


_TRANSIENT_ERRORS = frozenset(
    (
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_PERM,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_NOMEM,
        sqlite3.SQLITE_INTERRUPT,
    )
)
"""Errors after which the file is not considered damaged."""


def _prepare(index: sqlite3.Connection) -> None:
    if _version(index) == FORMAT:
        return
    with transaction(index):
        version = _version(index)
        if version == FORMAT:  # another process was faster
            return
        if version:
            raise sqlite3.DatabaseError(f"it has the format {version}")
        for statement in _SCHEMA:
            index.execute(statement)


def _version(index: sqlite3.Connection) -> int:
    return index.execute("PRAGMA user_version").fetchone()[0]


def _covered(index: sqlite3.Connection) -> _Covered | None:
    """Return the last indexed entry; None if the index is empty."""
    row = index.execute("SELECT session_id, seq, digest FROM covered").fetchone()
    return None if row is None else _Covered(*row)


def _is_index_of(
    connection: sqlite3.Connection, session: int, covered: _Covered, session_id: str
) -> bool:
    return covered.session_id == session_id and covered.digest == _digest(
        connection, session, covered.seq
    )


def _digest(connection: sqlite3.Connection, session: int, seq: int) -> str:
    """Return a digest that identifies a log entry; an empty string if there is no such
    entry.
    """
    import hashlib  # not loaded at startup

    row = connection.execute(_ENTRY, (session, seq)).fetchone()
    return (
        "" if row is None else hashlib.sha256(f"{row[0]} {row[1]}".encode()).hexdigest()
    )


def _next_batch(
    connection: sqlite3.Connection,
    session_id: str,
    before: _Covered | None,
    characters: int,
) -> _Batch | None:
    """Read the next messages that are not indexed yet. Return None if there are none."""
    with transaction(connection, "DEFERRED"):
        session, head, _ = find(connection, session_id)
        if before is not None and not _is_index_of(
            connection, session, before, session_id
        ):
            raise sqlite3.DatabaseError("it belongs to another log")
        after = before.seq if before else 0
        if after >= head:
            return None
        messages, upto = _unindexed(connection, session, after, head, characters)
        covered = _Covered(session_id, upto, _digest(connection, session, upto))
    return _Batch(tuple(messages), covered, more=upto < head)


def _unindexed(
    connection: sqlite3.Connection, session: int, after: int, head: int, characters: int
) -> tuple[list[_Message], int]:
    """Return the next messages, and the sequence number up to which the log was read."""
    echoes = RecallEchoes()
    for answer in connection.execute(_LAST_ANSWER, (session, after)).fetchall():
        echoes.is_echo(decode(*answer))
    messages: list[_Message] = []
    size = count = 0
    with closing(connection.execute(_MESSAGES, (session, after + 1, head))) as rows:
        for seq, kind, data in rows:
            event, length = load(connection, seq, kind, data)
            text = "" if echoes.is_echo(event) else searchable_text(event)
            if text:
                messages.append(
                    _Message(seq, len(text), tuple(index_words(folded(text))))
                )
            count += 1
            size += length
            if size >= characters or count == _BATCH_EVENTS:
                return messages, seq
    return messages, head


def _write(index: sqlite3.Connection, before: _Covered | None, batch: _Batch) -> None:
    with transaction(index):
        if _covered(index) != before:
            return  # another process has indexed the same messages
        (last,) = index.execute("SELECT coalesce(max(id), 0) FROM entries").fetchone()
        numbered = list(enumerate(batch.messages, last + 1))
        index.executemany(
            "INSERT INTO entries (id, seq, length) VALUES (?, ?, ?)",
            ((number, message.seq, message.length) for number, message in numbered),
        )
        index.executemany(
            "INSERT INTO postings (rowid, words) VALUES (?, ?)",
            ((number, " ".join(message.words)) for number, message in numbered),
        )
        words = json.dumps(list(_listed(batch.messages)))
        if new := index.execute(_ADD_WORDS, (words,)).fetchall():
            index.execute(
                "INSERT INTO word_lists VALUES (?)",
                ("".join(["\n", *(f"{word}\n" for (word,) in new)]),),
            )
        covered = batch.covered
        index.execute("DELETE FROM covered")
        index.execute(
            "INSERT INTO covered VALUES (?, ?, ?)",
            (covered.session_id, covered.seq, covered.digest),
        )


def _listed(messages: Iterable[_Message]) -> Iterator[str]:
    """Yield the words for the `words` table, in the table's order. Pairs of characters
    are not listed.
    """
    every = {word for message in messages for word in message.words}
    return (
        word for word in sorted(every) if word != CUT_WORD and not is_unspaced(word)
    )


def _remove(file: Path) -> None:
    # Delete the journal first. Otherwise SQLite would apply the journal of a deleted
    # index to a new one.
    for each in (Path(f"{file}-journal"), file):
        try:
            each.unlink(missing_ok=True)
        except OSError as error:
            _log.warning(
                "The search index %s cannot be deleted (%s)", each, error.strerror
            )
