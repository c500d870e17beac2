"""Events to JSON and back: the persisted form of the log.

pydantic reads and writes the dataclasses as they stand, so that this border has no second description of them. There is
one adapter per kind of event, built on first use: building all of them takes longer than a new session should.
"""

from __future__ import annotations

import json
import re
from dataclasses import fields
from functools import cache
from typing import TYPE_CHECKING, cast, get_args

from acp_agent.conversation.events import Event
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
    """One event as JSON; its kind is stored beside it.

    Lone surrogates (a file name that is no UTF-8, a broken escape in a model's answer), which no database and no wire
    takes, become U+FFFD, and so does what is nested so deeply in a call's arguments that it could not be read back.
    """
    adapter = _adapter(event.kind)
    try:
        text = adapter.dump_json(event, ensure_ascii=False, warnings=False).decode()
        # pydantic writes deeper than it reads; an entry that cannot be read would close the session for good.
        if text.count("[") + text.count("{") > _DEEPEST:
            adapter.validate_json(text)
    except (ValueError, RecursionError):
        return json.dumps(_storable(event, 0), ensure_ascii=False)
    return text


def decode(kind: str, data: str) -> Event:
    """The event that `encode` made this text from.

    :param kind: the event's `kind`.
    :param data: what `encode` returned.
    :raises StorageError: the text is no event of this version.
    """
    try:
        return _adapter(kind).validate_json(data)
    except (KeyError, ValueError) as error:
        raise StorageError(
            f"The session's log holds an entry ({kind!r}) that this version cannot read. It may have been written by a "
            "newer version: update acp-agent and try again. Nothing was changed."
        ) from error


def _storable(value: object, depth: int) -> object:
    if isinstance(value, str):
        return _SURROGATE.sub("\ufffd", value)
    if value is None or isinstance(value, int | float):
        return value
    if depth > _DEEPEST:
        return "\ufffd"
    if isinstance(value, dict):
        items = cast("dict[str, object]", value).items()
        return {_SURROGATE.sub("\ufffd", key): _storable(item, depth + 1) for key, item in items}
    if isinstance(value, list | tuple):
        return [_storable(item, depth + 1) for item in cast("list[object]", value)]
    names = (field.name for field in fields(cast("DataclassInstance", value)))
    return {name: _storable(getattr(value, name), depth + 1) for name in names}
