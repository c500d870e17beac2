"""Parses JSON as RFC 8259 defines it, and reads the fields of JSON objects from other
programs. A field of the wrong type counts as absent.

Python's own parser also accepts `NaN` and `Infinity`, and reads `1e999` as infinity. No
provider or editor accepts such a value.
"""

from __future__ import annotations

import json
import math

from acp_agent.conversation.messages import JsonObject, JsonValue
from acp_agent.json_bounds import has_too_many_values

MAX_COUNT = 1_000_000_000_000
"""More than any valid count of tokens, bytes or list items."""


def parse_json(text: str) -> JsonValue:
    """Parse JSON text.

    :raises ValueError: if the text is not JSON, or contains a number that is not
        finite. The message gives the reason.
    """
    try:
        value: JsonValue = _decoder.decode(text)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    return value


def is_finite(value: JsonValue) -> bool:
    """Return whether all numbers in `value`, at any depth, are finite."""
    waiting = [value]
    while waiting:
        match waiting.pop():
            case float() as number if not math.isfinite(number):
                return False
            case dict() as members:
                waiting.extend(members.values())
            case list() as items:
                waiting.extend(items)
            case _:
                pass
    return True


def _finite(number: str) -> float:
    value = float(number)
    if not math.isfinite(value):
        raise ValueError(f"{number[:20]} is out of the range of numbers")
    return value


def _refuse(word: str) -> JsonValue:
    raise ValueError(f"{word} is no JSON")


_decoder = json.JSONDecoder(parse_float=_finite, parse_constant=_refuse)


def parse_object(data: bytes | str) -> JsonObject | None:
    """Parse JSON text as an object. Return None if it is invalid, not an object, or has
    too many values.
    """
    try:
        content = (
            data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data
        )
        value: JsonValue = None if has_too_many_values(content) else json.loads(data)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def get_text(source: JsonObject, key: str) -> str:
    """Return a string field, or the empty string."""
    value = source.get(key)
    return value if isinstance(value, str) else ""


def get_int(source: JsonObject, key: str) -> int:
    """Return a number field as an integer, or 0 if it is absent or out of range, such
    as `1e400`, which is infinity.
    """
    value = source.get(key)
    return (
        int(value)
        if isinstance(value, int | float) and -MAX_COUNT < value < MAX_COUNT
        else 0
    )


def get_object(source: JsonObject, key: str) -> JsonObject:
    """Return an object field, or an empty one."""
    value = source.get(key)
    return value if isinstance(value, dict) else {}


def get_objects(source: JsonObject, key: str) -> list[JsonObject]:
    """Return the objects in a list field."""
    value = source.get(key)
    return (
        [item for item in value if isinstance(item, dict)]
        if isinstance(value, list)
        else []
    )
