"""What an entry says, text by text with its speaker, and the lines of such a text."""

from __future__ import annotations

import re
from collections.abc import Iterator

from acp_agent.conversation.entries import Entry, RecipePrompt
from acp_agent.conversation.messages import (
    AssistantMessage,
    JsonValue,
    Resource,
    ResourceLink,
    Text,
    ToolCall,
    UserMessage,
)
from acp_agent.frozen import frozen

LONGEST_UNIT = 240
"""Characters; a longer line is parted at the ends of sentences, or else at white space."""

_SENTENCE_END = re.compile(r"[.!?;][\"')\]]*\s+|[。！？]\s*")


@frozen
class Voice:
    """Who says something; what tools, files and recipes say is never labelled as the user's."""

    label: str
    speaks: bool = False  # the user or the model, and not something that was shown to them


_USER, _MODEL = Voice("user", True), Voice("you", True)
_RESULT, _ATTACHED, _RECIPE, _NOTE = map(Voice, ("result", "attached file", "recipe", "note of the program"))


def passages(entry: Entry) -> Iterator[tuple[Voice, str]]:
    """Yield what an entry says; reasoning is left out, since no provider keeps it."""
    message = entry.message
    if isinstance(message, UserMessage):
        voice = _RECIPE if isinstance(message, RecipePrompt) else _NOTE if entry.note else _USER
        typed = message.typed if isinstance(message, RecipePrompt) else ()
        for part in (*typed, *message.parts):
            said = _USER if part in typed else voice
            if isinstance(part, Text):
                yield said, part.text
            elif isinstance(part, Resource | ResourceLink):
                yield said, part.uri
            if isinstance(part, Resource):
                yield _ATTACHED, part.text or ""
    elif isinstance(message, AssistantMessage):
        for part in message.parts:
            if isinstance(part, Text):
                yield _MODEL, part.text
            elif isinstance(part, ToolCall):
                text = "\n".join(_strings(part.arguments)) or part.invalid or ""
                yield Voice(f"call of {_one_line(part.name)}", True), text
    else:
        yield _RESULT, message.text


def units(text: str) -> Iterator[tuple[str, bool]]:
    """Yield the lines of a text, long ones in pieces, and whether a piece goes on in the line of the one before it."""
    for line in text.splitlines():
        if len(line) <= LONGEST_UNIT:
            if line := line.strip():
                yield line, False
            continue
        start, joined = 0, False
        while start < len(line):
            end = _end_of_piece(line, start)
            piece = line[start:end]
            if said := not piece.isspace():
                yield piece, joined
            start, joined = end, said


def _end_of_piece(line: str, start: int) -> int:
    """Return where the piece ends: behind its last whole sentence, or else its last white space."""
    limit = start + LONGEST_UNIT
    if limit >= len(line):
        return len(line)
    ends = [match.end() for match in _SENTENCE_END.finditer(line, start, limit)]
    if ends:
        return ends[-1]
    space = line.rfind(" ", start + LONGEST_UNIT // 2, limit)
    return space + 1 if space >= 0 else limit


def _strings(value: JsonValue) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for each in value:
            yield from _strings(each)
    elif isinstance(value, dict):
        for each in value.values():
            yield from _strings(each)


def _one_line(name: str) -> str:
    return " ".join(name.split())[:80]
