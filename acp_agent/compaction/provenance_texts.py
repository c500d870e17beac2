"""The texts of a conversation, as the provenance check looks through them: all of an entry, or what a user wrote."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import assert_never
from urllib.parse import unquote

from acp_agent.conversation.entries import Entry
from acp_agent.conversation.messages import (
    Audio,
    CompactedBlock,
    Image,
    JsonValue,
    Resource,
    ResourceLink,
    Text,
    Thinking,
    ToolCall,
    UserPart,
)


def said_by(typed: Iterable[UserPart]) -> Iterator[str]:
    """What the user wrote or pointed at, without the contents of files that came along."""
    for part in typed:
        match part:
            case Text():
                yield part.text
            case ResourceLink():
                yield f"{part.name} {unquote(part.uri)}"
            case Resource():
                yield unquote(part.uri)
            case Image():
                yield part.uri or ""
            case Audio() | CompactedBlock():
                pass
            case _:
                assert_never(part)


def texts_of(entry: Entry) -> Iterator[str]:
    """All texts of an entry, whoever they come from."""
    for part in entry.message.parts:
        match part:
            case Text() | Thinking() | CompactedBlock():
                yield part.text
            case ToolCall():
                yield part.name
                yield part.invalid or ""
                yield from _leaves(part.arguments)
            case Image():
                yield part.uri or ""
            case Audio():
                pass
            case ResourceLink():
                yield f"{part.uri} {unquote(part.uri)} {part.name} {part.title or ''} {part.description or ''}"
            case Resource():
                yield f"{part.uri} {unquote(part.uri)}"
                yield part.text or ""
            case _:
                assert_never(part)


def _leaves(value: JsonValue) -> Iterator[str]:
    """The keys and values of a call's arguments as texts, without the escapes of JSON."""
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            yield from one
            waiting += one.values()
        elif isinstance(one, list):
            waiting += one
        elif one is not None:
            yield one if isinstance(one, str) else str(one)
