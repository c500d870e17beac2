"""Putting the bytes in an event away, and its long texts: kept once, beside the log, by the name of what they are.

An event refers to them by their SHA-256 from then on: to bytes wherever it is, to texts only in what is persisted, so
that whoever reads the log has the words before them. Knows nothing of where they are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Protocol, TypeVar

from acp_agent.conversation.encoding import decoded, plain, text_in
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
"""Characters, of base64 or of text, from which on it is put away."""

Part = TypeVar("Part", bound=UserPart)
_Held = TypeVar("_Held", Pinned, Rewritten, RestoredEntry)


def put_away(event: Event, blobs: dict[str, bytes]) -> Event:
    """The event with references in the place of large bytes.

    What is no plain base64 stays where it is, since it could not be given back character by character.

    :param blobs: takes the bytes, by their SHA-256.
    """

    def keep(part: Part) -> Part:
        data = data_of(part)
        if data is None or isinstance(data, Stored) or len(data) < STORED_FROM:
            return part
        stored = _stored(data, blobs)
        return part if stored is data else with_data(part, stored)

    return _changed(event, keep)


def put_texts_away(event: Event, blobs: dict[str, bytes]) -> Event:
    """The event with references in the place of the long texts of files that came along, as it is persisted.

    What is no Unicode stays where it is, for the codec to mend.

    :param blobs: takes their bytes, by their SHA-256.
    """

    def keep(part: Part) -> Part:
        if not isinstance(part, Resource) or part.blob is not None or len(part.text or "") < STORED_FROM:
            return part
        try:
            content = (part.text or "").encode()
        except UnicodeEncodeError:
            return part
        return replace(part, text=None, blob=replace(_kept(content, blobs), of_text=True))

    return _changed(event, keep)


def with_texts(event: Event, read: Callable[[str], bytes | None]) -> Event:
    """The event that `put_texts_away` made this one from.

    :param read: bytes by their SHA-256; None where they are gone, and then the reference stays.
    """

    def bring(part: Part) -> Part:
        if not isinstance(part, Resource) or not isinstance(part.blob, Stored) or not part.blob.of_text:
            return part
        content = read(part.blob.sha256)
        return part if content is None else replace(part, text=content.decode(), blob=None)

    return _changed(event, bring)


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
    content = decoded(data) if plain(data) == data else None
    return data if content is None else _kept(content, blobs)


def _kept(content: bytes, blobs: dict[str, bytes]) -> Stored:
    import hashlib

    digest = hashlib.sha256(content).hexdigest()
    blobs[digest] = content
    return Stored(digest, len(content), text_in(content) is not None)


class _Change(Protocol):
    def __call__(self, part: Part) -> Part: ...


def _changed(event: Event, change: _Change) -> Event:
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


def _held(items: tuple[_Held, ...], change: _Change) -> tuple[_Held, ...]:
    return tuple(replace(item, message=_message(item.message, change)) for item in items)


_Message = TypeVar("_Message", bound=Message)


def _message(message: _Message, change: _Change) -> _Message:
    if isinstance(message, AssistantMessage):
        return message
    if isinstance(message, RecipePrompt):
        return replace(message, parts=_parts(message.parts, change), typed=_parts(message.typed, change))
    parts = _parts(message.parts, change)
    return message if parts is message.parts else replace(message, parts=parts)


_Parts = TypeVar("_Parts", bound=UserPart)


def _parts(parts: tuple[_Parts, ...], change: _Change) -> tuple[_Parts, ...]:
    """The parts with the change in each; the same tuple where none is another."""
    changed = tuple(change(part) for part in parts)
    return parts if all(new is old for new, old in zip(changed, parts, strict=True)) else changed
