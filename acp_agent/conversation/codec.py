"""Events to JSON and back: the persisted form of the log.

pydantic reads and writes the dataclasses directly. There is one adapter per kind of event, built on first use, since
building all of them would delay a new session. Events that hold only texts (the start of a log, a prompt, the end of a
turn) and the definitions of tools are written without pydantic, so that neither a new session nor an immediately
cancelled turn imports it.
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
    cast(str, cls.__dataclass_fields__["kind"].default): cls for cls in cast("tuple[type[Event], ...]", get_args(Event))
}
_SURROGATE = re.compile("[\ud800-\udfff]")
_DEEPEST = 100


@cache
def _adapter(kind: str) -> TypeAdapter[Event]:
    from pydantic import TypeAdapter

    return TypeAdapter(_CLASSES[kind])


def encode(event: Event) -> str:
    """Return one event as JSON; its kind is stored in a column of its own.

    Lone surrogates (from a file name that is not UTF-8, or a broken escape in a model's answer) become U+FFFD, since no
    database and no client accepts them. So do values nested too deeply in a call's arguments to be read back. Numbers
    that JSON does not have become null.
    """
    if _holds_texts(event):
        return json.dumps(_storable(event, 0), ensure_ascii=False)
    adapter = _adapter(event.kind)
    try:
        text = adapter.dump_json(event, ensure_ascii=False, warnings=False).decode()
        # pydantic writes deeper than it reads; an entry that cannot be read would close the session for good.
        if text.count("[") + text.count("{") > _DEEPEST:
            adapter.validate_json(text)
    except (ValueError, RecursionError):
        return json.dumps(_storable(event, 0), ensure_ascii=False)
    return text


def _holds_texts(event: Event) -> bool:
    if isinstance(event, UserPrompted):
        return all(isinstance(part, Text | ResourceLink) for part in (*event.shown, *(event.sent or ())))
    return isinstance(event, SessionStarted | InstructionsLoaded | ToolsDeclared | TitleChanged | NoteAdded | TurnEnded)


def decode(kind: str, data: str, seq: int | None = None) -> Event:
    """Return the event that `encode` made this text from.

    :param kind: the event's `kind`.
    :param data: what `encode` returned.
    :param seq: its number in the log, to name it where it cannot be read.
    :raises StorageError: the text is not an event that this version can read.
    """
    try:
        return _adapter(kind).validate_json(data)
    except (KeyError, ValueError) as error:
        raise StorageError(
            f"The session's log holds an entry ({'' if seq is None else f'number {seq}, '}{kind!r}) that this version "
            "cannot read. It was written by a newer version, or it is damaged: update acp-agent and try again. Nothing "
            "was changed."
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
        return {_SURROGATE.sub("\ufffd", key): _storable(item, depth + 1) for key, item in items}
    if isinstance(value, list | tuple):
        return [_storable(item, depth + 1) for item in cast("list[object]", value)]
    names = (field.name for field in fields(cast("DataclassInstance", value)))
    return {name: _storable(getattr(value, name), depth + 1) for name in names}
