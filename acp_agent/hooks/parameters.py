"""The base class of built-in handlers, `Handler`, and the types of their parameters:
paths, patterns and JSON Schemas.

A JSON Schema with references to other documents is refused, so nothing is ever fetched.
The patterns in a schema are matched with RE2. The library `jsonschema` is imported when
the first schema is used.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, cast

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    WithJsonSchema,
)

from acp_agent.config.hook_events import EventName
from acp_agent.conversation.messages import JsonObject, JsonValue
from acp_agent.conversation.strict_json import get_object, get_text, parse_json
from acp_agent.hooks.contract import Services
from acp_agent.hooks.events import HookEvent
from acp_agent.hooks.outcomes import Outcome
from acp_agent.patterns import PatternError, compile_pattern

if TYPE_CHECKING:
    from jsonschema import ValidationError

MAX_TOKENS = 1_000_000


class Handler(BaseModel):
    """A handler with its parameters, in the form in which a recipe writes them. They
    are validated when the recipe is read.
    """

    model_config = ConfigDict(extra="forbid", strict=True)

    name: ClassVar[str]
    events: ClassVar[frozenset[EventName]]

    @abstractmethod
    async def handle(self, event: HookEvent, services: Services) -> Outcome:
        """Handle an event and return the outcome.

        :raises HookError: if the handler fails.
        """


def _inside(value: str) -> str:
    path = PurePosixPath(value)
    if (
        not value.strip()
        or path.is_absolute()
        or ".." in path.parts
        or path.name in ("", ".")
    ):
        raise ValueError("should be the path of a file below the folder, without `..`")
    return value


def _regex(value: str) -> str:
    compile_pattern(value)
    return value


def _schema(value: object) -> object:
    fault = schema_fault(value)
    if fault is not None:
        raise ValueError(f"cannot be used as a JSON Schema: {fault}")
    return value


InnerPath = Annotated[str, AfterValidator(_inside)]
MarkdownPath = Annotated[str, Field(pattern=r"\.md$"), AfterValidator(_inside)]
"""Markdown files only, so that a recipe cannot write files such as hooks and settings."""
LinesPath = Annotated[str, Field(pattern=r"\.jsonl$"), AfterValidator(_inside)]
JsonSchema = Annotated[dict[str, JsonValue], BeforeValidator(_schema)]
Pattern = Annotated[
    str, AfterValidator(_regex), WithJsonSchema({"type": "string", "format": "regex"})
]
Tokens = Annotated[int, Field(ge=0, le=MAX_TOKENS)]


# --- JSON Schemas ---

_MAX_ERRORS = 5
"""Maximum number of errors in one message."""

_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")


def form_fault(text: str, schema: JsonObject) -> str | None:
    """Check a text that should be JSON and match a schema. Return a description of the
    first few errors with their places, or None if the text is valid.

    The JSON may be the whole text, or the last code fence with the language `json` or
    without a language.

    :param schema: a schema that `schema_fault` has accepted.
    """
    try:
        value = parse_json(text)
    except ValueError as error:
        from markdown_it import MarkdownIt  # takes 20 ms

        tokens = MarkdownIt("zero").enable("fence").parse(text)
        fences = [
            each.content
            for each in tokens
            if each.type == "fence" and each.info.strip().lower() in ("", "json")
        ]
        if not fences:
            return (
                f"it is not valid JSON ({error}), and contains no code fence with JSON"
            )
        try:
            value = parse_json(fences[-1])
        except ValueError as inner:
            return f"its last code fence is not valid JSON ({inner})"
    found: Iterator[ValidationError] = _validator_class(schema)(schema).iter_errors(
        value
    )
    errors = sorted(
        found, key=lambda error: [str(part) for part in error.absolute_path]
    )
    named = [
        f"{error.json_path}: {_short(error.message)}" for error in errors[:_MAX_ERRORS]
    ]
    if len(errors) > _MAX_ERRORS:
        named.append(f"and {len(errors) - _MAX_ERRORS} more")
    return "; ".join(named) or None


def schema_fault(schema: object) -> str | None:
    """Check a JSON Schema. Return why it cannot be used, or None if it can."""
    from jsonschema import FormatChecker, SchemaError

    if not isinstance(schema, dict):
        return "it should be an object"
    checked = cast(JsonObject, schema)
    parts = list(_parts(checked))
    for reference in (
        part[key] for part in parts for key in _REFERENCES if key in part
    ):
        if isinstance(reference, str) and not reference.startswith("#"):
            return f"`$ref: {reference}` refers to another document; use a reference that begins with #"
    if any("patternProperties" in part for part in parts) and any(
        "unevaluatedProperties" in part for part in parts
    ):
        return "`unevaluatedProperties` and `patternProperties` cannot be combined; use `additionalProperties` instead"
    try:
        # Formats are not checked, since the format `regex` would mean Python's syntax.
        _validator_class(checked).check_schema(
            checked, format_checker=FormatChecker(())
        )
        for part in parts:
            for pattern in (
                *get_object(part, "patternProperties"),
                get_text(part, "pattern"),
            ):
                compile_pattern(pattern)
    except PatternError as error:
        return str(error)
    except SchemaError as error:
        where = ".".join(str(part) for part in error.absolute_path)
        return f"{f'{where}: ' if where else ''}{error.message}"
    return None


def _validator_class(schema: JsonObject) -> Any:
    """Return jsonschema's validator class for the schema's version, with patterns
    matched by RE2 instead of `re`.
    """
    from jsonschema import validators

    library = cast("Any", validators)
    keywords = {
        "pattern": _pattern,
        "patternProperties": _pattern_properties,
        "additionalProperties": _additional_properties,
    }
    return library.extend(
        library.validator_for(schema, default=validators.Draft202012Validator), keywords
    )


def _parts(schema: JsonValue) -> Iterator[JsonObject]:
    """Yield all objects in a schema, including the schema itself."""
    if isinstance(schema, dict):
        yield schema
    for inner in (
        schema.values()
        if isinstance(schema, dict)
        else schema
        if isinstance(schema, list)
        else ()
    ):
        yield from _parts(inner)


def _pattern(
    validator: Any, pattern: str, value: JsonValue, schema: JsonObject
) -> Iterator[ValidationError]:
    from jsonschema import ValidationError

    if isinstance(value, str) and compile_pattern(pattern).search(value) is None:
        yield ValidationError(f"{value!r} does not match {pattern!r}")


def _pattern_properties(
    validator: Any,
    properties: Mapping[str, JsonValue],
    value: JsonValue,
    schema: JsonObject,
) -> Iterator[ValidationError]:
    if isinstance(value, dict):
        for pattern, inner in properties.items():
            compiled = compile_pattern(pattern)
            for name in (name for name in value if compiled.search(name) is not None):
                yield from validator.descend(
                    value[name], inner, path=name, schema_path=pattern
                )


def _additional_properties(
    validator: Any, allowed: JsonValue, value: JsonValue, schema: JsonObject
) -> Iterator[ValidationError]:
    from jsonschema import ValidationError

    if not isinstance(value, dict):
        return
    patterns = [
        compile_pattern(pattern) for pattern in get_object(schema, "patternProperties")
    ]
    known = get_object(schema, "properties")
    others = [
        name
        for name in value
        if name not in known and all(each.search(name) is None for each in patterns)
    ]
    if isinstance(allowed, dict):
        for name in others:
            yield from validator.descend(value[name], allowed, path=name)
    elif not allowed and others:
        yield ValidationError(
            f"Additional properties are not allowed: {', '.join(map(repr, others))}"
        )


def _short(text: str) -> str:
    return text if len(text) <= 300 else f"{text[:300]}…"
