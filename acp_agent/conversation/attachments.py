"""Replaces large binary data and long texts in events with references, so that the
store keeps each only once.

References are SHA-256 digests. Readers of events get references to binary data.
References to texts exist only in the persisted form; readers get the text itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields, is_dataclass, replace
from operator import is_
from typing import TypeVar, cast

from acp_agent.conversation.encoding import decoded, plain, text_in
from acp_agent.conversation.events import Event
from acp_agent.conversation.messages import (
    Audio,
    Data,
    Image,
    Resource,
    Stored,
    UserPart,
)

STORED_FROM = 4_096
"""Minimum number of characters, of base64 or text, to store data separately."""

Part = TypeVar("Part", bound=UserPart)
T = TypeVar("T")


def extract_blobs(event: Event, blobs: dict[str, bytes]) -> Event:
    """Return the event with its large binary data replaced by references.

    Data that is not plain base64 stays in place, since it could not be restored
    exactly.

    :param blobs: receives the bytes by SHA-256.
    """

    def extract(part: UserPart) -> UserPart:
        data = data_of(part)
        if data is None or isinstance(data, Stored) or len(data) < STORED_FROM:
            return part
        content = decoded(data) if plain(data) == data else None
        if content is None:
            return part
        return with_data(part, _stored(content, blobs))

    return _changed(event, extract)


def extract_texts(event: Event, blobs: dict[str, bytes]) -> Event:
    """Return the event in its persisted form, with long texts of attached files
    replaced by references.

    A text with lone surrogates stays in place. The codec replaces the surrogates.

    :param blobs: receives the bytes of the texts by SHA-256.
    """

    def extract(part: UserPart) -> UserPart:
        if (
            not isinstance(part, Resource)
            or part.blob is not None
            or len(part.text or "") < STORED_FROM
        ):
            return part
        try:
            content = (part.text or "").encode()
        except UnicodeEncodeError:
            return part
        reference = replace(_stored(content, blobs), of_text=True)
        return replace(part, text=None, blob=reference)

    return _changed(event, extract)


def restore_texts(event: Event, read: Callable[[str], bytes | None]) -> Event:
    """Undo `extract_texts`.

    :param read: returns the bytes with this SHA-256, or None if the store no longer has
        them. In that case, the reference is kept.
    """

    def restore(part: UserPart) -> UserPart:
        if (
            not isinstance(part, Resource)
            or not isinstance(part.blob, Stored)
            or not part.blob.of_text
        ):
            return part
        content = read(part.blob.sha256)
        if content is None:
            return part
        return replace(part, text=content.decode(), blob=None)

    return _changed(event, restore)


def data_of(part: UserPart) -> Data | None:
    """Return the binary data of a part, or None if it has none."""
    match part:
        case Image() | Audio():
            return part.data
        case Resource():
            return part.blob
        case _:
            return None


def with_data(part: Part, data: Data) -> Part:
    """Return a part with its binary data replaced by `data`."""
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


def _stored(content: bytes, blobs: dict[str, bytes]) -> Stored:
    """Add the content to `blobs`, and return a reference to it."""
    import hashlib

    digest = hashlib.sha256(content).hexdigest()
    blobs[digest] = content
    return Stored(digest, len(content), text_in(content) is not None)


def _changed(value: T, change: Callable[[UserPart], UserPart]) -> T:
    """Return the value with the change applied to every part in it, or the same object
    if nothing changed.
    """
    if isinstance(value, Image | Audio | Resource):
        return cast(T, change(value))
    if isinstance(value, tuple):
        items = cast("tuple[object, ...]", value)
        new = tuple(_changed(item, change) for item in items)
        return cast(T, items if all(map(is_, new, items)) else new)
    if not is_dataclass(value) or isinstance(value, type):
        return value
    old = {each.name: getattr(value, each.name) for each in fields(value)}
    made = {name: _changed(item, change) for name, item in old.items()}
    return replace(
        value, **{name: item for name, item in made.items() if item is not old[name]}
    )
