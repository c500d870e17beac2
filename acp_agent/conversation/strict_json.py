"""JSON as RFC 8259 defines it.

Python's own reader also takes `NaN` and `Infinity`, and reads `1e999` as infinity. No provider and no editor takes such
a value back.
"""

from __future__ import annotations

import json
import math

from acp_agent.conversation.messages import JsonValue


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
