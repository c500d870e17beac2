"""Which members of a schema some values have, and which they might have: `Definition.member`, and `Definition=value`
for its words and kinds.

    had, known = members_of(definitions, [("Diff", {...}), ...])

A member counts as one that might be there where its definition is met in a value. Knows no schema in particular.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

_CHOICES = ("anyOf", "oneOf")


def members_of(
    definitions: Mapping[str, Any], values: Iterable[tuple[str, Any]]
) -> tuple[frozenset[str], frozenset[str]]:
    """Look through values.

    :param values: each with the name of its definition.
    :returns: what they have, and what is known of all that was met in them.
    """
    seen = _Seen(definitions)
    for name, value in values:
        seen.definition(name, value)
    known = {member for name in seen.met for member in _known(definitions[name], name)}
    return frozenset(seen.had), frozenset(known)


class _Seen:
    def __init__(self, definitions: Mapping[str, Any]) -> None:
        self._definitions = definitions
        self.had: set[str] = set()
        self.met: set[str] = set()

    def definition(self, name: str, value: Any) -> None:
        if name in self._definitions and value is not None:
            self.met.add(name)
            self._visit(self._definitions[name], name, value)

    def _visit(self, schema: Mapping[str, Any], name: str, value: Any) -> None:
        if "$ref" in schema:
            self.definition(schema["$ref"].rpartition("/")[2], value)
        if isinstance(value, str) and schema.get("const") == value:
            self.had.add(f"{name}={value}")
        for key, member in schema.get("properties", {}).items():
            if key in value and key != "_meta":
                if "const" not in member and value[key] is not None:
                    self.had.add(f"{name}.{key}")
                self._visit(member, name, value[key])
        if isinstance(value, list):
            for item in value:
                self._visit(schema.get("items", {}), name, item)
        elif isinstance(value, dict) and isinstance(more := schema.get("additionalProperties"), dict):
            for item in value.values():
                self._visit(more, name, item)
        for part in (*schema.get("allOf", ()), *(each for each in _variants(schema) if _fits(each, value))):
            self._visit(part, name, value)


def _variants(schema: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Those that are known; one that stands for all the others is none."""
    yield from (each for choice in _CHOICES for each in schema.get(choice, ()) if "not" not in each)


def _known(schema: Mapping[str, Any], name: str) -> Iterator[str]:
    if isinstance(schema.get("const"), str):
        yield f"{name}={schema['const']}"
    for key, member in schema.get("properties", {}).items():
        if "const" not in member and key != "_meta":
            yield f"{name}.{key}"
        yield from _known(member, name)
    for part in (*schema.get("allOf", ()), *_variants(schema)):
        yield from _known(part, name)
    if isinstance(schema.get("items"), dict):
        yield from _known(schema["items"], name)


def _fits(schema: Mapping[str, Any], value: Any) -> bool:
    """Whether it may be this variant: by its kind, its type and what it has to have."""
    kinds = {"object": dict, "array": list, "string": str, "null": type(None)}
    if "const" in schema:
        return schema["const"] == value
    if schema.get("type") in kinds and not isinstance(value, kinds[schema["type"]]):
        return False
    if not isinstance(value, dict):
        return True
    properties = schema.get("properties", {})
    said = all(value.get(key) == member["const"] for key, member in properties.items() if "const" in member)
    return said and set(schema.get("required", ())) <= value.keys()
