"""Search in one session: a scan of its messages for the words of a query.

A scan of 10,000 messages (18 MB) takes about half a second in the store's thread. An index would be as large as a third
of the texts, and would have to forget the words of deleted sessions.
"""

from __future__ import annotations

import re
import sqlite3
import unicodedata
from collections.abc import Iterable, Iterator
from contextlib import closing
from typing import Literal, TypeAlias

from acp_agent.conversation.events import (
    AssistantAnswered,
    ContextSwapped,
    Event,
    LoggedEvent,
    TextPinned,
    ToolReturned,
    UserPrompted,
)
from acp_agent.conversation.messages import JsonValue, Text, ToolCall, texts_in
from acp_agent.frozen import frozen
from acp_agent.storage.database import transaction
from acp_agent.storage.rows import find, load, read_some

Role: TypeAlias = Literal["user", "assistant", "tool", "summary"]

MESSAGE_KINDS = ("user_prompted", "text_pinned", "assistant_answered", "tool_returned")
"""Kinds of events that are messages; a summary is the only other thing that is searched."""
MOST_WORDS = 32
LONGEST_QUERY = 2000
SNIPPET = 240

_RECALL_TOOL = "recall"
"""The tool that searches. Its calls and their results are not searched: they would be the best hits for their words."""
_LEAD = 60
_ACCENTS = dict.fromkeys(range(0x300, 0x370))
_QUERY_WORD = re.compile(r'"([^"]*)"|([^\s"]+)')
_TOKEN = re.compile(r"[^\W_]+")
_MESSAGES = f"""
    SELECT seq, kind, data FROM events WHERE session = ? AND seq <= ? AND kind IN
    ({", ".join(f"'{kind}'" for kind in (*MESSAGE_KINDS, "context_swapped"))}) ORDER BY seq
"""


@frozen
class Found:
    """A message that a search found.

    :ivar at: milliseconds since the epoch.
    :ivar title: what the call was shown as, for a result.
    :ivar snippet: one line of the text, around the words that were looked for.
    """

    seq: int
    at: int
    role: Role
    title: str
    snippet: str


def search(connection: sqlite3.Connection, session_id: str, query: str, limit: int) -> tuple[Found, ...]:
    """Return up to `limit` messages that contain all words of a query or, if none does, some of them, best first.

    Calls of `recall` and their results are not searched. Case is ignored. Double quotes enclose a phrase. A word also
    matches a part of a longer word, but a whole word ranks higher. Of equal matches the newest comes first.

    :raises SessionNotFoundError: no such session.
    """
    with transaction(connection, "DEFERRED"):
        session, head, _ = find(connection, session_id)
        words = [re.compile(_pattern(word)) for word in _query_words(query)]
        if limit < 1 or not words:
            return ()
        ranks = list(_ranked(connection, session, words, head))
        complete = [rank for rank in ranks if rank[0] == len(words)]
        best = sorted(complete or ranks, reverse=True)[:limit]
        logged = read_some(connection, session, (seq for *_, seq in best))
        return tuple(_found(each, words) for each in logged)


def _query_words(query: str) -> tuple[str, ...]:
    """Return the words of a query, without repetition: what stands in double quotes, and else what spaces part.

    At most `MOST_WORDS` of the first `LONGEST_QUERY` characters count.
    """
    found = (quoted.strip() or plain for quoted, plain in _QUERY_WORD.findall(query[:LONGEST_QUERY]))
    return tuple(dict.fromkeys(_folded(word) for word in found if word))[:MOST_WORDS]


def searchable_text(event: Event) -> str:
    """Return the text of a message: a prompt as shown and as sent, an answer with its calls, a result behind its
    title."""
    return "\n".join(piece for piece in _pieces(event) if piece)


def _folded(text: str) -> str:
    """Return the text in small letters without accents, with every character about where it was."""
    lower = text.lower()
    if lower.isascii():
        return lower
    return unicodedata.normalize("NFC", unicodedata.normalize("NFD", lower).translate(_ACCENTS))


def _pattern(word: str) -> str:
    """Return a pattern for a word: of a path or an identifier, its parts with any signs between them."""
    tokens = _TOKEN.findall(word)
    return r"[\W_]*".join(map(re.escape, tokens)) if tokens else re.escape(word)


def _ranked(
    connection: sqlite3.Connection, session: int, words: Iterable[re.Pattern[str]], last: int
) -> Iterator[tuple[int, int, int]]:
    """Yield how many words a message holds, how many of them not as parts of longer ones, and its seq."""
    wholes = [(word, re.compile(rf"(?<![^\W_])(?:{word.pattern})(?![^\W_])")) for word in words]
    recalls: set[str] = set()
    with closing(connection.execute(_MESSAGES, (session, last))) as rows:
        for seq, kind, data in rows:
            event, _ = load(connection, seq, kind, data)
            if isinstance(event, AssistantAnswered):
                recalls = {call.id for call in event.message.tool_calls if call.name == _RECALL_TOOL}
            elif isinstance(event, ToolReturned) and event.result.call_id in recalls:
                continue
            text = _folded(searchable_text(event))
            if held := [whole for word, whole in wholes if word.search(text)]:
                yield len(held), sum(whole.search(text) is not None for whole in held), seq


def _found(logged: LoggedEvent, words: Iterable[re.Pattern[str]]) -> Found:
    event = logged.event
    title = event.view.title if isinstance(event, ToolReturned) else ""
    return Found(logged.seq, logged.at, role_of(event), title, _snippet(searchable_text(event), words))


def role_of(event: Event) -> Role:
    match event:
        case AssistantAnswered():
            return "assistant"
        case ToolReturned():
            return "tool"
        case ContextSwapped():
            return "summary"
        case _:
            return "user"


def _snippet(text: str, words: Iterable[re.Pattern[str]]) -> str:
    """Return the piece of a text where most of the words stand: one line of at most `SNIPPET` characters."""
    folded = _folded(text)
    places = [found.start() for word in words if (found := word.search(folded))]

    def worth(start: int) -> tuple[int, int]:
        return sum(-_LEAD <= place - start < SNIPPET - 2 * _LEAD for place in places), -start

    first = max(0, max(places, key=worth, default=0) - _LEAD)
    # White space shrinks, so that more is taken than fits.
    line = " ".join(text[first : first + 2 * SNIPPET].split())
    if text[:first].strip():
        line = f"…{line}"
    cut = len(line) > SNIPPET or bool(text[first + 2 * SNIPPET :].strip())
    return f"{line[: SNIPPET - 1].rstrip()}…" if cut else line


def _pieces(event: Event) -> Iterator[str]:
    match event:
        case UserPrompted():
            for part in (*event.shown, *(event.sent or ())):
                yield from texts_in(part)
        case TextPinned():
            yield event.text
        case AssistantAnswered():
            for part in event.message.parts:
                if isinstance(part, Text):
                    yield part.text
                elif isinstance(part, ToolCall) and part.name != _RECALL_TOOL:
                    yield from (part.name, *_leaves(part.arguments), part.invalid or "")
        case ToolReturned():
            yield from (event.view.title, event.result.text)
        case ContextSwapped():
            yield event.summary
        case _:
            return


def _leaves(value: JsonValue) -> Iterator[str]:
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _leaves(item)
    elif value is not None:
        yield str(value)
