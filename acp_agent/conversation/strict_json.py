"""JSON as RFC 8259 defines it, and the fields of JSON from other programs: one of the wrong type counts as absent.

Python's own reader also takes `NaN` and `Infinity`, and reads `1e999` as infinity. No provider and no editor takes such
a value back.
"""

from __future__ import annotations

import json
import math

from acp_agent.conversation.messages import JsonObject, JsonValue
from acp_agent.json_bounds import has_too_many_values

MAX_COUNT = 1_000_000_000_000
"""Above what is counted here: tokens, bytes and places in a list."""


def parse_json(text: str) -> JsonValue:
    """Return the value of JSON text.

    :raises ValueError: the text is no JSON, or holds a number that is not finite; says what is wrong.
    """
    try:
        value: JsonValue = _decoder.decode(text)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    return value


def is_finite(value: JsonValue) -> bool:
    """Return whether every number in `value`, however deep, is one that JSON has."""
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
    """Return JSON text as an object; None where it is something else, has too many values, or is no JSON."""
    try:
        content = data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data
        value: JsonValue = None if has_too_many_values(content) else json.loads(data)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def get_text(source: JsonObject, key: str) -> str:
    """Return a string field, or the empty string."""
    value = source.get(key)
    return value if isinstance(value, str) else ""


def get_int(source: JsonObject, key: str) -> int:
    """Return a number field in whole units, or 0; also for one that is no count, such as `1e400`, which is infinity."""
    value = source.get(key)
    return int(value) if isinstance(value, int | float) and -MAX_COUNT < value < MAX_COUNT else 0


def get_object(source: JsonObject, key: str) -> JsonObject:
    """Return an object field, or an empty one."""
    value = source.get(key)
    return value if isinstance(value, dict) else {}


def get_objects(source: JsonObject, key: str) -> list[JsonObject]:
    """Return the objects in a list field."""
    value = source.get(key)
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
