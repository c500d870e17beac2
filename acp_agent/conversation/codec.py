"""Converts events to JSON and back: the persisted form of the log.

pydantic reads and writes the dataclasses directly. There is one adapter per kind of
event, built on first use, since building all of them would delay a new session. Events
that contain only texts (the start of a log, a prompt, the end of a turn) and the
definitions of tools are written without pydantic, so that neither a new session nor a
turn that is cancelled at once imports it.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import fields
from functools import cache
from typing import TYPE_CHECKING, cast, get_args

from acp_agent.conversation.events import (
    Event,
    InstructionsLoaded,
    NoteAdded,
    SessionStarted,
    TitleChanged,
    ToolsDeclared,
    TurnEnded,
    UserPrompted,
)
from acp_agent.conversation.messages import ResourceLink, Text
from acp_agent.errors import StorageError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance
    from pydantic import TypeAdapter

_CLASSES: dict[str, type[Event]] = {
    cast(str, cls.__dataclass_fields__["kind"].default): cls
    for cls in cast("tuple[type[Event], ...]", get_args(Event))
}
_SURROGATE = re.compile("[\ud800-\udfff]")
_DEEPEST = 100


@cache
def _adapter(kind: str) -> TypeAdapter[Event]:
    from pydantic import TypeAdapter

    return TypeAdapter(_CLASSES[kind])


def encode(event: Event) -> str:
    """Return one event as JSON. Its kind is stored in a separate column.

    Lone surrogates (from a file name that is not UTF-8, or a broken escape in a model's
    answer) become U+FFFD, since no database or client accepts them. Values in a call's
    arguments that are nested too deeply to be read back also become U+FFFD. Numbers
    that JSON cannot represent become null.
    """
    if _has_only_texts(event):
        return json.dumps(_storable(event, 0), ensure_ascii=False)
    adapter = _adapter(event.kind)
    try:
        text = adapter.dump_json(event, ensure_ascii=False, warnings=False).decode()
        # pydantic writes deeper nesting than it reads. An unreadable entry would make
        # the session unusable forever.
        if text.count("[") + text.count("{") > _DEEPEST:
            adapter.validate_json(text)
    except (ValueError, RecursionError):
        return json.dumps(_storable(event, 0), ensure_ascii=False)
    return text


def _has_only_texts(event: Event) -> bool:
    """Return whether an event is simple enough to be written without pydantic."""
    if isinstance(event, UserPrompted):
        return all(
            isinstance(part, Text | ResourceLink)
            for part in (*event.shown, *(event.sent or ()))
        )
    return isinstance(
        event,
        SessionStarted
        | InstructionsLoaded
        | ToolsDeclared
        | TitleChanged
        | NoteAdded
        | TurnEnded,
    )


def decode(kind: str, data: str, seq: int | None = None) -> Event:
    """Undo `encode`.

    :param kind: the event's `kind`.
    :param data: the text from `encode`.
    :param seq: the event's number in the log, for the error message.
    :raises StorageError: if this version cannot read the event.
    """
    try:
        return _adapter(kind).validate_json(data)
    except (KeyError, ValueError) as error:
        raise StorageError(
            f"The session's log contains an entry ({'' if seq is None else f'number {seq}, '}{kind!r}) that this "
            "version cannot read. It was written by a newer version, or it is damaged: update acp-agent and try "
            "again. Nothing was changed."
        ) from error


def _storable(value: object, depth: int) -> object:
    if isinstance(value, str):
        return _SURROGATE.sub("\ufffd", value)
    if value is None or isinstance(value, int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if depth > _DEEPEST:
        return "\ufffd"
    if isinstance(value, dict):
        items = cast("dict[str, object]", value).items()
        return {
            _SURROGATE.sub("\ufffd", key): _storable(item, depth + 1)
            for key, item in items
        }
    if isinstance(value, list | tuple):
        return [_storable(item, depth + 1) for item in cast("list[object]", value)]
    names = (field.name for field in fields(cast("DataclassInstance", value)))
    return {name: _storable(getattr(value, name), depth + 1) for name in names}
