"""What the definitions of a schema say: what they refer to, what tells alternatives
apart, what is in all of them.

Knows nothing of Python's types.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

Schema = dict[str, Any]


def references(node: Any) -> Iterator[str]:
    """Names of the definitions that a piece of schema refers to, as often as it does."""
    if isinstance(node, dict):
        if isinstance(node.get("$ref"), str):
            yield node["$ref"].removeprefix("#/$defs/")
        for value in node.values():
            yield from references(value)
    elif isinstance(node, list):
        for item in node:
            yield from references(item)


def constant_of(option: Schema) -> tuple[str, str | None]:
    """(property, constant) of an alternative such as `{"type": {"const": "text"}}`."""
    for key, part in option.get("properties", {}).items():
        if "const" in part:
            return key, part["const"]
    return "", None


def flattened(schema: Schema, definitions: dict[str, Schema]) -> Schema:
    """One object for a message with alternatives: a constant becomes a string, types
    are joined, what is not in every alternative is optional. An alternative that no
    constant tells apart from the others says nothing of its own.
    """
    properties: Schema = dict(schema.get("properties", {}))
    options = [
        members(option, definitions)
        for option in schema["anyOf"]
        if "not" not in option
    ]
    required: list[str] = list(schema.get("required", []))
    for key in dict.fromkeys(key for option, _ in options for key in option):
        found = [option[key] for option, _ in options if key in option]
        parts = [part for index, part in enumerate(found) if part not in found[:index]]
        everywhere = all(key in must for _, must in options)
        constant = any("const" in part for part in parts)
        if constant:
            properties[key] = (
                {"type": "string"} if everywhere else {"type": ["string", "null"]}
            )
        elif everywhere or (len(parts) == 1 and "null" in json.dumps(parts[0])):
            properties[key] = {"anyOf": parts}
        else:
            properties[key] = {"anyOf": [*parts, {"type": "null"}]}
        required += [key] if everywhere else []
    return {"properties": properties, "required": required}


def members(option: Schema, definitions: dict[str, Schema]) -> tuple[Schema, list[str]]:
    """The properties of an alternative and of all that it refers to, and the names of
    those that it requires.
    """
    properties: Schema = dict(option.get("properties", {}))
    required: list[str] = list(option.get("required", []))
    for part in option.get("allOf", []):
        inner = definitions[part["$ref"].removeprefix("#/$defs/")]
        more, must = members(inner, definitions)
        properties |= more
        required += must
        for scope in inner.get("anyOf", []):
            properties |= members(scope, definitions)[0]
    return properties, required
