"""Translates older drafts of JSON Schema, and OpenAPI's variant of it, to draft
2020-12.

JSON Schema, "Migrating from older drafts"; OpenAPI 3.0, "Schema Object".
"""

from __future__ import annotations

from acp_agent.conversation.messages import JsonObject, JsonValue

REMARKS = frozenset(
    (
        *(
            "title",
            "description",
            "default",
            "examples",
            "deprecated",
            "readOnly",
            "writeOnly",
        ),
        *("format", "contentEncoding", "contentMediaType", "contentSchema"),
    )
)
"""Keywords that do not constrain the value."""
_RENAMED = {
    "divisibleBy": "multipleOf",
    "extends": "allOf",
    "$recursiveRef": "$ref",
    "$dynamicRef": "$ref",
}


def in_newest_words(schema: JsonObject, *, legacy: bool) -> JsonObject:
    """Translate a schema's own keywords to draft 2020-12, but not those of its
    subschemas.

    :param legacy: whether the schema declares draft 7 or older, in which `$ref`
        overrides its sibling keywords.
    """
    made: JsonObject = {}
    for key, value in schema.items():
        renamed = _RENAMED.get(key, key)
        if renamed == key or renamed not in schema:
            made[renamed] = value
    if legacy and isinstance(made.get("$ref"), str):
        return {
            key: value for key, value in made.items() if key == "$ref" or key in REMARKS
        }
    _rename_items(made)
    _rename_bounds(made)
    _rename_dependencies(made)
    _rename_choices(made)
    _gather_required(made)
    return made


def _rename_items(made: JsonObject) -> None:
    """Translate an `items` list, which used to describe the first items, and
    `additionalItems`, which used to describe the rest.
    """
    items = made.get("items")
    others = made.pop("additionalItems", None)
    if isinstance(items, list):
        del made["items"]
        if items:
            made["prefixItems"] = items
            items = others
        else:
            items = None
        if items is not None:
            made["items"] = items
    if made.get("prefixItems") == []:
        del made["prefixItems"]
    if items is False:  # most providers expect an object here
        del made["items"]
        first = made.get("prefixItems")
        limit = len(first) if isinstance(first, list) else 0
        most = made.get("maxItems")
        is_less = (
            isinstance(most, int) and not isinstance(most, bool) and 0 <= most < limit
        )
        made["maxItems"] = most if is_less else limit


def _rename_bounds(made: JsonObject) -> None:
    """Translate the boolean forms of `exclusiveMinimum` and `exclusiveMaximum`, which
    used to exclude the bound itself.
    """
    for bound, exclusive in (
        ("minimum", "exclusiveMinimum"),
        ("maximum", "exclusiveMaximum"),
    ):
        is_excluded = made.get(exclusive)
        if isinstance(is_excluded, bool):
            del made[exclusive]
            if is_excluded and bound in made:
                made[exclusive] = made.pop(bound)


def _rename_dependencies(made: JsonObject) -> None:
    dependencies = made.pop("dependencies", None)
    if not isinstance(dependencies, dict):
        return
    names: JsonObject = {}
    schemas: JsonObject = {}
    for name, needed in dependencies.items():
        if isinstance(needed, str):  # draft 3
            names[name] = [needed]
        else:
            (names if isinstance(needed, list) else schemas)[name] = needed
    for key, found in (("dependentRequired", names), ("dependentSchemas", schemas)):
        known = made.get(key)
        if found:
            made[key] = {**found, **(known if isinstance(known, dict) else {})}


def _rename_choices(made: JsonObject) -> None:
    """Translate `const` to an `enum` with one value, which all providers know, and
    `nullable` and `example` from OpenAPI.
    """
    if "const" in made:
        made["enum"] = [made.pop("const")]
    if "example" in made:
        made.setdefault("examples", [made["example"]])
    if made.get("nullable") is True and made.get("type") not in (None, "null"):
        kinds = made["type"]
        types: list[JsonValue] = kinds if isinstance(kinds, list) else [kinds]
        made["type"] = types if "null" in types else [*types, "null"]
        choices = made.get("enum")
        if isinstance(choices, list) and None not in choices:
            made["enum"] = [*choices, None]


def _gather_required(made: JsonObject) -> None:
    """Collect the required properties of draft 3, in which each property has its own
    `required: true`.
    """
    properties = made.get("properties")
    required = made.get("required")
    if isinstance(required, bool):
        del made["required"]
        required = None
    if not isinstance(properties, dict):
        return
    names: list[JsonValue] = [
        name
        for name, each in properties.items()
        if isinstance(each, dict) and each.get("required") is True
    ]
    if names:
        given = required if isinstance(required, list) else []
        made["required"] = [*given, *names]
