"""Searches one session with its index (`search_index.py`, `ranking.py`) or, without an
index, by scanning all messages.

A scan is used if Python's SQLite has no FTS5, if the store is read-only, if the disk is
full, or while another process writes the index. It is also used for a query that
consists of punctuation (`->`). A scan finds any part of any word. It takes 150 ms for
10,000 messages (17 MB), and ranks only by the number of matching words.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

from acp_agent.conversation.events import LoggedEvent
from acp_agent.frozen import frozen
from acp_agent.storage.database import transaction
from acp_agent.storage.ranking import Query, Ranking, is_name
from acp_agent.storage.rows import find, load, read_some, read_stored
from acp_agent.storage.search_index import IndexUnusableError, reading
from acp_agent.storage.texts import (
    SEARCHED_KINDS,
    RecallEchoes,
    Role,
    folded,
    phrase_pattern,
    role_of,
    searchable_text,
    title_of,
    tokens,
    whole_pattern,
)

MOST_WORDS = 32
"""Maximum number of words of a query that are used."""
LONGEST_QUERY = 2000
"""Maximum number of characters of a query that are used."""
SNIPPET = 240
"""Maximum length of a snippet, in characters."""
FIRST_LINE = 120
"""Maximum length of a neighbour's first line, in characters."""

_LEAD = 60
"""How many characters a snippet shows before the first match."""
_AROUND = 8
"""How many messages on either side are searched for a neighbour with text."""
_QUERY_WORD = re.compile(r'"([^"]*)"|([^\s"]+)')
_KINDS = ", ".join(f"'{kind}'" for kind in SEARCHED_KINDS)
_MESSAGES = f"SELECT seq, kind, data FROM events WHERE session = ? AND seq <= ? AND kind IN ({_KINDS}) ORDER BY seq"
_BEFORE = f"""
    SELECT seq, kind, data FROM events WHERE session = ? AND seq < ? AND kind IN ({_KINDS})
    ORDER BY seq DESC LIMIT {_AROUND}
"""
_AFTER = f"""
    SELECT seq, kind, data FROM events WHERE session = ? AND seq > ? AND kind IN ({_KINDS})
    ORDER BY seq LIMIT {_AROUND}
"""


@frozen
class Neighbour:
    """The message before or after a found message.

    :ivar line: the first non-empty line of its text, at most `FIRST_LINE` characters.
    """

    seq: int
    role: Role
    title: str
    line: str


@frozen
class FoundMessage:
    """A message that a search found.

    :ivar at: milliseconds since the epoch.
    :ivar title: for a tool result, the title of its call as shown to the user.
    :ivar snippet: one line of the text around the matches.
    :ivar before: the previous message, unless the search found that one too.
    :ivar after: the next message, unless the search found that one too.
    """

    seq: int
    at: int
    role: Role
    title: str
    snippet: str
    before: Neighbour | None = None
    after: Neighbour | None = None


def search(
    connection: sqlite3.Connection,
    session_id: str,
    query: str,
    limit: int,
    store: Path | None = None,
    without: Collection[int] = (),
) -> tuple[FoundMessage, ...]:
    """Return up to `limit` messages that match a query, best first and without
    duplicates.

    Messages that literally contain the only word, a quoted phrase, an identifier or the
    whole query come first. Case and accents are ignored. Double quotes enclose a
    phrase. A word also matches part of a longer word, but whole words rank higher.
    Among equal matches, the newest comes first. Calls of `recall` and their results are
    not searched.

    :param store: path of the store's file, next to which the index is stored; None to
        search without an index.
    :param without: sequence numbers of messages to leave out.
    :raises SessionNotFoundError: if there is no such session.
    """
    words = _query_words(query)
    with transaction(connection, "DEFERRED"):
        session, head, _ = find(connection, session_id)
        if limit < 1 or not words:
            return ()
        patterns = [re.compile(phrase_pattern(word)) for word in words]
        best = None
        # The index does not contain punctuation.
        if store is not None and any(tokens(word) for word in words):
            best = _indexed(
                connection, store, session_id, _query(query, words), limit, without
            )
        if best is None:
            best = _scanned(connection, session, patterns, head, limit, without)
        return tuple(_found(connection, session, patterns, best))


def _query(query: str, words: tuple[str, ...]) -> Query:
    quoted: dict[str, None] = {}
    names: dict[str, None] = {}
    for phrase, plain in _QUERY_WORD.findall(query[:LONGEST_QUERY]):
        if phrase.strip():
            quoted[folded(phrase.strip())] = None
        elif is_name(plain):
            names[folded(plain)] = None
    known = frozenset(words)
    return Query(
        words,
        tuple(each for each in quoted if each in known),
        tuple(each for each in names if each in known),
    )


def _query_words(query: str) -> tuple[str, ...]:
    """Return the phrases in double quotes and the other words of a query, without
    duplicates.
    """
    found = (
        quoted.strip() or plain
        for quoted, plain in _QUERY_WORD.findall(query[:LONGEST_QUERY])
    )
    return tuple(dict.fromkeys(folded(word) for word in found if word))[:MOST_WORDS]


def _indexed(
    connection: sqlite3.Connection,
    store: Path,
    session_id: str,
    query: Query,
    limit: int,
    without: Collection[int],
) -> Sequence[int] | None:
    """Return the sequence numbers of the messages that the index finds, best first;
    None if there is no index.
    """
    session, _, _ = find(connection, session_id)
    texts: dict[int, str] = {}

    def text_of(seq: int) -> str:
        if seq not in texts:
            (logged,) = read_some(connection, session, (seq,))
            texts[seq] = folded(searchable_text(logged.event))
        return texts[seq]

    def containing_all(seqs: Iterable[int], split: Sequence[str]) -> Iterator[int]:
        for seq in seqs:
            stored = read_stored(connection, session, seq)
            # For most entries, this shows without decoding that a token is missing.
            if stored is None or all(token in stored for token in split):
                yield seq

    try:
        with reading(connection, store, session_id) as index:
            return Ranking(index, text_of, containing_all, without).best(query, limit)
    except IndexUnusableError:
        return None


def _scanned(
    connection: sqlite3.Connection,
    session: int,
    words: Sequence[re.Pattern[str]],
    last: int,
    limit: int,
    without: Collection[int],
) -> Sequence[int]:
    """Return the sequence numbers of the messages that contain all words, best first.
    If there are none, return those of messages that contain some of the words.
    """
    ranks = [
        rank
        for rank in _ranked(connection, session, words, last)
        if rank[-1] not in without
    ]
    complete = [rank for rank in ranks if rank[0] == len(words)]
    best = sorted(complete or ranks, reverse=True)[:limit]
    return [seq for *_, seq in best]


def _ranked(
    connection: sqlite3.Connection,
    session: int,
    words: Iterable[re.Pattern[str]],
    last: int,
) -> Iterator[tuple[int, int, int]]:
    """Yield, for each matching message, how many words it contains, how many of them as
    whole words, and its sequence number.
    """
    wholes = [(word, re.compile(whole_pattern(word.pattern))) for word in words]
    echoes = RecallEchoes()
    with closing(connection.execute(_MESSAGES, (session, last))) as rows:
        for seq, kind, data in rows:
            event, _ = load(connection, seq, kind, data)
            if echoes.is_echo(event):
                continue
            text = folded(searchable_text(event))
            matched = [whole for word, whole in wholes if word.search(text)]
            if matched:
                whole_words = sum(whole.search(text) is not None for whole in matched)
                yield len(matched), whole_words, seq


def _found(
    connection: sqlite3.Connection,
    session: int,
    words: Sequence[re.Pattern[str]],
    seqs: Sequence[int],
) -> Iterator[FoundMessage]:
    hits = frozenset(seqs)
    for logged in read_some(connection, session, seqs):
        event = logged.event
        snippet = _snippet(searchable_text(event), words)
        before = _neighbour(connection, session, _BEFORE, logged, hits)
        after = _neighbour(connection, session, _AFTER, logged, hits)
        yield FoundMessage(
            logged.seq,
            logged.at,
            role_of(event),
            title_of(event),
            snippet,
            before,
            after,
        )


def _neighbour(
    connection: sqlite3.Connection,
    session: int,
    query: str,
    logged: LoggedEvent,
    hits: Collection[int],
) -> Neighbour | None:
    """Return the nearest message with text in one direction; None if there is none, or
    if it was found too.
    """
    with closing(connection.execute(query, (session, logged.seq))) as rows:
        for seq, kind, data in rows:
            event, _ = load(connection, seq, kind, data)
            line = _first_line(searchable_text(event))
            if line:
                return (
                    None
                    if seq in hits
                    else Neighbour(seq, role_of(event), title_of(event), line)
                )
    return None


def _first_line(text: str) -> str:
    line = " ".join(text.lstrip().partition("\n")[0][: 2 * FIRST_LINE].split())
    return f"{line[: FIRST_LINE - 1].rstrip()}…" if len(line) > FIRST_LINE else line


def _snippet(text: str, words: Iterable[re.Pattern[str]]) -> str:
    """Return the part of a text that contains the most words, as one line of at most
    `SNIPPET` characters.
    """
    folded_text = folded(text)
    places = [found.start() for word in words if (found := word.search(folded_text))]

    def shown_words(start: int) -> tuple[int, int]:
        shown = sum(-_LEAD <= place - start < SNIPPET - 2 * _LEAD for place in places)
        return shown, -start

    first = max(0, max(places, key=shown_words, default=0) - _LEAD)
    # Take more than fits, since white space is collapsed later.
    line = " ".join(text[first : first + 2 * SNIPPET].split())
    if text[:first].strip():
        line = f"…{line}"
    cut = len(line) > SNIPPET or bool(text[first + 2 * SNIPPET :].strip())
    return f"{line[: SNIPPET - 1].rstrip()}…" if cut else line
