"""Reading JSON that somebody else wrote: a field of the wrong type counts as absent, and no odd server can break us.

Knows nothing of what the fields mean.
"""

from __future__ import annotations

import json

from acp_agent.conversation.messages import JsonObject, JsonValue


def parse_object(data: bytes | str) -> JsonObject | None:
    """JSON text as an object; None where it is something else or no JSON."""
    try:
        value: JsonValue = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def get_text(source: JsonObject, key: str) -> str:
    """A string field, or the empty string."""
    value = source.get(key)
    return value if isinstance(value, str) else ""


def get_int(source: JsonObject, key: str) -> int:
    """A number field in whole units, or 0."""
    value = source.get(key)
    return int(value) if isinstance(value, int | float) else 0


def get_object(source: JsonObject, key: str) -> JsonObject:
    """An object field, or an empty one."""
    value = source.get(key)
    return value if isinstance(value, dict) else {}


def get_objects(source: JsonObject, key: str) -> list[JsonObject]:
    """The objects in a list field."""
    value = source.get(key)
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def entry_of(source: JsonObject, key: str, id: str) -> JsonObject:
    """The object with this `id` in a list field, or an empty one."""
    return next((item for item in get_objects(source, key) if get_text(item, "id") == id), JsonObject())
