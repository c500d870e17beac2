"""The top of a schema: one object with all arguments, since providers take no alternatives there."""

from __future__ import annotations

from collections.abc import Iterable

from acp_agent.conversation.messages import JsonObject, JsonValue
from acp_agent.mcp.schemas.keywords import WITHIN, objects, strings


class Top:
    """Makes one object of the alternatives at the top of a schema.

    :param definitions: to which references lead.
    """

    def __init__(self, definitions: JsonObject) -> None:
        self._definitions = definitions
        self._known: dict[str, tuple[JsonObject, list[str]]] = {}

    def arguments(self, schema: JsonObject) -> tuple[JsonObject, list[str]]:
        """Return the properties that any of the alternatives has, and those that all of them require."""
        own = schema.get("properties")
        properties: JsonObject = dict(own) if isinstance(own, dict) else {}
        required = strings(schema.get("required"))
        for more, needed in (self._referred(schema), *map(self.arguments, objects(schema.get("allOf")))):
            _join(properties, more, "allOf")
            required += needed
        for key in ("anyOf", "oneOf"):
            needed_by: list[list[str]] = []
            found: JsonObject = {}
            for each in objects(schema.get(key)):
                more, needed = self.arguments(each)
                _join(found, more, "anyOf")
                needed_by.append(needed)
            properties |= _others(found, properties)
            if needed_by:
                required += [name for name in needed_by[0] if all(name in names for names in needed_by)]
        for each in _conditional(schema):
            properties |= _others(self.arguments(each)[0], properties)
        return properties, list(dict.fromkeys(required))

    def _referred(self, schema: JsonObject) -> tuple[JsonObject, list[str]]:
        """Return the same of what a schema refers to; nothing if it refers to nothing, or to what is around it."""
        name = str(schema.get("$ref", "")).removeprefix("#/$defs/")
        target = self._definitions.get(name)
        if not isinstance(target, dict):
            return {}, []
        if name not in self._known:
            self._known[name] = {}, []
            self._known[name] = self.arguments(target)
        return self._known[name]


def _join(properties: JsonObject, more: JsonObject, keyword: str) -> None:
    """Add properties; one that is described in two ways is described by both, or by either."""
    for name, schema in more.items():
        known = properties.get(name)
        if known is None or known == {}:
            properties[name] = schema
        elif schema not in (known, {}):
            before = known.get(keyword) if isinstance(known, dict) and known.keys() == {keyword} else None
            others: list[JsonValue] = before if isinstance(before, list) else [known]
            both: JsonObject = {keyword: others if schema in others else [*others, schema]}
            properties[name] = both


def _others(found: JsonObject, known: JsonObject) -> JsonObject:
    return {name: schema for name, schema in found.items() if name not in known}


def _conditional(schema: JsonObject) -> list[JsonObject]:
    dependent = schema.get("dependentSchemas")
    within = [schema.get("then"), schema.get("else"), *(dependent.values() if isinstance(dependent, dict) else ())]
    return [each for each in within if isinstance(each, dict)]


def branch_properties(schema: JsonObject) -> Iterable[str]:
    """Yield the names of the properties that are described within a schema's alternatives."""
    within = [each for key in WITHIN for each in objects(schema.get(key))]
    for each in (*within, *_conditional(schema)):
        properties = each.get("properties")
        yield from properties if isinstance(properties, dict) else ()
        yield from branch_properties(each)


def used_definitions(schema: JsonObject, definitions: JsonObject) -> JsonObject:
    """Return the definitions that a schema refers to, or that one of those does."""
    found: dict[str, None] = {}
    waiting: list[JsonValue] = [schema]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            reference = value.get("$ref")
            name = reference.removeprefix("#/$defs/") if isinstance(reference, str) else ""
            if name in definitions and name not in found:
                found[name] = None
                waiting.append(definitions[name])
            waiting.extend(value.values())
        elif isinstance(value, list):
            waiting.extend(value)
    return {name: each for name, each in definitions.items() if name in found}
