"""Extracts the searchable text of a message and splits it into words."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import cache
from typing import Literal, TypeAlias

from acp_agent.conversation.events import (
    AssistantAnswered,
    ContextSwapped,
    Event,
    TextPinned,
    ToolReturned,
    UserPrompted,
)
from acp_agent.conversation.messages import JsonValue, Text, ToolCall, texts_in

Role: TypeAlias = Literal["user", "assistant", "tool", "summary"]

SEARCHED_KINDS = (
    "user_prompted",
    "text_pinned",
    "assistant_answered",
    "tool_returned",
    "context_swapped",
)
"""Kinds of events that have searchable text: messages and summaries."""
LONGEST_WORD = 32
"""Maximum length of a word in the index; longer words are truncated. They are mostly
unique, such as digests and encoded bytes.
"""

CUT_WORD = "\ue000"
"""The word under which messages with a truncated word are indexed. It is not a letter,
so no text contains it as a word.
"""

_RECALL_TOOL = "recall"
"""The search tool. Its calls and results are not searched, since they would be the best
matches for their own query.
"""
_ACCENTS = dict.fromkeys(range(0x300, 0x370))
_TOKEN = re.compile(r"[^\W_]+")
# Thai to Lao, Burmese, Khmer, Hangul letters, kana and ideographs, Hangul, halfwidth
# kana.
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u3040-\u31ff\u3400-\u9fff\ua960-\ua97f\uac00-\ud7ff"
    "\uf900-\ufaff\uff66-\uffdc\U00020000-\U0003ffff"
)


def searchable_text(event: Event) -> str:
    """Return the text of a message.

    The text of a prompt contains both what was shown and what was sent. The text of an
    answer includes its calls, and the text of a tool result begins with its title.
    """
    return "\n".join(piece for piece in _texts(event) if piece)


def role_of(event: Event) -> Role:
    """Return who wrote a message."""
    match event:
        case AssistantAnswered():
            return "assistant"
        case ToolReturned():
            return "tool"
        case ContextSwapped():
            return "summary"
        case _:
            return "user"


def title_of(event: Event) -> str:
    """Return the title of a tool result's call; empty for other events."""
    return event.view.title if isinstance(event, ToolReturned) else ""


class RecallEchoes:
    """Recognizes the results of `recall` calls. Feed it the events of a log in order."""

    def __init__(self) -> None:
        self._calls: set[str] = set()

    def is_echo(self, event: Event) -> bool:
        """Return whether the event is the result of a `recall` call from the last
        answer.
        """
        if isinstance(event, AssistantAnswered):
            self._calls = {
                call.id
                for call in event.message.tool_calls
                if call.name == _RECALL_TOOL
            }
        return isinstance(event, ToolReturned) and event.result.call_id in self._calls


def folded(text: str) -> str:
    """Return the text in lower case and without accents. The offsets of its characters
    stay nearly the same.
    """
    lower = text.lower()
    if lower.isascii():
        return lower
    return unicodedata.normalize(
        "NFC", unicodedata.normalize("NFD", lower).translate(_ACCENTS)
    )


def tokens(text: str) -> list[str]:
    """Return the runs of letters and digits in a folded text, in order."""
    return _TOKEN.findall(text)


def index_words(text: str) -> dict[str, None]:
    """Return the words under which a folded text is indexed, in order and without
    duplicates.

    Text in a script without spaces between words is indexed by its pairs of adjacent
    characters and its last character, so that every part of it can be found.
    """
    words = dict.fromkeys(_TOKEN.findall(text))
    if text.isascii() and all(len(word) <= LONGEST_WORD for word in words):
        return words
    pieces: dict[str, None] = {}
    for word in words:
        for piece in _pieces().findall(word):
            if is_unspaced(piece):
                pieces |= dict.fromkeys(piece[at : at + 2] for at in range(len(piece)))
            else:
                pieces[piece[:LONGEST_WORD]] = None
                if len(piece) > LONGEST_WORD:
                    pieces[CUT_WORD] = None
    return pieces


def query_pieces(token: str) -> list[str]:
    """Return the words to look up in the index for a token of a query. A text that
    contains the token contains all of these words.
    """
    pieces: list[str] = []
    for piece in _pieces().findall(token):
        if is_unspaced(piece) and len(piece) > 1:
            pieces += [piece[at : at + 2] for at in range(len(piece) - 1)]
        else:
            pieces.append(piece[:LONGEST_WORD])
    return pieces


def is_unspaced(piece: str) -> bool:
    """Return whether a piece of a word is written in a script without spaces between
    words.
    """
    return _unspaced().match(piece) is not None


def phrase_pattern(phrase: str) -> str:
    """Return a pattern for a folded word or phrase: its tokens with any punctuation or
    spaces between them.
    """
    found = tokens(phrase)
    return r"[\W_]*".join(map(re.escape, found)) if found else re.escape(phrase)


def whole_pattern(pattern: str) -> str:
    """Return a pattern that matches what `pattern` matches, but not directly next to a
    letter or digit.
    """
    return rf"(?<![^\W_])(?:{pattern})(?![^\W_])"


def _texts(event: Event) -> Iterator[str]:
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


@cache  # compiled on first use, since it takes two milliseconds
def _pieces() -> re.Pattern[str]:
    return re.compile(rf"[{_UNSPACED}]+|[^{_UNSPACED}]+")


@cache
def _unspaced() -> re.Pattern[str]:
    return re.compile(rf"[{_UNSPACED}]")
