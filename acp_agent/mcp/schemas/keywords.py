"""Checks the values of JSON Schema keywords, and keywords that depend on each other.

JSON Schema, draft 2020-12, "Validation".
"""

from __future__ import annotations

import json
import math

from acp_agent.conversation.messages import JsonObject, JsonValue
from acp_agent.conversation.strict_json import is_finite
from acp_agent.mcp.schemas.references import Scope
from acp_agent.patterns import is_portable

TYPES: dict[str, str] = {
    **{
        name: name
        for name in (
            "string",
            "number",
            "integer",
            "boolean",
            "object",
            "array",
            "null",
        )
    },
    **dict.fromkeys(("str", "text", "char"), "string"),
    **dict.fromkeys(("float", "double", "decimal"), "number"),
    **dict.fromkeys(("int", "long", "int32", "int64"), "integer"),
    "bool": "boolean",
    **dict.fromkeys(("dict", "map", "struct", "record"), "object"),
    **dict.fromkeys(("list", "tuple", "set"), "array"),
    **dict.fromkeys(("none", "nil"), "null"),
}
"""The types of JSON Schema, keyed by the names that servers use for them, in lower
case.
"""
WITHIN = ("allOf", "anyOf", "oneOf")
"""Keywords whose subschemas apply to the same value."""
LEFT_OUT: JsonObject = {"": ""}
"""Sentinel for a value that is invalid for its keyword."""


def text(value: JsonValue, scope: Scope) -> JsonValue:
    return value if isinstance(value, str) else LEFT_OUT


def flag(value: JsonValue, scope: Scope) -> JsonValue:
    return value if isinstance(value, bool) else LEFT_OUT


def anything(value: JsonValue, scope: Scope) -> JsonValue:
    return value if is_finite(value) else LEFT_OUT


def examples(value: JsonValue, scope: Scope) -> JsonValue:
    return value if isinstance(value, list) and is_finite(value) else LEFT_OUT


def number(value: JsonValue, scope: Scope) -> JsonValue:
    is_number = (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and math.isfinite(value)
    )
    return value if is_number else LEFT_OUT


def count(value: JsonValue, scope: Scope) -> JsonValue:
    if number(value, scope) is LEFT_OUT or not isinstance(value, int | float):
        return LEFT_OUT
    return int(value) if value >= 0 and value == int(value) else LEFT_OUT


def divisor(value: JsonValue, scope: Scope) -> JsonValue:
    is_divisor = (
        number(value, scope) is not LEFT_OUT
        and isinstance(value, int | float)
        and value > 0
    )
    return value if is_divisor else LEFT_OUT


def pattern(value: JsonValue, scope: Scope) -> JsonValue:
    return value if isinstance(value, str) and is_portable(value) else LEFT_OUT


def choices(value: JsonValue, scope: Scope) -> JsonValue:
    if not isinstance(value, list) or not is_finite(value):
        return LEFT_OUT
    kept: list[JsonValue] = []
    seen: set[object] = set()
    for each in value:
        # In Python, 1 equals 1.0 and True. In JSON Schema, `true` is a different value.
        value_of = (
            json.dumps(each, sort_keys=True) if isinstance(each, dict | list) else each
        )
        key = (isinstance(each, bool | dict | list), value_of)
        if key not in seen:
            seen.add(key)
            kept.append(each)
    return kept or LEFT_OUT


def names(value: JsonValue, scope: Scope) -> JsonValue:
    if isinstance(value, str):
        value = [value]
    return (
        list[JsonValue](dict.fromkeys(strings(value)))
        if isinstance(value, list)
        else LEFT_OUT
    )


def names_by_name(value: JsonValue, scope: Scope) -> JsonValue:
    if not isinstance(value, dict):
        return LEFT_OUT
    return {
        name: list[JsonValue](dict.fromkeys(strings(needed)))
        for name, needed in value.items()
    }


def types(value: JsonValue, scope: Scope) -> JsonValue:
    """Return the types, or `LEFT_OUT` if one of them is unknown, since it could mean
    anything.
    """
    given = value if isinstance(value, list) else [value]
    known: list[str] = []
    for each in given:
        # As in "string | null".
        words = each.split("|") if isinstance(each, str) else [""]
        known += [TYPES.get(word.strip().lower(), "") for word in words]
    types = list[JsonValue](dict.fromkeys(known))
    if not types or "" in types:
        return LEFT_OUT
    return types if len(types) > 1 else types[0]


def strings(value: JsonValue) -> list[str]:
    return (
        [each for each in value if isinstance(each, str)]
        if isinstance(value, list)
        else []
    )


def objects(value: JsonValue) -> list[JsonObject]:
    return (
        [each for each in value if isinstance(each, dict)]
        if isinstance(value, list)
        else []
    )


# --- keywords that depend on each other ---


def settle_alternatives(made: JsonObject, old: JsonObject) -> None:
    """Remove keywords if the keyword they depend on is missing."""
    if "if" in old and "if" not in made:
        made.pop("then", None)
        made.pop("else", None)
    if "contains" not in made:
        made.pop("minContains", None)
        made.pop("maxContains", None)


def settle_type(made: JsonObject) -> None:
    """Add `items` to arrays, make the bounds of integers inclusive, and add the type to
    a string `enum`.
    """
    kind = made.get("type")
    if kind == "array" or (isinstance(kind, list) and "array" in kind):
        made.setdefault("items", {})
    if kind == "integer":
        above = made.pop("exclusiveMinimum", None)
        below = made.pop("exclusiveMaximum", None)
        least = made.get("minimum")
        most = made.get("maximum")
        if isinstance(above, int | float):
            bound = math.floor(above) + 1
            made["minimum"] = (
                max(bound, least) if isinstance(least, int | float) else bound
            )
        if isinstance(below, int | float):
            bound = math.ceil(below) - 1
            made["maximum"] = (
                min(bound, most) if isinstance(most, int | float) else bound
            )
    choices = made.get("enum")
    if (
        isinstance(choices, list)
        and "type" not in made
        and all(isinstance(each, str) for each in choices)
    ):
        made["type"] = "string"
