"""How much of a text, a picture or a call's arguments goes into one line to an editor.

Some editors give up on a line of 10 MiB. A message is sent in pieces, which the editor puts together; what it cannot
put together is cut, and says so. The log and the model have all of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import cast

from acp_agent.conversation.messages import Text
from acp_agent.protocol import JsonObject, JsonValue
from acp_agent.turn.updates import AgentSaid, AgentThought, CompactionChunk, Update, UserSaid

MAX_DATA = 8_000_000
"""Characters of base64 in one line."""
MAX_TEXT = 1_200_000
"""Characters of text in one line. In JSON, one may take six bytes."""
MAX_VALUE = 10_000
"""Characters of each string in arguments that are too large as a whole."""


def pieces(update: Update) -> Iterator[Update]:
    """The update as one or more, none of whose texts is longer than `MAX_TEXT` if an editor joins it with the next."""
    match update:
        case AgentSaid(text=text) | AgentThought(text=text) | CompactionChunk(text=text) if len(text) > MAX_TEXT:
            for start in range(0, len(text), MAX_TEXT):
                yield replace(update, text=text[start : start + MAX_TEXT])
        case UserSaid(part=Text(text)) if len(text) > MAX_TEXT:
            for start in range(0, len(text), MAX_TEXT):
                yield replace(update, part=Text(text[start : start + MAX_TEXT]))
        case _:
            yield update


def cut(text: str, limit: int = MAX_TEXT) -> str:
    """The beginning of a text with more than `limit` characters, and how much is missing."""
    return text if len(text) <= limit else f"{text[:limit]}\n… ({len(text) - limit} more characters)"


def bounded(value: JsonObject) -> JsonObject:
    """Arguments or a raw result with their long strings cut, where they have more than `MAX_TEXT` characters in all."""
    length = size(value)
    if length <= MAX_TEXT:
        return value
    short = cast("JsonObject", _cut_strings(value))
    return short if size(short) <= MAX_TEXT else {"…": f"{length} characters, too many to be shown"}


def size(value: JsonValue) -> int:
    """Characters of JSON, roughly: two are added to each value for what stands around it."""
    match value:
        case str():
            return len(value) + 2
        case dict():
            return sum(len(key) + 2 + size(item) for key, item in value.items())
        case list():
            return sum(map(size, value)) + 2
        case _:
            return 8


def _cut_strings(value: JsonValue) -> JsonValue:
    match value:
        case str():
            return cut(value, MAX_VALUE)
        case dict():
            return {key: _cut_strings(item) for key, item in value.items()}
        case list():
            return [_cut_strings(item) for item in value]
        case _:
            return value
