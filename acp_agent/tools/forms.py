"""Questions to the user as plain data: forms with fields, links to visit, and the
answers to them.

A form is flat, as in ACP and MCP: its fields are texts, numbers, booleans and choices.
The `ask_user` tool, recipes and MCP servers all use it.

ACP, "Elicitation".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Annotated, Any, Literal, Protocol, TypeAlias, cast

from acp_agent.conversation.messages import JsonValue, ToolCall
from acp_agent.errors import InvalidParamsError, ToolError
from acp_agent.frozen import frozen
from acp_agent.tools.text import one_line

FieldKind: TypeAlias = Literal[
    "text", "number", "integer", "boolean", "choice", "choices"
]
Asks: TypeAlias = Literal["forms", "choices", "nothing"]
"""The kind of questions that the user can be asked: whole forms, one choice at a time,
or none.
"""
_TYPES: Mapping[FieldKind, Any] = {
    "text": str,
    "number": float,
    "integer": int,
    "boolean": bool,
}
LIMITS = {
    "minimum": "ge",
    "maximum": "le",
    "minLength": "min_length",
    "maxLength": "max_length",
    "minItems": "min_length",
    "maxItems": "max_length",
}
"""Maps JSON Schema's keywords to pydantic's names for them."""


@frozen
class FieldChoice:
    """An answer that the user can choose.

    :ivar value: the value of the field if the user chooses this answer.
    """

    value: str
    title: str
    description: str = ""


@frozen
class FormField:
    """One question of a form.

    :ivar choices: what the user can choose from, if the kind is `choice` or `choices`.
    :ivar limits: further JSON Schema keywords of its kind, such as `minLength`.
    :ivar instead_of: name of the choice field that this text field is an alternative
        to; empty for a separate question.
    """

    name: str
    kind: FieldKind = "text"
    title: str = ""
    description: str = ""
    choices: tuple[FieldChoice, ...] = ()
    required: bool = True
    default: JsonValue = None
    limits: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    instead_of: str = ""


@frozen
class Form:
    """Fields that the user fills in together. A form must not ask for a secret; use a
    `Link` for that.

    :ivar message: tells the user what is asked and why.
    """

    message: str
    fields: tuple[FormField, ...]


Refusal: TypeAlias = Literal["decline", "cancel"]
"""`decline`: the user refused to answer. `cancel`: the user closed the form."""
FormAnswer: TypeAlias = Mapping[str, JsonValue] | Refusal
"""The values by field name, without fields that were left empty, or the refusal."""
LinkAnswer: TypeAlias = Literal["accept"] | Refusal
"""`accept`: the user agreed to visit the address, but may not have finished there yet."""


@frozen
class Link:
    """An address that the user is asked to visit.

    :ivar id: unique among all open links.
    """

    id: str
    message: str
    url: str


class Questions(Protocol):
    """Asks the user questions. If the caller is cancelled, the question is withdrawn."""

    @property
    def asks(self) -> Asks:
        """Return the kinds of question that can be asked."""
        ...

    @property
    def opens_urls(self) -> bool:
        """Return whether `visit` can be called."""
        ...

    async def fill(self, form: Form, call_id: str | None = None) -> FormAnswer:
        """Ask the user to fill in a form.

        :param call_id: ID of the tool call that asks.
        :raises ToolError: if the question could not be asked, or the answer does not
            fit the form.
        """
        ...

    async def choose(
        self, call: ToolCall, question: str, choices: Sequence[FieldChoice]
    ) -> FieldChoice | None:
        """Ask the user to choose one of several options, for a pending tool call.

        :returns: None if the user chose nothing.
        :raises ToolError: if the question could not be asked.
        """
        ...

    async def visit(self, link: Link, call_id: str | None = None) -> LinkAnswer:
        """Ask the user to visit an address.

        :raises ToolError: if the question could not be asked.
        """
        ...

    async def visited(self, link_id: str) -> None:
        """Tell the editor that the user has finished at the address of a link."""
        ...


def filled(form: Form, content: Mapping[str, JsonValue]) -> Mapping[str, JsonValue]:
    """Check an answer against its form and return its values.

    An empty text is not an answer, and values of unknown fields are dropped. A field
    that is missing from the answer gets its default, since editors may leave out fields
    that the user has not touched.

    :raises ToolError: if the answer does not fit; the message names the fields.
    """
    values: dict[str, JsonValue] = {}
    faults: list[str] = []
    for each in form.fields:
        given = content.get(each.name, each.default)
        name = one_line(each.title or each.name, 60)
        if given is None or given in ("", []):
            if each.required:
                faults.append(f"`{name}` is missing")
            continue
        try:
            values[each.name] = field_value(each, given)
        except InvalidParamsError as error:
            message = str(error)
            faults.append(f"`{name}` {message[max(0, message.find('should')) :]}")
    if faults:
        raise ToolError(
            f"The user's answer does not fit the form: {'; '.join(faults)}."
        )
    return values


def field_value(asked: FormField, given: JsonValue) -> JsonValue:
    """Check the answer to a field and return it.

    :raises InvalidParamsError: if the answer does not fit the field.
    """
    # Imported late, since it would delay a new session.
    from pydantic import (
        Field,
        TypeAdapter,
        ValidationError,
    )

    if asked.kind == "integer" and isinstance(given, float) and given.is_integer():
        given = int(given)  # clients with a single number type write integers as floats
    kind: Any = _TYPES.get(asked.kind)
    if asked.choices:
        kind = Literal[tuple(choice.value for choice in asked.choices)]
        kind = list[kind] if asked.kind == "choices" else kind
    limits: dict[str, Any] = {
        LIMITS[key]: value for key, value in asked.limits.items() if key in LIMITS
    }
    if kind is float:
        limits["allow_inf_nan"] = False
    try:
        return TypeAdapter[Any](
            cast("Any", Annotated)[kind, Field(**limits)]
        ).validate_python(given, strict=True)
    except ValidationError as error:
        raise InvalidParamsError(error.errors()[0]["msg"]) from None
