"""Merges the top level of a schema into one object with all arguments, since providers
reject alternatives there.
"""

from __future__ import annotations

from collections.abc import Iterable

from acp_agent.conversation.messages import JsonObject, JsonValue
from acp_agent.mcp.schemas.keywords import WITHIN, objects, strings

_MAX_DEPTH = 100
_MOST_COMBINED = 200
"""Maximum number of different schemas that are combined for one property."""


class Top:
    """Merges the alternatives at the top level of a schema into one object.

    :param definitions: the definitions that references point to.
    """

    def __init__(self, definitions: JsonObject) -> None:
        self._definitions = definitions
        self._known: dict[str, tuple[JsonObject, list[str]]] = {}

    def arguments(
        self, schema: JsonObject, depth: int = 0
    ) -> tuple[JsonObject, list[str]]:
        """Return the properties of all alternatives, and the names of those that every
        alternative requires.

        :param depth: depth of nested alternatives and references; very deep ones yield
            no arguments.
        """
        if depth > _MAX_DEPTH:
            return {}, []
        own = schema.get("properties")
        properties: JsonObject = dict(own) if isinstance(own, dict) else {}
        required = strings(schema.get("required"))
        parts = [
            self.arguments(each, depth + 1) for each in objects(schema.get("allOf"))
        ]
        for more, needed in (self._referred(schema, depth), *parts):
            _join(properties, more, "allOf")
            required += needed
        for key in ("anyOf", "oneOf"):
            needed_by: list[list[str]] = []
            found: JsonObject = {}
            for each in objects(schema.get(key)):
                more, needed = self.arguments(each, depth + 1)
                _join(found, more, "anyOf")
                needed_by.append(needed)
            properties |= _others(found, properties)
            if needed_by:
                required += [
                    name
                    for name in needed_by[0]
                    if all(name in names for names in needed_by)
                ]
        for each in _conditional(schema):
            properties |= _others(self.arguments(each, depth + 1)[0], properties)
        return properties, list(dict.fromkeys(required))

    def _referred(self, schema: JsonObject, depth: int) -> tuple[JsonObject, list[str]]:
        """Return the result for the target of `$ref`, or nothing if there is no
        reference or it is circular.
        """
        name = str(schema.get("$ref", "")).removeprefix("#/$defs/")
        target = self._definitions.get(name)
        if not isinstance(target, dict):
            return {}, []
        if name not in self._known:
            self._known[name] = {}, []
            self._known[name] = self.arguments(target, depth + 1)
        return self._known[name]


def _join(properties: JsonObject, more: JsonObject, keyword: str) -> None:
    """Add properties. If a property already has a different schema, combine the two
    under `keyword`.
    """
    for name, schema in more.items():
        known = properties.get(name)
        if known is None or known == {}:
            properties[name] = schema
        elif schema not in (known, {}):
            before = (
                known.get(keyword)
                if isinstance(known, dict) and known.keys() == {keyword}
                else None
            )
            others: list[JsonValue] = before if isinstance(before, list) else [known]
            if len(others) >= _MOST_COMBINED:
                properties[name] = {}  # accepts anything
                continue
            both: JsonObject = {
                keyword: others if schema in others else [*others, schema]
            }
            properties[name] = both


def _others(found: JsonObject, known: JsonObject) -> JsonObject:
    return {name: schema for name, schema in found.items() if name not in known}


def _conditional(schema: JsonObject) -> list[JsonObject]:
    dependent = schema.get("dependentSchemas")
    within = [
        schema.get("then"),
        schema.get("else"),
        *(dependent.values() if isinstance(dependent, dict) else ()),
    ]
    return [each for each in within if isinstance(each, dict)]


def branch_properties(schema: JsonObject) -> Iterable[str]:
    """Yield the names of the properties that a schema's alternatives describe."""
    within = [each for key in WITHIN for each in objects(schema.get(key))]
    for each in (*within, *_conditional(schema)):
        properties = each.get("properties")
        yield from properties if isinstance(properties, dict) else ()
        yield from branch_properties(each)


def used_definitions(schema: JsonObject, definitions: JsonObject) -> JsonObject:
    """Return the definitions that a schema refers to, directly or through other
    definitions.
    """
    found: dict[str, None] = {}
    waiting: list[JsonValue] = [schema]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            reference = value.get("$ref")
            name = (
                reference.removeprefix("#/$defs/") if isinstance(reference, str) else ""
            )
            if name in definitions and name not in found:
                found[name] = None
                waiting.append(definitions[name])
            waiting.extend(value.values())
        elif isinstance(value, list):
            waiting.extend(value)
    return {name: each for name, each in definitions.items() if name in found}
