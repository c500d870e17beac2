"""Schemas of tool arguments: whatever a server sends is made valid for every provider,
with its meaning kept.
"""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from acp_agent.conversation.messages import JsonObject
from acp_agent.mcp.schemas.normalise import MAX_DEPTH, input_schema
from acp_agent.patterns import is_portable

KINDS = ("string", "number", "integer", "boolean", "object", "array", "null")
IN_PLACE = ("anyOf", "oneOf", "allOf", "not", "if", "then", "else")


def nodes(schema: Any) -> list[dict[str, Any]]:
    """Return the schema and all its subschemas, but no values of `default`, `enum` or
    `examples` that look like one.
    """
    if not isinstance(schema, dict):
        return []
    found = [schema]
    for key, value in schema.items():
        if key in ("properties", "patternProperties", "dependentSchemas", "$defs"):
            found += [node for each in value.values() for node in nodes(each)]
        elif key in ("anyOf", "oneOf", "allOf", "prefixItems"):
            found += [node for each in value for node in nodes(each)]
        elif key not in ("default", "enum", "examples", "dependentRequired"):
            found += nodes(value)
    return found


def assert_every_provider_takes(schema: Any) -> None:
    json.dumps(schema, allow_nan=False)
    Draft202012Validator.check_schema(
        schema, format_checker=Draft202012Validator.FORMAT_CHECKER
    )
    # OpenAI and Anthropic: an object with properties, and no alternatives at the top
    # level.
    assert schema["type"] == "object"
    assert isinstance(schema["properties"], dict)
    assert (
        not {
            "anyOf",
            "oneOf",
            "allOf",
            "not",
            "enum",
            "const",
            "if",
            "$ref",
            "$schema",
            "$id",
        }
        & schema.keys()
    )
    definitions = schema.get("$defs", {})
    referred: set[str] = set()
    for node in nodes(schema):
        kinds = node.get("type", [])
        kinds = [kinds] if isinstance(kinds, str) else kinds
        assert set(kinds) <= set(KINDS)
        # OpenAI: "array schema missing items". Google: "items: missing field".
        assert "array" not in kinds or isinstance(node.get("items"), dict)
        # Google: "required[0]: property is not defined".
        required = node.get("required", [])
        assert set(required) <= node.get("properties", {}).keys()
        assert len(required) == len(set(required))
        assert required or "required" not in node
        # Google: references point into the root's definitions. No other identifiers or
        # anchors remain.
        assert not {"$id", "id", "$anchor", "definitions"} & (
            node.keys() - {"properties"}
        )
        assert node is schema or "$defs" not in node
        if "$ref" in node:
            name = node["$ref"].removeprefix("#/$defs/")
            assert re.fullmatch(r"[A-Za-z0-9_.-]+", name)
            assert name in definitions
            referred.add(name)
        assert node.get("enum", [None])
    assert referred == definitions.keys()


def property_of(schema: Any) -> Any:
    """Return the converted schema of a single argument."""
    made: Any = input_schema({"type": "object", "properties": {"v": schema}})
    assert_every_provider_takes(made)
    return made["properties"]["v"]


BROKEN: dict[str, tuple[Any, Any]] = {
    "array without items": ({"type": "array"}, {"type": "array", "items": {}}),
    "one of several types": (
        {"type": ["array", "null"]},
        {"type": ["array", "null"], "items": {}},
    ),
    "array in an array": (
        {"type": "array", "items": {"type": "array"}},
        {"type": "array", "items": {"type": "array", "items": {}}},
    ),
    "array in alternatives": (
        {"anyOf": [{"type": "array"}]},
        {"anyOf": [{"type": "array", "items": {}}]},
    ),
    "array in other properties": (
        {"type": "object", "additionalProperties": {"type": "array"}},
        {"type": "object", "additionalProperties": {"type": "array", "items": {}}},
    ),
    "items are null": (
        {"type": "array", "items": None},
        {"type": "array", "items": {}},
    ),
    "first items alone": (
        {"type": "array", "prefixItems": [{"type": "array"}]},
        {"type": "array", "prefixItems": [{"type": "array", "items": {}}], "items": {}},
    ),
    "a tuple": (
        {
            "type": "array",
            "items": [{"type": "string"}, {"type": "number"}],
            "additionalItems": False,
        },
        {
            "type": "array",
            "prefixItems": [{"type": "string"}, {"type": "number"}],
            "maxItems": 2,
            "items": {},
        },
    ),
    "an open tuple": (
        {
            "type": "array",
            "items": [{"type": "string"}],
            "additionalItems": {"type": "array"},
        },
        {
            "type": "array",
            "items": {"type": "array", "items": {}},
            "prefixItems": [{"type": "string"}],
        },
    ),
    "an empty tuple": ({"type": "array", "items": []}, {"type": "array", "items": {}}),
    "required is null": ({"type": "object", "required": None}, {"type": "object"}),
    "required names nothing": (
        {"type": "object", "required": ["q"]},
        {"type": "object"},
    ),
    "required twice": (
        {"properties": {"a": {}}, "required": ["a", "a", 1, None, "b"]},
        {"properties": {"a": {}}, "required": ["a"]},
    ),
    "required by the property": (
        {
            "type": "object",
            "properties": {
                "a": {"type": "string", "required": True},
                "b": {"required": False},
            },
        },
        {
            "type": "object",
            "properties": {"a": {"type": "string"}, "b": {}},
            "required": ["a"],
        },
    ),
    "required is one name": (
        {"properties": {"a": {}}, "required": "a"},
        {"properties": {"a": {}}, "required": ["a"]},
    ),
    "an unknown type": ({"type": "any"}, {}),
    "types of Python": ({"type": "str"}, {"type": "string"}),
    "types in capitals": ({"type": "OBJECT"}, {"type": "object"}),
    "types in one text": ({"type": "string | null"}, {"type": ["string", "null"]}),
    "no type": ({"type": None, "description": "d"}, {"description": "d"}),
    "an unknown one of several types": ({"type": ["string", "blob"]}, {}),
    "one type twice": ({"type": ["string", "string"]}, {"type": "string"}),
    "a bound of draft 4": (
        {"type": "number", "minimum": 0, "exclusiveMinimum": True},
        {"type": "number", "exclusiveMinimum": 0},
    ),
    "a bound of draft 4 that holds": (
        {"type": "number", "maximum": 9, "exclusiveMaximum": False},
        {"type": "number", "maximum": 9},
    ),
    "an excluded bound of nothing": (
        {"type": "number", "exclusiveMinimum": True},
        {"type": "number"},
    ),
    "a whole number above": (
        {"type": "integer", "exclusiveMinimum": 0},
        {"type": "integer", "minimum": 1},
    ),
    "a whole number below": (
        {"type": "integer", "exclusiveMaximum": 2.5, "maximum": 7},
        {"type": "integer", "maximum": 2},
    ),
    "no description": (
        {"type": "string", "description": None, "title": 3},
        {"type": "string"},
    ),
    "no regular expression": ({"type": "string", "pattern": "["}, {"type": "string"}),
    "a pattern of Python": (
        {"type": "string", "pattern": "(?P<a>b)"},
        {"type": "string"},
    ),
    "a pattern of names": (
        {"patternProperties": {"*": {}, "^a": {"type": "array"}}},
        {"patternProperties": {"^a": {"type": "array", "items": {}}}},
    ),
    "a lookahead": ({"pattern": r"^(?=.*\d).{8,}$"}, {"pattern": r"^(?=.*\d).{8,}$"}),
    "counts that are none": (
        {"type": "string", "minLength": -1, "maxLength": "9"},
        {"type": "string"},
    ),
    "a bound that is a text": (
        {"type": "number", "minimum": "0", "multipleOf": 0},
        {"type": "number"},
    ),
    "a bound that is no number": (
        {"type": "number", "maximum": float("inf")},
        {"type": "number"},
    ),
    "a default that is no number": (
        {"type": "number", "default": float("nan")},
        {"type": "number"},
    ),
    "no choices": ({"type": "string", "enum": []}, {"type": "string"}),
    "choices twice": (
        {"type": "string", "enum": ["a", "a", "b"]},
        {"type": "string", "enum": ["a", "b"]},
    ),
    "a constant": ({"const": "a"}, {"enum": ["a"], "type": "string"}),
    "choices without a type": (
        {"enum": ["a", "b"]},
        {"enum": ["a", "b"], "type": "string"},
    ),
    "OpenAPI's null": (
        {"type": "string", "nullable": True},
        {"type": ["string", "null"]},
    ),
    "OpenAPI's example": (
        {"type": "string", "example": "a"},
        {"type": "string", "examples": ["a"]},
    ),
    "keywords of others": (
        {"type": "string", "x-order": 1, "markdownDescription": "m"},
        {"type": "string"},
    ),
    "no schema": (None, {}),
    "the name of a type": ("string", {"type": "string"}),
    "yes": (True, {}),
    "no": (False, {"not": {}}),
    "alternatives that are none": (
        {"anyOf": [], "oneOf": None, "allOf": {"type": "string"}},
        {"allOf": [{"type": "string"}]},
    ),
    "alternatives that demand": (
        {
            "type": "object",
            "properties": {"a": {}},
            "anyOf": [{"required": ["a"]}, {"required": ["b"]}],
        },
        {
            "type": "object",
            "properties": {"a": {}},
            "anyOf": [
                {"required": ["a"], "properties": {"a": {}}},
                {"required": ["b"], "properties": {"b": {}}},
            ],
        },
    ),
    "a mistake under not": (
        {"type": "string", "not": {"type": "blob"}},
        {"type": "string"},
    ),
    "nothing under not": ({"type": "string", "not": None}, {"type": "string"}),
    "a mistake in a condition": (
        {"if": {"type": "blob"}, "then": {"minLength": 1}},
        {},
    ),
    "dependencies of draft 7": (
        {"dependencies": {"a": ["b"], "c": {"type": "array"}}},
        {
            "dependentRequired": {"a": ["b"]},
            "dependentSchemas": {"c": {"type": "array", "items": {}}},
        },
    ),
    "a reference to nowhere": (
        {"$ref": "https://example.com/a.json", "title": "t"},
        {"title": "t"},
    ),
}


@pytest.mark.parametrize("what", BROKEN)
def test_what_no_provider_takes_is_mended_wherever_it_stands(what: str) -> None:
    given_, right = BROKEN[what]
    assert property_of(given_) == right
    if isinstance(given_, dict):
        for around in ("items", "additionalProperties", "contains"):
            assert property_of({around: given_})[around] == right
        whole: Any = input_schema(
            {"$defs": {"A": given_}, "properties": {"v": {"$ref": "#/$defs/A"}}}
        )
        assert_every_provider_takes(whole)
        assert whole["$defs"]["A"] == right
        for around in ("anyOf", "oneOf", "allOf"):
            property_of({around: [given_]})
    top: Any = input_schema(given_ if isinstance(given_, dict) else {})
    assert_every_provider_takes(top)


def test_the_top_of_a_schema_is_one_object() -> None:
    assert input_schema({}) == {"type": "object", "properties": {}}
    assert input_schema({"type": "object", "properties": None}) == {
        "type": "object",
        "properties": {},
    }
    assert input_schema({"type": ["object", "null"], "required": ["q"]}) == {
        "type": "object",
        "properties": {},
    }
    text: JsonObject = {"type": "string"}
    number: JsonObject = {"type": "number"}
    both: JsonObject = {"properties": {"a": text, "b": number}, "required": ["a", "b"]}
    one: JsonObject = {"properties": {"a": number, "c": text}, "required": ["a"]}
    assert input_schema({"oneOf": [both, one]}) == {
        "type": "object",
        "properties": {"a": {"anyOf": [text, number]}, "b": number, "c": text},
        "required": ["a"],
    }
    assert input_schema(
        {
            "allOf": [both, {"$ref": "#/definitions/C"}],
            "definitions": {"C": {"properties": {"c": text}}},
        }
    ) == {
        "type": "object",
        "properties": {"a": text, "b": number, "c": text},
        "required": ["a", "b"],
    }


def test_references_lead_into_the_definitions_of_the_root_and_the_others_are_left_out() -> (
    None
):
    schema: JsonObject = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "$id": "https://example.com/tool.json",
        "definitions": {
            "A b": {"type": "array"},
            "unused": {"type": "object"},
            "named": {"$id": "#n", "type": "string"},
        },
        "type": "object",
        "properties": {
            "a": {"$ref": "#/definitions/A%20b", "minItems": 1, "description": "d"},
            "b": {"type": "object", "properties": {"c": {"type": "number"}}},
            "c": {"$ref": "#/properties/b/properties/c"},
            "d": {"$ref": "#n"},
            "e": {"$ref": "tool.json#/definitions/A%20b"},
            "tree": {"type": "array", "items": {"$ref": "#"}},
            "put": {"$ref": "#/$defs/Inner", "$defs": {"Inner": {"type": "boolean"}}},
        },
    }
    made: Any = input_schema(schema)
    assert_every_provider_takes(made)
    properties = made["properties"]
    definitions = made["$defs"]
    # Draft 7 ignores siblings of `$ref`.
    assert properties["a"] == {
        "$ref": "#/$defs/A_b",
        "description": "d",
    }
    assert properties["e"] == {"$ref": "#/$defs/A_b"}
    assert definitions["A_b"] == {"type": "array", "items": {}}
    assert definitions[properties["c"]["$ref"][8:]] == {"type": "number"}
    assert definitions[properties["d"]["$ref"][8:]] == {"type": "string"}
    assert (
        definitions[properties["tree"]["items"]["$ref"][8:]]["properties"] == properties
    )
    assert definitions[properties["put"]["$ref"][8:]] == {"type": "boolean"}
    assert len(definitions) == 5


def test_references_that_only_lead_to_each_other_are_left_out() -> None:
    circle: JsonObject = {
        "A": {"$ref": "#/$defs/B"},
        "B": {"$ref": "#/$defs/A", "title": "b"},
    }
    made = input_schema({"$defs": circle, "properties": {"a": {"$ref": "#/$defs/A"}}})
    assert made == {"type": "object", "properties": {"a": {}}}


def test_a_schema_of_any_depth_is_cut_and_not_an_error() -> None:
    deep: Any = {"type": "string"}
    for _ in range(5 * MAX_DEPTH):
        deep = {"type": "array", "items": deep}
    assert_every_provider_takes(input_schema({"properties": {"a": deep}}))


# --- laws ---

NAMES = st.sampled_from("abc")
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 9)
    | st.floats()
    | st.sampled_from(["", "a", "string", "#/$defs/a", "["]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3)
    ),
    max_leaves=6,
)
KEYWORDS = (
    *(
        "type",
        "items",
        "prefixItems",
        "additionalItems",
        "contains",
        "minContains",
        "properties",
        "patternProperties",
    ),
    *(
        "additionalProperties",
        "required",
        "dependencies",
        "dependentRequired",
        "dependentSchemas",
        "propertyNames",
    ),
    *(
        "anyOf",
        "oneOf",
        "allOf",
        "not",
        "if",
        "then",
        "else",
        "enum",
        "const",
        "minimum",
        "exclusiveMinimum",
        "maximum",
    ),
    *(
        "exclusiveMaximum",
        "multipleOf",
        "minLength",
        "maxItems",
        "pattern",
        "title",
        "description",
        "default",
        "nullable",
    ),
    *(
        "example",
        "examples",
        "deprecated",
        "uniqueItems",
        "$ref",
        "$defs",
        "definitions",
        "$id",
        "id",
        "$anchor",
        "format",
    ),
    *(
        "$schema",
        "$recursiveRef",
        "$dynamicRef",
        "extends",
        "divisibleBy",
        "unevaluatedProperties",
        "x-more",
    ),
)
REFERENCES = st.sampled_from(
    [
        "#",
        "#/$defs/a",
        "#/definitions/b",
        "#/properties/a",
        "#/$defs/a/items",
        "#a",
        "c",
        "https://x/y#/z",
        "#/$defs/é b",
    ]
)
WILD: st.SearchStrategy[Any] = st.recursive(
    JSON,
    lambda inner: st.dictionaries(
        st.sampled_from(KEYWORDS),
        inner
        | st.lists(inner, max_size=3)
        | st.dictionaries(NAMES, inner, max_size=3)
        | st.sampled_from([*KINDS, "int", "any", True, False])
        | REFERENCES,
        max_size=5,
    ),
    max_leaves=25,
)


@given(
    st.dictionaries(
        st.sampled_from(KEYWORDS),
        WILD | st.dictionaries(NAMES, WILD, max_size=3) | REFERENCES,
        max_size=6,
    )
)
def test_whatever_a_server_sends_becomes_what_every_provider_takes(
    schema: JsonObject,
) -> None:
    made = input_schema(schema)
    assert_every_provider_takes(made)
    assert input_schema(made) == made


TEXTS = st.sampled_from(["", "a", "ab", "b1", "xyz"])
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 6)
    | st.sampled_from([0.5, 2.5, -1.5])
    | TEXTS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3)
    ),
    max_leaves=6,
)
LIMITS = st.integers(0, 4)
PLAIN: dict[str, st.SearchStrategy[Any]] = {
    "type": st.sampled_from(KINDS)
    | st.lists(st.sampled_from(KINDS), min_size=1, max_size=3, unique=True),
    "enum": st.lists(VALUES, min_size=1, max_size=3),
    "minimum": st.integers(-3, 6) | st.just(0.5),
    "maximum": st.integers(-3, 6),
    "exclusiveMinimum": st.integers(-3, 6) | st.just(0.5),
    "exclusiveMaximum": st.integers(-3, 6) | st.just(2.5),
    "multipleOf": st.sampled_from([1, 2, 0.5]),
    **dict.fromkeys(
        (
            "minLength",
            "maxLength",
            "minItems",
            "maxItems",
            "minProperties",
            "maxProperties",
        ),
        LIMITS,
    ),
    "uniqueItems": st.booleans(),
    "pattern": st.sampled_from(["^a", "b1$", "^(?=.*b)", r"\d"]),
    "title": TEXTS,
    "default": VALUES,
}


def _valid(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    some = st.lists(inner, min_size=1, max_size=2)
    named = st.dictionaries(NAMES, inner, max_size=3)
    optional: dict[str, st.SearchStrategy[Any]] = {
        **PLAIN,
        **dict.fromkeys(
            (
                "items",
                "contains",
                "not",
                "if",
                "then",
                "else",
                "additionalProperties",
                "propertyNames",
            ),
            inner,
        ),
        **dict.fromkeys(("anyOf", "oneOf", "allOf", "prefixItems"), some),
        "dependentRequired": st.dictionaries(
            NAMES, st.lists(NAMES, max_size=2, unique=True), max_size=2
        ),
        "dependentSchemas": named,
        "patternProperties": st.dictionaries(
            st.sampled_from(["^a", "b"]), inner, max_size=2
        ),
    }
    plain = st.sampled_from(sorted(optional)).flatmap(
        lambda key: st.tuples(st.just(key), optional[key])
    )
    ordinary = st.lists(plain, max_size=4).map(dict)
    with_names = st.tuples(
        ordinary, named, st.lists(NAMES, max_size=3, unique=True)
    ).map(_with_names)
    references = st.sampled_from(
        [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/b", "title": "t"}]
    )
    return ordinary | with_names | references


def _with_names(
    parts: tuple[dict[str, Any], dict[str, Any], list[str]],
) -> dict[str, Any]:
    schema, properties, required = parts
    named = [name for name in required if name in properties]
    return {
        **schema,
        "properties": properties,
        **({"required": named} if named else {}),
    }


VALID: st.SearchStrategy[Any] = st.recursive(
    st.booleans() | st.fixed_dictionaries({}, optional=PLAIN), _valid, max_leaves=8
)


UNREFERRING = VALID.filter(lambda schema: "$ref" not in str(schema))
"""References that lead in a circle are none that a validator can follow."""


@given(VALID, UNREFERRING, UNREFERRING, st.lists(VALUES, min_size=1, max_size=12))
def test_a_valid_schema_accepts_what_it_accepted(
    schema: Any, first: Any, second: Any, values: list[Any]
) -> None:
    whole = {
        "type": "object",
        "properties": {"v": schema},
        "$defs": {"a": first, "b": second},
    }
    Draft202012Validator.check_schema(whole)
    made = input_schema(whole)
    before = Draft202012Validator(whole)
    after = Draft202012Validator(made)
    for value in values:
        is_right = before.is_valid({"v": value})
        assert after.is_valid({"v": value}) == is_right, (schema, made, value)


@given(st.text(st.sampled_from(r"ab1[]()^$\\|*+?{},-:=!<dwbu0Pk."), max_size=12))
def test_a_pattern_that_is_portable_is_one_of_python(pattern: str) -> None:
    assume(is_portable(pattern))
    re.compile(pattern)
