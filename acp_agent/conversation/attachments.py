"""Large bytes and long texts of an event, replaced by references so that the store keeps each once, by its SHA-256.

References to bytes stay in the events that readers get. References to texts exist only in the persisted form; readers
get the text itself.
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
"""Characters, of base64 or of text, from which on it is stored separately."""

Part = TypeVar("Part", bound=UserPart)
_Held = TypeVar("_Held", Pinned, Rewritten, RestoredEntry)


def extract_blobs(event: Event, blobs: dict[str, bytes]) -> Event:
    """Return the event with its large bytes replaced by references.

    Data that is not plain base64 stays in place, since it could not be restored character by character.

    :param blobs: receives the bytes, by their SHA-256.
    """

    def keep(part: Part) -> Part:
        data = data_of(part)
        if data is None or isinstance(data, Stored) or len(data) < STORED_FROM:
            return part
        stored = _stored(data, blobs)
        return part if stored is data else with_data(part, stored)

    return _changed(event, keep)


def extract_texts(event: Event, blobs: dict[str, bytes]) -> Event:
    """Return the event in its persisted form: with the long texts of attached files replaced by references.

    A text with lone surrogates stays in place; the codec replaces them.

    :param blobs: receives their bytes, by their SHA-256.
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


def restore_texts(event: Event, read: Callable[[str], bytes | None]) -> Event:
    """Return the event that `extract_texts` made this one from.

    :param read: returns the bytes of a SHA-256, or None if they are gone; then the reference stays.
    """

    def bring(part: Part) -> Part:
        if not isinstance(part, Resource) or not isinstance(part.blob, Stored) or not part.blob.of_text:
            return part
        content = read(part.blob.sha256)
        return part if content is None else replace(part, text=content.decode(), blob=None)

    return _changed(event, bring)


def data_of(part: UserPart) -> Data | None:
    """Return the bytes of a part; None where it has none."""
    match part:
        case Image() | Audio():
            return part.data
        case Resource():
            return part.blob
        case _:
            return None


def with_data(part: Part, data: Data) -> Part:
    """Return a part with its bytes replaced by `data`."""
    match part:
        case Image() | Audio():
            return replace(part, data=data)
        case Resource():
            return replace(part, blob=data)
        case _:
            return part


def stored_in(parts: Iterable[UserPart]) -> Iterator[Stored]:
    """Yield the references in these parts."""
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
    """Return the parts with the change applied; the same tuple if none has changed."""
    changed = tuple(change(part) for part in parts)
    return parts if all(new is old for new, old in zip(changed, parts, strict=True)) else changed
