"""Hypothesis strategies for values of the official schema, written from the schema and not from our models."""

from __future__ import annotations

from functools import cache, reduce
from typing import Any, cast

from hypothesis import strategies as st

from support.schema import Schema, official_schema

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2),
    max_leaves=4,
)


@cache
def values(definition: str, version: int = 1) -> st.SearchStrategy[Any]:
    """Valid values of one of the schema's `$defs`, without undeclared properties, and without kinds of things to come.

    :param version: of the protocol.
    """
    return _values(official_schema(version)["$defs"][definition], version)


def _values(schema: Schema, version: int) -> st.SearchStrategy[Any]:
    if "$ref" in schema:
        name = cast(str, schema["$ref"]).removeprefix("#/$defs/")
        return st.deferred(lambda: values(name, version))
    if "const" in schema:
        return st.just(schema["const"])
    alternatives: list[Schema] = schema.get("oneOf") or schema.get("anyOf") or []
    alternatives = [alternative for alternative in alternatives if "not" not in alternative]
    parts = [_values(part, version) for part in schema.get("allOf", [])]
    if alternatives:
        parts.append(st.one_of([_values(alternative, version) for alternative in alternatives]))
    if "properties" in schema:
        required = schema.get("required", [])
        declared = {key: _values(part, version) for key, part in schema["properties"].items()}
        parts.append(
            st.fixed_dictionaries(
                {key: part for key, part in declared.items() if key in required},
                optional={key: part for key, part in declared.items() if key not in required},
            )
        )
    if parts:
        return parts[0] if len(parts) == 1 else st.tuples(*parts).map(_merged)
    kinds = schema.get("type")
    if isinstance(kinds, list):
        return st.one_of([_plain({**schema, "type": kind}, version) for kind in cast(list[str], kinds)])
    return _plain(schema, version)


def _merged(parts: tuple[dict[str, Any], ...]) -> dict[str, Any]:
    return reduce(lambda left, right: {**left, **right}, parts)


def _plain(schema: Schema, version: int) -> st.SearchStrategy[Any]:
    match schema.get("type"):
        case "string":
            return st.text(min_size=schema.get("minLength", 0), max_size=8)
        case "integer":
            return st.integers(schema.get("minimum", -(2**63)), schema.get("maximum", 2**63 - 1))
        case "number":
            return st.floats(schema.get("minimum"), schema.get("maximum"), allow_nan=False, allow_infinity=False)
        case "boolean":
            return st.booleans()
        case "null":
            return st.none()
        case "array":
            return st.lists(_values(schema["items"], version), min_size=schema.get("minItems", 0), max_size=3)
        case "object" if "additionalProperties" not in schema:
            return st.builds(dict)
        case "object":
            entries = schema["additionalProperties"]
            entry = _values(entries, version) if isinstance(entries, dict) else JSON
            return st.dictionaries(st.text(max_size=5), entry, max_size=2)
        case _:
            return JSON
