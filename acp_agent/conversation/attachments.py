"""Putting the bytes in an event away: large ones are kept once, beside the log, by the name of what they are.

An event refers to them by their SHA-256 from then on. Knows nothing of where they are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import TypeVar

from acp_agent.conversation.entries import RecipePrompt
from acp_agent.conversation.events import (
    ContextRestored,
    ContextSwapped,
    Event,
    MessageSupplied,
    Pinned,
    RestoredEntry,
    Rewritten,
    ToolReturned,
    UserPrompted,
)
from acp_agent.conversation.messages import (
    AssistantMessage,
    Audio,
    Data,
    Image,
    Message,
    Resource,
    Stored,
    UserPart,
)

STORED_FROM = 4_096
"""Characters of base64 from which on bytes are put away."""

Part = TypeVar("Part", bound=UserPart)
Change = Callable[[Data], Data]
_Held = TypeVar("_Held", Pinned, Rewritten, RestoredEntry)


def put_away(event: Event, blobs: dict[str, bytes]) -> Event:
    """The event with references in the place of large bytes.

    What is no plain base64 stays where it is, since it could not be given back character by character.

    :param blobs: takes the bytes, by their SHA-256.
    """

    def keep(data: Data) -> Data:
        if isinstance(data, Stored) or len(data) < STORED_FROM:
            return data
        return _stored(data, blobs)

    return _changed(event, keep)


def data_of(part: UserPart) -> Data | None:
    """The bytes of a part; None where it has none."""
    match part:
        case Image() | Audio():
            return part.data
        case Resource():
            return part.blob
        case _:
            return None


def with_data(part: Part, data: Data) -> Part:
    """A part that has bytes, with others."""
    match part:
        case Image() | Audio():
            return replace(part, data=data)
        case Resource():
            return replace(part, blob=data)
        case _:
            return part


def stored_in(parts: Iterable[UserPart]) -> Iterator[Stored]:
    """What these parts refer to."""
    for part in parts:
        data = data_of(part)
        if isinstance(data, Stored):
            yield data


def _stored(data: str, blobs: dict[str, bytes]) -> Data:
    import base64
    import hashlib

    try:
        content = base64.b64decode(data, validate=True)
    except ValueError:
        return data
    if base64.b64encode(content).decode("ascii") != data:
        return data
    digest = hashlib.sha256(content).hexdigest()
    blobs[digest] = content
    return Stored(digest, len(content), _is_text(content))


def _is_text(content: bytes) -> bool:
    if b"\0" in content:
        return False
    try:
        content.decode("utf-8")
    except ValueError:
        return False
    return True


def _changed(event: Event, change: Change) -> Event:
    match event:
        case UserPrompted():
            shown = _parts(event.shown, change)
            sent = None if event.sent is None else _parts(event.sent, change)
            return event if shown is event.shown and sent is event.sent else replace(event, shown=shown, sent=sent)
        case ToolReturned():
            result = _message(event.result, change)
            return event if result is event.result else replace(event, result=result)
        case MessageSupplied():
            message = _message(event.message, change)
            return event if message is event.message else replace(event, message=message)
        case ContextSwapped():
            return replace(
                event,
                sent=_parts(event.sent, change),
                pinned=_held(event.pinned, change),
                rewritten=_held(event.rewritten, change),
            )
        case ContextRestored():
            return replace(event, entries=_held(event.entries, change))
        case _:
            return event


def _held(items: tuple[_Held, ...], change: Change) -> tuple[_Held, ...]:
    return tuple(replace(item, message=_message(item.message, change)) for item in items)


_Message = TypeVar("_Message", bound=Message)


def _message(message: _Message, change: Change) -> _Message:
    if isinstance(message, AssistantMessage):
        return message
    if isinstance(message, RecipePrompt):
        return replace(message, parts=_parts(message.parts, change), typed=_parts(message.typed, change))
    parts = _parts(message.parts, change)
    return message if parts is message.parts else replace(message, parts=parts)


_Parts = TypeVar("_Parts", bound=UserPart)


def _parts(parts: tuple[_Parts, ...], change: Change) -> tuple[_Parts, ...]:
    """The parts with the change in those that have bytes; the same tuple where none has."""
    if all(data_of(part) is None for part in parts):
        return parts
    return tuple(part if (data := data_of(part)) is None else with_data(part, change(data)) for part in parts)
