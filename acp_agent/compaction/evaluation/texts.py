"""The text of messages, and the search in what is left of a conversation.

Spaces, quotes and backslashes do not count when texts are compared: a summary sets them in its own way.
"""

import re
import shlex
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Literal, TypeAlias

from acp_agent.conversation.entries import RecipePrompt
from acp_agent.conversation.messages import JsonValue, Message, Resource, ResourceLink, Text, ToolCall

Speaker: TypeAlias = Literal["user", "assistant", "call", "command", "result"]
Gram: TypeAlias = tuple[str, ...]

AROUND = 3  # words on each side of a fact that have to be there with it
PLACE = 80  # words of a stretch that may say one thing; a decision has at most about as many
_SPEAKERS: dict[str, Speaker] = {"user": "user", "assistant": "assistant", "tool": "result"}
_COMMAND_ARGUMENTS = ("command", "cmd", "script")
_QUOTES = str.maketrans("", "", "'\"`\\")
_WORD = re.compile(r"\w+")
_JOINED_LEFT, _JOINED_RIGHT = re.compile(r"[\w.]\w"), re.compile(r"\w\.?\w")
_NEAR = 200


def text_of(message: Message) -> str:
    """Return the passages of a message, one below the other."""
    return "\n".join(text for _, text in passages(message))


def passages(message: Message) -> Iterator[tuple[Speaker, str]]:
    """Yield the texts of a message, with who says them. Reasoning is left out: no provider keeps it for long."""
    parts = message.parts
    if isinstance(message, RecipePrompt):  # a recipe is not in the user's words, nor is a file that is attached
        for part in parts:
            yield "result", part.text if isinstance(part, Text) else ""
        parts = message.typed
    for part in parts:
        if isinstance(part, Text):
            yield _SPEAKERS[message.role], part.text
        elif isinstance(part, Resource | ResourceLink):
            yield "user", part.uri
            yield "result", (part.text or "") if isinstance(part, Resource) else ""
        elif isinstance(part, ToolCall):
            for name, value in part.arguments.items():
                yield from _argument(name, value)


def _argument(name: str, value: JsonValue) -> Iterator[tuple[Speaker, str]]:
    words = [each for each in value if isinstance(each, str)] if isinstance(value, list) else []
    if name in _COMMAND_ARGUMENTS and (words or isinstance(value, str)):
        yield "command", value if isinstance(value, str) else shlex.join(words)
    elif isinstance(value, list | dict):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _argument("", each)
    elif value is not None:
        yield "call", str(value)


def plain(text: str) -> str:
    """Return the text as it is compared: without quotes and backslashes, with single spaces."""
    return " ".join(text.translate(_QUOTES).split())


def words(text: str) -> list[str]:
    """Return the words, numbers and names of a text, without what stands between them."""
    return _WORD.findall(text)


def grams_around(text: str, start: int, end: int) -> tuple[Gram, ...]:
    """Return the words before `text[start:end]` with its first word, and its last word with those behind it."""
    inside = words(text[start:end])
    left = (*words(text[max(0, start - _NEAR) : start])[-AROUND:], *inside[:1])
    right = (*inside[-1:], *words(text[end : end + _NEAR])[:AROUND])
    return tuple(gram for gram in (left, right) if inside and len(gram) == AROUND + 1)


class Remains:
    """What a compaction left of a conversation, to be searched."""

    def __init__(self, messages: Iterable[Message]) -> None:
        self._texts = [text_of(message) for message in messages]
        self._plain = "\n".join(map(plain, self._texts))

    @cached_property
    def vocabulary(self) -> frozenset[str]:
        """All words in it, in lower case."""
        return frozenset(word.lower() for text in self._texts for word in words(text))

    @cached_property
    def _grams(self) -> frozenset[Gram]:
        found: set[Gram] = set()
        for each in map(words, self._texts):
            for size in (2, AROUND + 1):
                found.update(zip(*(each[offset:] for offset in range(size)), strict=False))
        return frozenset(found)

    @cached_property
    def _places(self) -> list[frozenset[str]]:
        """The words of each line, and of a long line those of stretches that overlap by half."""
        half, lines = PLACE // 2, [words(line) for text in self._texts for line in text.split("\n")]
        starts = ((line, at) for line in lines for at in range(0, max(1, len(line) - half), half))
        return [frozenset(line[at : at + PLACE]) for line, at in starts]

    def has(self, key: str) -> bool:
        """Return whether a text, as `plain` gives it, stands in it and is no part of a longer word, name or number."""
        return any(occurrences(self._plain, key))

    def has_grams(self, grams: Iterable[Gram]) -> bool:
        """Return whether the words of each gram, two or `AROUND` and one, stand side by side somewhere."""
        return self._grams.issuperset(grams)

    def best_place(self, sought: frozenset[str]) -> float:
        """Return the largest share of these words that stand in one line, `PLACE` words apart at most."""
        return max((len(sought & place) for place in self._places), default=0) / max(1, len(sought))


def occurrences(text: str, key: str) -> Iterator[tuple[int, int]]:
    """Yield start and end of a key that stands in a text by itself. A path may have more directories before it."""
    at = text.find(key)
    while at >= 0 and key:
        end = at + len(key)
        if not _JOINED_LEFT.match(text[max(0, at - 1) : at + 1]) and not _JOINED_RIGHT.match(text[end - 1 : end + 2]):
            yield at, end
        at = text.find(key, at + 1)
