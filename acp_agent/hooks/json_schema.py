"""JSON in a model's answer, and whether it has the form that a JSON Schema demands.

Nothing is fetched: a schema that points outside of itself is none that we take. The library is loaded with the first
schema.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import cast

from acp_agent.conversation.messages import JsonObject, JsonValue

MOST_FAULTS = 5
"""That are named at once."""

_FENCED = re.compile(
    r"^[ \t]*(?P<mark>`{3,}|~{3,})[ \t]*(?P<info>[^\n`]*)\n(?P<text>.*?)^[ \t]*(?P=mark)[`~]*[ \t]*$",
    re.DOTALL | re.MULTILINE,
)


class NoJsonError(ValueError):
    """A text is no JSON; says why."""


def json_of(answer: str) -> JsonValue:
    """The JSON that an answer is, or that stands in the last of its fences that are `json` or have no language.

    :raises NoJsonError: there is none.
    """
    try:
        return _parse(answer)
    except ValueError as error:
        fault = error
    fences = [found["text"] for found in _FENCED.finditer(answer) if found["info"].strip().lower() in ("", "json")]
    if not fences:
        raise NoJsonError(f"it is no JSON ({fault}), and has no fence with JSON either") from fault
    try:
        return _parse(fences[-1])
    except ValueError as error:
        raise NoJsonError(f"what stands in its last fence is no JSON ({error})") from error


def schema_fault(schema: object) -> str | None:
    """What is wrong with a schema; None where it can be used."""
    from jsonschema import SchemaError
    from jsonschema.validators import Draft202012Validator, validator_for

    if not isinstance(schema, dict):
        return "it should be an object"
    checked = cast(JsonObject, schema)
    for reference in _references(checked):
        if not reference.startswith("#"):
            return f"`$ref: {reference}` leads out of it; only what begins with # may be referred to"
    try:
        validator_for(checked, default=Draft202012Validator).check_schema(checked)
    except SchemaError as error:
        where = ".".join(str(part) for part in error.absolute_path)
        return f"{f'{where}: ' if where else ''}{error.message}"
    return None


def faults(value: JsonValue, schema: JsonObject) -> list[str]:
    """What of a value is not as the schema demands, each with its place; the first few.

    :param schema: one without a fault.
    """
    from jsonschema.validators import Draft202012Validator, validator_for

    validator = validator_for(schema, default=Draft202012Validator)(schema)
    errors = sorted(validator.iter_errors(value), key=lambda error: [str(part) for part in error.absolute_path])
    named = [f"{error.json_path}: {_short(error.message)}" for error in errors[:MOST_FAULTS]]
    if len(errors) > MOST_FAULTS:
        named.append(f"and {len(errors) - MOST_FAULTS} more")
    return named


def _parse(text: str) -> JsonValue:
    def refuse(word: str) -> JsonValue:
        raise ValueError(f"{word} is no JSON")

    try:
        return cast(JsonValue, json.loads(text, parse_constant=refuse))
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def _references(schema: object) -> Iterator[str]:
    match schema:
        case dict():
            for key, value in cast("dict[str, object]", schema).items():
                if key in ("$ref", "$dynamicRef", "$recursiveRef") and isinstance(value, str):
                    yield value
                else:
                    yield from _references(value)
        case list():
            for item in cast("list[object]", schema):
                yield from _references(item)
        case _:
            pass


def _short(text: str) -> str:
    return text if len(text) <= 300 else f"{text[:300]}…"
