"""Texts that should be JSON of a schema. Of a schema nothing is fetched: one that points outside of itself is refused.

Patterns in it are RE2's. The library for schemas is loaded with the first one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, cast

from acp_agent.conversation.messages import JsonObject, JsonValue
from acp_agent.conversation.strict_json import parse_json
from acp_agent.patterns import PatternError, compile_pattern

if TYPE_CHECKING:
    from jsonschema import ValidationError

_MOST_FAULTS = 5
"""Faults that are named at once."""

_FENCED = re.compile(
    r"^[ \t]*(?P<mark>`{3,}|~{3,})[ \t]*(?P<info>[^\n`]*)\n(?P<text>.*?)^[ \t]*(?P=mark)[`~]*[ \t]*$",
    re.DOTALL | re.MULTILINE,
)

_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")


def form_fault(text: str, schema: JsonObject) -> str | None:
    """Return what is wrong with a text that should be JSON of a form, each with its place, the first few; None where
    nothing is. The JSON is the whole text, or the last of its fences that are `json` or have no language.

    :param schema: one without a fault.
    """
    try:
        value = parse_json(text)
    except ValueError as error:
        fences = [found["text"] for found in _FENCED.finditer(text) if found["info"].strip().lower() in ("", "json")]
        if not fences:
            return f"it is no JSON ({error}), and has no fence with JSON either"
        try:
            value = parse_json(fences[-1])
        except ValueError as inner:
            return f"what stands in its last fence is no JSON ({inner})"
    found: Iterator[ValidationError] = _validator_class(schema)(schema).iter_errors(value)
    errors = sorted(found, key=lambda error: [str(part) for part in error.absolute_path])
    named = [f"{error.json_path}: {_short(error.message)}" for error in errors[:_MOST_FAULTS]]
    if len(errors) > _MOST_FAULTS:
        named.append(f"and {len(errors) - _MOST_FAULTS} more")
    return "; ".join(named) or None


def schema_fault(schema: object) -> str | None:
    """Return what is wrong with a schema; None where it can be used."""
    from jsonschema import FormatChecker, SchemaError

    if not isinstance(schema, dict):
        return "it should be an object"
    checked = cast(JsonObject, schema)
    parts = list(_parts(checked))
    for reference in (part[key] for part in parts for key in _REFERENCES if key in part):
        if isinstance(reference, str) and not reference.startswith("#"):
            return f"`$ref: {reference}` leads out of it; only what begins with # may be referred to"
    if any("patternProperties" in part for part in parts) and any("unevaluatedProperties" in part for part in parts):
        return "`unevaluatedProperties` and `patternProperties` cannot stand in one schema; use `additionalProperties`"
    try:
        # Without formats: `regex` would be Python's.
        _validator_class(checked).check_schema(checked, format_checker=FormatChecker(()))
        for pattern in (pattern for part in parts for pattern in _patterns(part)):
            compile_pattern(pattern)
    except PatternError as error:
        return str(error)
    except SchemaError as error:
        where = ".".join(str(part) for part in error.absolute_path)
        return f"{f'{where}: ' if where else ''}{error.message}"
    return None


def _validator_class(schema: JsonObject) -> Any:
    """Return jsonschema's for the schema's version, with keywords that match by RE2 in place of Python's `re`."""
    from jsonschema import validators

    library = cast("Any", validators)
    keywords = {
        "pattern": _pattern,
        "patternProperties": _pattern_properties,
        "additionalProperties": _additional_properties,
    }
    return library.extend(library.validator_for(schema, default=validators.Draft202012Validator), keywords)


def _parts(schema: JsonValue) -> Iterator[JsonObject]:
    """Yield the objects in a schema, itself among them."""
    if isinstance(schema, dict):
        yield schema
    for inner in schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ():
        yield from _parts(inner)


def _patterns(part: JsonObject) -> Iterator[str]:
    properties = part.get("patternProperties")
    yield from properties if isinstance(properties, dict) else ()
    if isinstance(pattern := part.get("pattern"), str):
        yield pattern


def _pattern(validator: Any, pattern: str, value: JsonValue, schema: JsonObject) -> Iterator[ValidationError]:
    from jsonschema import ValidationError

    if isinstance(value, str) and compile_pattern(pattern).search(value) is None:
        yield ValidationError(f"{value!r} does not match {pattern!r}")


def _pattern_properties(
    validator: Any, properties: Mapping[str, JsonValue], value: JsonValue, schema: JsonObject
) -> Iterator[ValidationError]:
    if isinstance(value, dict):
        for pattern, inner in properties.items():
            compiled = compile_pattern(pattern)
            for name in (name for name in value if compiled.search(name) is not None):
                yield from validator.descend(value[name], inner, path=name, schema_path=pattern)


def _additional_properties(
    validator: Any, allowed: JsonValue, value: JsonValue, schema: JsonObject
) -> Iterator[ValidationError]:
    from jsonschema import ValidationError

    if not isinstance(value, dict):
        return
    patterns = [compile_pattern(pattern) for pattern in cast(JsonObject, schema.get("patternProperties", {}))]
    known = cast(JsonObject, schema.get("properties", {}))
    others = [name for name in value if name not in known and all(each.search(name) is None for each in patterns)]
    if isinstance(allowed, dict):
        for name in others:
            yield from validator.descend(value[name], allowed, path=name)
    elif not allowed and others:
        yield ValidationError(f"Additional properties are not allowed: {', '.join(map(repr, others))}")


def _short(text: str) -> str:
    return text if len(text) <= 300 else f"{text[:300]}…"
