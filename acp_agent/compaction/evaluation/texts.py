"""What stands in a message, and finding something in what is left of a conversation.

Spaces, quotes and backslashes do not count when texts are compared: a ledger or a summary sets them in its own way.
Knows no facts.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import pairwise
from typing import Literal, TypeAlias

from acp_agent.compaction.ledger_shell import command_line
from acp_agent.conversation.entries import RecipePrompt
from acp_agent.conversation.messages import (
    AssistantMessage,
    JsonValue,
    Message,
    Resource,
    ResourceLink,
    Text,
    ToolCall,
    UserMessage,
)
from acp_agent.frozen import frozen

Speaker: TypeAlias = Literal["user", "assistant", "call", "result"]
Gram: TypeAlias = tuple[str, ...]

COMMAND_ARGUMENTS = ("command", "cmd", "script")
"""Arguments of calls that hold a command line, as a text or as words."""
AROUND = 3
"""Words on each side of a fact that have to be there with it."""

PLACE = 80
"""Words of a stretch that may say one thing; a decision has at most about as many."""
_QUOTES = str.maketrans("", "", "'\"`\\")
_WORD = re.compile(r"\w+")
_NEAR = 200


@frozen
class Passage:
    """A piece of a message.

    :ivar start: where it begins in the text of the whole message.
    :ivar call: for an argument of a call, the name of the argument.
    """

    speaker: Speaker
    text: str
    start: int
    argument: str = ""


@frozen
class Said:
    """A message as text, and the pieces that it is made of. Reasoning is left out: no provider keeps it for long."""

    text: str
    passages: tuple[Passage, ...]


def said(message: Message) -> Said:
    """The text of a message."""
    passages: list[Passage] = []
    at = 0
    for speaker, text, argument in _pieces(message):
        passages.append(Passage(speaker, text, at, argument))
        at += len(text) + 1
    return Said("\n".join(passage.text for passage in passages), tuple(passages))


def _pieces(message: Message) -> Iterator[tuple[Speaker, str, str]]:
    speaker: Speaker = "result"
    if isinstance(message, UserMessage):
        speaker = "user"
    elif isinstance(message, AssistantMessage):
        speaker = "assistant"
    parts = message.parts
    if isinstance(message, RecipePrompt):
        # What others wrote is the world's, as a file that came along is.
        for part in parts:
            if isinstance(part, Text):
                yield "result", part.text, ""
        parts = message.typed
    for part in parts:
        match part:
            case Text():
                yield speaker, part.text, ""
            case Resource():
                # A file that came along is the world's, as a result is.
                yield "user", part.uri, ""
                yield "result", part.text or "", ""
            case ResourceLink():
                yield "user", part.uri, ""
            case ToolCall():
                for name, value in part.arguments.items():
                    line = command_line(value) if name in COMMAND_ARGUMENTS else ""
                    for text in [line] if line else _strings(value):
                        yield "call", text, name
            case _:
                pass


def _strings(value: JsonValue) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        if value and all(isinstance(each, str) for each in value):
            yield " ".join(each for each in value if isinstance(each, str))  # the words of a command
        else:
            for each in value:
                yield from _strings(each)
    elif isinstance(value, dict):
        for each in value.values():
            yield from _strings(each)
    elif isinstance(value, int) and not isinstance(value, bool):
        yield str(value)


def plain(text: str) -> str:
    """The text as it is compared: without quotes and backslashes, with single spaces."""
    return " ".join(text.translate(_QUOTES).split())


def words(text: str) -> list[str]:
    """Its words, numbers and names, without what stands between them."""
    return _WORD.findall(text)


def grams_around(text: str, start: int, end: int) -> tuple[Gram, ...]:
    """What has to be found for the words around `text[start:end]` to be there: those before it with its first word, and
    its last word with those behind it. At an edge of the text that side does not count.
    """
    inside = words(text[start:end])
    if not inside:
        return ()
    left = words(text[max(0, start - _NEAR) : start])[-AROUND:]
    right = words(text[end : end + _NEAR])[:AROUND]
    found: list[Gram] = []
    if len(left) == AROUND:
        found.append((*left, inside[0]))
    if len(right) == AROUND:
        found.append((inside[-1], *right))
    return tuple(found)


class Remains:
    """What a compaction left of a conversation, to be searched.

    :param messages: all that the model sees but the system prompt.
    """

    def __init__(self, messages: Iterable[Message]) -> None:
        self._texts = [said(message).text for message in messages]

    @cached_property
    def _plain(self) -> str:
        return "\n".join(plain(text) for text in self._texts)

    @cached_property
    def vocabulary(self) -> frozenset[str]:
        """All words in it, in lower case."""
        return frozenset(word.lower() for text in self._texts for word in words(text))

    @cached_property
    def _pairs(self) -> frozenset[Gram]:
        return frozenset(pair for text in self._texts for pair in pairwise(words(text)))

    @cached_property
    def _grams(self) -> frozenset[Gram]:
        found: set[Gram] = set()
        for text in self._texts:
            each = words(text)
            found.update(zip(*(each[offset:] for offset in range(AROUND + 1)), strict=False))
        return frozenset(found)

    @cached_property
    def _places(self) -> dict[str, set[int]]:
        """The places in which each word stands: lines, and of long lines stretches that overlap by half."""
        index: dict[str, set[int]] = defaultdict(set)
        number = 0
        for text in self._texts:
            for line in text.split("\n"):
                said = words(line)
                for start in range(0, max(1, len(said) - PLACE // 2), PLACE // 2):
                    number += 1
                    for word in said[start : start + PLACE]:
                        index[word].add(number)
        return index

    def has(self, key: str) -> bool:
        """Whether a text stands in it, and is no part of a longer word, name or number there.

        :param key: as `plain` gives it.
        """
        return next(occurrences(self._plain, key), None) is not None

    def has_pair(self, first: str, second: str) -> bool:
        """Whether two words stand side by side somewhere."""
        return (first, second) in self._pairs

    def has_grams(self, grams: Iterable[Gram]) -> bool:
        """Whether all of these words stand side by side somewhere."""
        return all(gram in self._grams for gram in grams)

    def best_place(self, sought: frozenset[str]) -> float:
        """The largest share of these words that stand close together: in one line, `PLACE` words apart at most."""
        counts: dict[int, int] = defaultdict(int)
        for word in sought:
            for place in self._places.get(word, ()):
                counts[place] += 1
        return max(counts.values(), default=0) / max(1, len(sought))


def occurrences(text: str, key: str) -> Iterator[int]:
    """Where a key stands in a text by itself. A path may have more directories before it."""
    at = text.find(key)
    while at >= 0 and key:
        before, behind = text[at - 1 : at] if at else "", text[at + len(key) : at + len(key) + 2]
        open_left = not (_is_word(before) and _is_word(key[0])) and not (before == "." and _is_word(key[0]))
        open_right = not (_is_word(behind[:1]) and _is_word(key[-1]))
        longer = behind[:1] == "." and _is_word(behind[1:]) and _is_word(key[-1])
        if open_left and open_right and not longer:
            yield at
        at = text.find(key, at + 1)


def _is_word(text: str) -> bool:
    return text.isalnum() or text == "_"
