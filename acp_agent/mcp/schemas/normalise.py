"""Rewrites the JSON Schema of a tool's arguments into a form that every provider
accepts.

Servers use any draft of JSON Schema or OpenAPI's variant of it, and make mistakes. A
provider that rejects one tool's schema refuses the whole request, and with it every
prompt of the session. `input_schema` returns draft 2020-12. It translates keywords from
older drafts and OpenAPI, and leaves out keywords that draft 2020-12 does not know or
allow. A valid schema still accepts the same values, with three exceptions: alternatives
at the top level become one object, since providers reject them there; every name in
`required` is also in `properties`; and a pattern is kept only if all regular expression
engines accept it.

JSON Schema, draft 2020-12, "Core" and "Validation", and its "Migrating from older
drafts". OpenAI, "Function calling" (`parameters` is an object; an array has `items`).
Anthropic, "Tool use" (`input_schema` is draft 2020-12, without `anyOf`, `oneOf` and
`allOf` at the top). Google, "FunctionDeclaration" and "Schema" (`required` names
properties; references point into `$defs` at the root).
"""

from __future__ import annotations

from collections.abc import Callable

from acp_agent.conversation.messages import JsonObject, JsonValue
from acp_agent.mcp.schemas import keywords
from acp_agent.mcp.schemas.drafts import REMARKS, in_newest_words
from acp_agent.mcp.schemas.keywords import LEFT_OUT, TYPES, WITHIN
from acp_agent.mcp.schemas.references import SchemaReferences, Scope
from acp_agent.mcp.schemas.top import Top, branch_properties, used_definitions
from acp_agent.patterns import is_portable

MAX_VALUES = 20_000
"""Maximum number of values in one tool's schema; a tool with more is not offered. Real
schemas have up to a thousand.
"""
MAX_DEPTH = 60
"""Maximum depth of nested schemas; deeper ones are left out. No real tool nests that
deep, and some providers' parsers fail on it.
"""
_COUNTS = (
    *(
        "minLength",
        "maxLength",
        "minItems",
        "maxItems",
        "minProperties",
        "maxProperties",
    ),
    *("minContains", "maxContains"),
)
_AT_TOP = frozenset(
    (
        "type",
        "properties",
        "required",
        "$ref",
        *WITHIN,
        "not",
        "if",
        "then",
        "else",
        "dependentSchemas",
        "enum",
    )
)
"""Keywords that are not copied unchanged at the top level, since providers reject most
of them there.
"""


def input_schema(schema: JsonObject) -> JsonObject:
    """Return the schema of a tool's arguments: an object with properties, valid under
    draft 2020-12.
    """
    normaliser = _Normaliser(schema)
    scope = normaliser.references.scope
    whole = normaliser.schema(schema, scope)
    while normaliser.references.waiting:
        name, target, place = normaliser.references.waiting.pop(0)
        normaliser.definitions[name] = normaliser.schema(target, place)
    top = Top(normaliser.definitions)
    properties, required = top.arguments(whole)
    made: JsonObject = {
        key: value for key, value in whole.items() if key not in _AT_TOP
    }
    made = {"type": "object", "properties": properties, **made}
    if required:
        made["required"] = list[JsonValue](required)
    if used := used_definitions(made, normaliser.definitions):
        made["$defs"] = used
    return made


def is_too_large(schema: JsonObject) -> bool:
    """Return whether a schema has too many values to be rewritten."""
    waiting: list[JsonValue] = [schema]
    seen = 0
    while waiting and seen <= MAX_VALUES:
        value = waiting.pop()
        seen += 1
        if isinstance(value, dict):
            waiting.extend(value.values())
        elif isinstance(value, list):
            waiting.extend(value)
    return seen > MAX_VALUES


class _Normaliser:
    """Rewrites the schemas of one tool.

    :ivar references: resolves `$ref` in the server's schema.
    :ivar definitions: the rewritten schemas that references point to.
    :ivar loosened: how many constraints were left out. If a schema under `not` or `if`
        loses a constraint, the whole schema is left out.
    """

    def __init__(self, root: JsonObject) -> None:
        self.references = SchemaReferences(root)
        self.definitions: JsonObject = {}
        self.loosened = 0
        self._keywords: dict[str, Callable[[JsonValue, Scope], JsonValue]] = {
            **dict.fromkeys(
                (
                    "title",
                    "description",
                    "format",
                    "contentEncoding",
                    "contentMediaType",
                ),
                keywords.text,
            ),
            **dict.fromkeys(
                ("deprecated", "readOnly", "writeOnly", "uniqueItems"), keywords.flag
            ),
            **dict.fromkeys(
                ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"),
                keywords.number,
            ),
            **dict.fromkeys(_COUNTS, keywords.count),
            **dict.fromkeys(("items", "propertyNames", "contentSchema"), self.schema),
            **dict.fromkeys(("then", "else"), self._in_place),
            **dict.fromkeys(
                ("additionalProperties", "unevaluatedItems", "unevaluatedProperties"),
                self._flag_or_schema,
            ),
            **dict.fromkeys(WITHIN, self._alternatives),
            **dict.fromkeys(("if", "not"), self._exactly),
            "contains": self._some,
            "default": keywords.anything,
            "dependentRequired": keywords.names_by_name,
            "dependentSchemas": self._named_in_place,
            "enum": keywords.choices,
            "examples": keywords.examples,
            "multipleOf": keywords.divisor,
            "pattern": keywords.pattern,
            "patternProperties": self._by_pattern,
            "prefixItems": self._first_items,
            "properties": self._named,
            "required": keywords.names,
            "type": keywords.types,
        }

    def schema(
        self, value: JsonValue, scope: Scope, *, in_place: bool = False
    ) -> JsonObject:
        """Return the rewritten schema.

        :param in_place: whether the schema adds to another schema of the same value, as
            a branch of `anyOf` does.
        """
        if value is False:
            return {"not": {}}
        # Some servers write {"name": "string"} for a property.
        if isinstance(value, str) and value.lower() in TYPES:
            value = {"type": value}
        if not isinstance(value, dict):
            return {}
        if scope.depth > MAX_DEPTH:
            self.loosened += 1
            return {}
        scope = self.references.within(value, scope)
        old = in_newest_words(value, legacy=scope.legacy)
        made: JsonObject = {}
        if isinstance(reference := old.get("$ref"), str):
            name = self.references.name_of(reference, scope)
            if name is not None:
                made["$ref"] = f"#/$defs/{name}"
            else:
                self.loosened += 1
        for key, part in old.items():
            for name, rewritten in self._keyword(key, part, scope).items():
                known = made.get(name)
                if isinstance(known, list) and isinstance(rewritten, list):
                    made[name] = [*known, *rewritten]
                else:
                    made[name] = rewritten
        keywords.settle_alternatives(made, old)
        keywords.settle_type(made)
        if "required" in made:
            self._settle_required(made, in_place=in_place)
        return made

    def _keyword(self, key: str, value: JsonValue, scope: Scope) -> JsonObject:
        rewrite = self._keywords.get(key)
        if rewrite is None:
            return {}
        before = self.loosened
        made = rewrite(value, scope)
        if made is LEFT_OUT:
            self.loosened += key not in REMARKS
            return {}
        # Two branches may now accept the same value.
        if key == "oneOf" and self.loosened > before:
            alternatives: JsonObject = {"anyOf": made}
            return {"allOf": [alternatives]}
        return {key: made}

    def _in_place(self, value: JsonValue, scope: Scope) -> JsonValue:
        return self.schema(value, scope, in_place=True)

    def _alternatives(self, value: JsonValue, scope: Scope) -> JsonValue:
        within = value if isinstance(value, list) else [value]
        made = list[JsonValue](
            self.schema(each, scope, in_place=True)
            for each in within
            if each is not None
        )
        return made or LEFT_OUT

    def _first_items(self, value: JsonValue, scope: Scope) -> JsonValue:
        if not isinstance(value, list):
            return LEFT_OUT
        return list[JsonValue](self.schema(each, scope) for each in value) or LEFT_OUT

    def _named(self, value: JsonValue, scope: Scope) -> JsonValue:
        if not isinstance(value, dict):
            return LEFT_OUT
        return {name: self.schema(each, scope) for name, each in value.items()}

    def _named_in_place(self, value: JsonValue, scope: Scope) -> JsonValue:
        if not isinstance(value, dict):
            return LEFT_OUT
        return {
            name: self.schema(each, scope, in_place=True)
            for name, each in value.items()
        }

    def _some(self, value: JsonValue, scope: Scope) -> JsonValue:
        return self.schema(value, scope) if isinstance(value, dict | bool) else LEFT_OUT

    def _by_pattern(self, value: JsonValue, scope: Scope) -> JsonValue:
        if not isinstance(value, dict):
            return LEFT_OUT
        kept: JsonObject = {}
        for pattern, each in value.items():
            if is_portable(pattern):
                kept[pattern] = self.schema(each, scope)
            else:
                self.loosened += 1
        return kept

    def _exactly(self, value: JsonValue, scope: Scope) -> JsonValue:
        """Return the rewritten schema under `not` or `if`, or `LEFT_OUT` if it would
        accept more values than before.
        """
        before = self.loosened
        made = self.schema(value, scope, in_place=True)
        return (
            LEFT_OUT
            if self.loosened > before or not isinstance(value, dict | bool)
            else made
        )

    def _flag_or_schema(self, value: JsonValue, scope: Scope) -> JsonValue:
        if isinstance(value, bool):
            return value
        return self.schema(value, scope) if isinstance(value, dict) else LEFT_OUT

    def _settle_required(self, made: JsonObject, *, in_place: bool) -> None:
        """Ensure that `required` names only properties that exist.

        `anyOf: [{"required": ["a"]}, …]` requires a property that is described
        elsewhere, so a property is added to the branch that accepts whatever
        `additionalProperties` allows. Outside such branches, a name without a property
        is a mistake.
        """
        properties = made.get("properties")
        known: JsonObject = dict(properties) if isinstance(properties, dict) else {}
        elsewhere = set(branch_properties(made))
        others = made.get("additionalProperties")
        kept: list[JsonValue] = []
        for name in keywords.strings(made["required"]):
            if name not in known and not in_place and name not in elsewhere:
                self.loosened += 1
                continue
            if name not in known:
                rule: JsonObject = (
                    {"not": {}}
                    if others is False
                    else others
                    if isinstance(others, dict)
                    else {}
                )
                known[name] = rule
            kept.append(name)
        if kept:
            made |= {"properties": known, "required": kept}
        else:
            del made["required"]
