"""Built-in tools. One pydantic model of the arguments provides the JSON Schema and the
errors for invalid calls.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Generic, Self, TypeVar, cast

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import ErrorDetails

from acp_agent.conversation.events import CallView
from acp_agent.conversation.messages import JsonObject, JsonValue
from acp_agent.conversation.strict_json import get_text, parse_json
from acp_agent.conversation.views import ToolKind
from acp_agent.errors import ToolError
from acp_agent.frozen import frozen
from acp_agent.tools.environment import Environment
from acp_agent.tools.text import one_line, title_line
from acp_agent.tools.tool import PreparedCall

_MOST_COMPLAINTS = 5
_ENCODED = ("list_type", "tuple_type", "dict_type", "model_type")
"""Types of pydantic's errors for a string in place of a list or an object."""
_NOT_SENT = (
    "title",
    "default",
    "additionalProperties",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "minimum",
    "maximum",
    "exclusiveMinimum",
)
"""Keywords that a model does not need to make a call. The constraints are checked when
the call is read, and the error names the limit. OpenAI and Anthropic require
`additionalProperties` only in strict mode, which no adapter uses.
"""


class Arguments(BaseModel):
    """Base class of the arguments of built-in tools. Validators are built on first use."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    @classmethod
    def read(cls, tool: str, arguments: JsonObject) -> Self:
        """Validate the arguments that a model sent.

        :param tool: name of the tool for the message.
        :raises ToolError: if an argument is missing, unknown or has the wrong type; the
            message names each of them.
        """
        try:
            json.dumps(arguments, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise ToolError(
                f"{tool}: the arguments contain an unpaired surrogate, which cannot be encoded as UTF-8. Send the call "
                "again with the whole character."
            ) from None
        try:
            return cls.model_validate(arguments)
        except ValidationError as error:
            found = error.errors(
                include_url=False, include_context=False, include_input=False
            )
        with suppress(ValidationError):
            return cls.model_validate(_decoded(arguments, found))
        complaints = (_complaint(detail, cls) for detail in found[:_MOST_COMPLAINTS])
        raise ToolError(f"{tool}: {'; '.join(complaints)}.")


A = TypeVar("A", bound=Arguments)


@frozen
class BuiltIn(Generic[A]):
    """A built-in `Tool`.

    :ivar check: like `Tool.prepare`, but its arguments have already been validated.
    :ivar title: returns the title for announcing a call; its arguments may be invalid.
    """

    name: str
    description: str
    arguments: type[A]
    check: Callable[[A, Environment], Awaitable[PreparedCall]]
    title: Callable[[JsonObject], str]
    kind: ToolKind = "other"

    @property
    def input_schema(self) -> JsonObject:
        """Return the JSON Schema of the arguments."""
        return _schema_of(self.arguments)

    def preview(self, arguments: JsonObject) -> CallView:
        """Return the title and kind for announcing a call; see `Tool.preview`."""
        return CallView(self.title(arguments), self.kind)

    async def prepare(
        self, arguments: JsonObject, environment: Environment
    ) -> PreparedCall:
        """Validate the arguments and check what they refer to; see `Tool.prepare`."""
        return await self.check(self.arguments.read(self.name, arguments), environment)


@functools.cache
def _schema_of(model: type[Arguments]) -> JsonObject:
    """Return the model's JSON Schema in its shortest form, without references and the
    keywords in `_NOT_SENT`.

    Every request includes it. It must stay the same byte for byte, or the provider's
    prompt cache misses.
    """
    schema = cast("JsonObject", model.model_json_schema())
    return cast(
        "JsonObject", _short(schema, cast("JsonObject", schema.pop("$defs", {})))
    )


def titled(verb: str, name: str = "path") -> Callable[[JsonObject], str]:
    """Return a function that makes a call's title from a verb and the string argument
    `name`, if the call has it.
    """
    return lambda arguments: title_line(f"{verb} {get_text(arguments, name)}".rstrip())


def _short(schema: JsonValue, definitions: JsonObject) -> JsonValue:
    if isinstance(schema, list):
        return [_short(item, definitions) for item in schema]
    if not isinstance(schema, dict):
        return schema
    if isinstance(reference := schema.get("$ref"), str):
        return _short(definitions[reference.rpartition("/")[2]], definitions)
    short: JsonObject = {}
    for key, value in schema.items():
        # The keys of `properties` are argument names, not keywords.
        if key == "properties" and isinstance(value, dict):
            short[key] = {
                name: _short(inner, definitions) for name, inner in value.items()
            }
        elif key not in _NOT_SENT:
            short[key] = _short(value, definitions)
    return short


def _decoded(arguments: JsonObject, found: Sequence[ErrorDetails]) -> JsonValue:
    """Return the arguments after decoding lists and objects that a model sent as JSON
    strings.

    :param found: the validation errors of the arguments.
    """
    decoded: JsonValue = arguments
    for detail in found:
        if detail["type"] in _ENCODED:
            decoded = _decoded_at(decoded, detail["loc"])
    return decoded


def _decoded_at(value: JsonValue, place: Sequence[int | str]) -> JsonValue:
    if not place and isinstance(value, str):
        with suppress(ValueError):
            inner = parse_json(value)
            return inner if isinstance(inner, dict | list) else value
    if place and isinstance(value, dict) and place[0] in value:
        key = str(place[0])
        return {**value, key: _decoded_at(value[key], place[1:])}
    if (
        place
        and isinstance(value, list)
        and isinstance(place[0], int)
        and place[0] < len(value)
    ):
        return [
            *value[: place[0]],
            _decoded_at(value[place[0]], place[1:]),
            *value[place[0] + 1 :],
        ]
    return value


def _complaint(detail: ErrorDetails, model: type[Arguments]) -> str:
    place = ".".join(one_line(str(step), 60) for step in detail["loc"]) or "arguments"
    match detail["type"]:
        case "missing":
            return f"`{place}` is missing"
        case "extra_forbidden":
            known = (
                f" (it takes {', '.join(model.model_fields)})"
                if len(detail["loc"]) == 1
                else ""
            )
            return f"unknown argument `{place}`{known}"
        case "string_too_short" | "too_short":
            return f"`{place}` is empty"
        case "model_type":
            return f"`{place}` should be an object"
        case _:
            message = detail["msg"].removeprefix("Input ")
            return f"`{place}` {message[:1].lower()}{message[1:]}"
