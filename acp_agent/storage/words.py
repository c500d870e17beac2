"""The searchable text of a message, the words of a query, and the snippet that shows where they occur. Pure."""

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
from acp_agent.conversation.messages import Image, JsonValue, Resource, ResourceLink, Text, ToolCall, UserPart
from acp_agent.frozen import frozen

Role: TypeAlias = Literal["user", "assistant", "tool", "summary"]

RECALL_TOOL = "recall"
"""The tool that searches. Its calls and their results are not searched: they would be the best hits for their words."""

MESSAGE_KINDS = ("user_prompted", "text_pinned", "assistant_answered", "tool_returned")
"""Kinds of events that are messages; a summary is the only other thing that is searched."""
SEARCHED_KINDS = (*MESSAGE_KINDS, "context_swapped")

MOST_WORDS = 32
LONGEST_QUERY = 2000
SNIPPET = 240
_LEAD = 60

_QUERY_WORD = re.compile(r'"([^"]*)"|([^\s"]+)')
_TOKEN = re.compile(r"[^\W_]+")
_UNSPACED = (
    "[\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u3040-\u30ff\u3130-\u318f\u31f0-\u31ff\u3400-\u9fff"
    "\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff]"
)
"""Thai, Lao, Burmese and Khmer; Hangul; kana; Han: between their words there is no space, or more than a word."""


@frozen
class Word:
    """One thing to look for.

    :ivar exact: it stood in quotes, so that nothing longer is meant.
    """

    text: str
    exact: bool = False

    @property
    def indexed(self) -> bool:
        """Whether the index can find it: a word without letters or digits is not in it."""
        return _TOKEN.search(self.text) is not None


def query_words(query: str) -> tuple[Word, ...]:
    """Return the words of a query, without repetition: what stands in double quotes, and else what spaces part.

    At most `MOST_WORDS` of the first `LONGEST_QUERY` characters count.
    """
    found = _QUERY_WORD.findall(query[:LONGEST_QUERY].replace("\0", " "))
    words = (Word(quoted.strip() or plain, bool(quoted)) for quoted, plain in found)
    return tuple(dict.fromkeys(word for word in words if word.text))[:MOST_WORDS]


def role_of(event: Event) -> Role:
    """Whose words they are."""
    match event:
        case AssistantAnswered():
            return "assistant"
        case ToolReturned():
            return "tool"
        case ContextSwapped():
            return "summary"
        case _:
            return "user"


def searchable_text(event: Event) -> str:
    """Return the text of a message: a prompt as shown and as sent, an answer with its calls, a result behind its
    title."""
    return "\n".join(piece for piece in _pieces(event) if piece)


@cache
def _unspaced() -> re.Pattern[str]:
    """Return the compiled pattern. Lazily: compiling takes longer than importing this whole package."""
    return re.compile(_UNSPACED)


def indexed_form(text: str) -> str:
    """Return the text for an index of words: each sign of a script that does not part its words stands alone."""
    return text if text.isascii() else _unspaced().sub(r" \g<0> ", text)


def holds(text: str, words: tuple[Word, ...], every: bool) -> bool:
    """Return whether every word stands in the text, or else any of them; also as a part of another."""
    folded = _folded(text)
    held = (_place(folded, word) is not None for word in words)
    return all(held) if every else any(held)


def snippet(text: str, words: tuple[Word, ...]) -> str:
    """Return the piece of a text where most of the words stand, or its start: one line of at most `SNIPPET`
    characters."""
    folded = _folded(text)
    places = [place for word in words if (place := _place(folded, word)) is not None]

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
            yield from _texts(event.shown)
            if event.sent is not None:
                yield from _texts(event.sent)
        case TextPinned():
            yield event.text
        case AssistantAnswered():
            for part in event.message.parts:
                if isinstance(part, Text):
                    yield part.text
                elif isinstance(part, ToolCall) and part.name != RECALL_TOOL:
                    yield part.name
                    yield from _leaves(part.arguments)
                    yield part.invalid or ""
        case ToolReturned():
            yield event.view.title
            yield event.result.text
        case ContextSwapped():
            yield event.summary
        case _:
            return


def _texts(parts: tuple[UserPart, ...]) -> Iterator[str]:
    for part in parts:
        match part:
            case Text():
                yield part.text
            case ResourceLink():
                yield from (part.uri, part.name, part.title or "", part.description or "")
            case Resource():
                yield from (part.uri, part.text or "")
            case Image():
                yield part.uri or ""
            case _:
                continue


def _leaves(value: JsonValue) -> Iterator[str]:
    if isinstance(value, dict):
        for item in value.values():
            yield from _leaves(item)
    elif isinstance(value, list):
        for item in value:
            yield from _leaves(item)
    elif value is not None:
        yield str(value)


def _place(folded: str, word: Word) -> int | None:
    """Return where a word stands in a folded text: at a word's beginning where there is one."""
    wanted = _folded(word.text)
    tokens = _TOKEN.findall(wanted)
    pattern = r"[\W_]*".join(map(re.escape, tokens)) if tokens else re.escape(wanted)
    found = re.search(rf"(?<![^\W_]){pattern}", folded) or re.search(pattern, folded)
    return found.start() if found else None


def _folded(text: str) -> str:
    """Return the text in small letters without accents; of the same length."""
    return text.lower() if text.isascii() else text.translate(_FOLDED)


class _Folded(dict[int, str]):
    def __missing__(self, code: int) -> str:
        character = chr(code)
        base, *marks = unicodedata.normalize("NFD", character)
        if not all(map(unicodedata.combining, marks)):
            base = character
        self[code] = folded = base.lower()[0]
        return folded


_FOLDED = _Folded()
