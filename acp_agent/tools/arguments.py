"""The arguments of a tool: one pydantic model, from which its JSON Schema and the words for wrong calls are derived."""

from __future__ import annotations

import functools
import json
from typing import TYPE_CHECKING, ClassVar, Self, cast

from pydantic import BaseModel, ConfigDict, ValidationError

from acp_agent.conversation.events import CallView, ToolKind
from acp_agent.conversation.messages import JsonObject, JsonValue
from acp_agent.errors import ToolError
from acp_agent.tools.text import one_line

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

_MOST_COMPLAINTS = 5


class Arguments(BaseModel):
    """Base of every tool's arguments. Validators are built at the first call."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    @classmethod
    def read(cls, tool: str, arguments: JsonObject) -> Self:
        """Check what a model sent.

        :param tool: name for the message.
        :raises ToolError: names every argument that is missing, unknown or of the wrong kind.
        """
        try:
            json.dumps(arguments, ensure_ascii=False).encode()
        except UnicodeEncodeError as error:
            code = ord(error.object[error.start])
            raise ToolError(f"{tool}: the arguments hold half a character (U+{code:X}), which no file can.") from None
        try:
            return cls.model_validate(arguments)
        except ValidationError as error:
            found = error.errors(include_url=False, include_context=False, include_input=False)
            complaints = [_complaint(detail, cls) for detail in found[:_MOST_COMPLAINTS]]
            if len(found) > _MOST_COMPLAINTS:
                complaints.append(f"and {len(found) - _MOST_COMPLAINTS} more")
            raise ToolError(f"{tool}: {'; '.join(complaints)}.") from None


class BuiltIn:
    """Base of the built-in tools.

    :cvar verb: begins the title of a call, and the argument that `titled_by` names ends it.
    """

    name: ClassVar[str]
    description: ClassVar[str]
    arguments: ClassVar[type[Arguments]]
    verb: ClassVar[str] = ""
    titled_by: ClassVar[str] = "path"
    kind: ClassVar[ToolKind] = "read"

    @property
    def input_schema(self) -> JsonObject:
        """JSON Schema of the arguments."""
        return schema_of(self.arguments)

    def preview(self, arguments: JsonObject) -> CallView:
        """Title and kind for the announcement."""
        return CallView(one_line(f"{self.verb} {text_argument(arguments, self.titled_by)}".rstrip()), self.kind)


@functools.cache
def schema_of(model: type[Arguments]) -> JsonObject:
    """Return the model's JSON Schema in its shortest form: no titles, no references, no null defaults.

    It is sent with every request, and must stay the same byte for byte so that a provider's cache holds.
    """
    schema = cast("JsonObject", model.model_json_schema())
    definitions = schema.pop("$defs", {})
    return cast("JsonObject", _short(schema, cast("JsonObject", definitions)))


def text_argument(arguments: JsonObject, name: str) -> str:
    """Return a text argument for a preview; empty where it is missing or of another kind."""
    value = arguments.get(name)
    return value if isinstance(value, str) else ""


def _short(schema: JsonValue, definitions: JsonObject) -> JsonValue:
    if isinstance(schema, list):
        return [_short(item, definitions) for item in schema]
    if not isinstance(schema, dict):
        return schema
    reference = schema.get("$ref")
    if isinstance(reference, str):
        schema = {**cast("JsonObject", definitions[reference.rpartition("/")[2]]), **schema}
    choices = schema.get("anyOf")
    if isinstance(choices, list) and len(choices) == 2 and {"type": "null"} in choices:
        present = next(choice for choice in choices if choice != {"type": "null"})
        schema = {**cast("JsonObject", present), **{key: value for key, value in schema.items() if key != "anyOf"}}
    short: JsonObject = {}
    for key, value in schema.items():
        if key in ("$ref", "title") or (key == "default" and value in (None, False)):
            continue
        if key == "description" and reference:
            continue
        if key == "properties" and isinstance(value, dict):
            short[key] = {name: _short(item, definitions) for name, item in value.items()}
        else:
            short[key] = _short(value, definitions)
    return short


def _complaint(detail: ErrorDetails, model: type[Arguments]) -> str:
    place = _place(detail["loc"])
    match detail["type"]:
        case "missing":
            return f"`{place}` is missing"
        case "extra_forbidden":
            known = f" (it takes {', '.join(model.model_fields)})" if len(detail["loc"]) == 1 else ""
            return f"there is no argument `{place}`{known}"
        case "string_too_short" | "too_short":
            return f"`{place}` is empty"
        case "model_type":
            return f"`{place}` should be an object"
        case _:
            message = detail["msg"].removeprefix("Value error, ").removeprefix("Input ")
            return f"`{place}` {message[:1].lower()}{message[1:]}"


def _place(location: tuple[int | str, ...]) -> str:
    place = ""
    for step in location:
        place += f"[{step}]" if isinstance(step, int) else f".{one_line(step, 60)}" if place else one_line(step, 60)
    return place or "arguments"
