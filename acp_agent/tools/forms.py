"""Questions to the user as plain data: forms with fields, addresses to visit, and the answers to them.

A form is as flat as ACP and MCP have it: texts, numbers, yes or no, and choices. The `ask_user` tool, recipes and MCP
servers all ask by it.

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

FieldKind: TypeAlias = Literal["text", "number", "integer", "boolean", "choice", "choices"]
Asks: TypeAlias = Literal["forms", "choices", "nothing"]
"""What questions the user can be asked: whole forms, one choice at a time, or none."""
_TYPES: Mapping[FieldKind, Any] = {"text": str, "number": float, "integer": int, "boolean": bool}
LIMITS = {
    "minimum": "ge",
    "maximum": "le",
    "minLength": "min_length",
    "maxLength": "max_length",
    "minItems": "min_length",
    "maxItems": "max_length",
}
"""JSON Schema's keywords, and what pydantic calls them."""


@frozen
class Choice:
    """An answer that a field offers.

    :ivar value: what the answer is where it is chosen.
    """

    value: str
    title: str
    description: str = ""


@frozen
class FormField:
    """One thing that is asked.

    :ivar choices: of a `choice` or `choices`.
    :ivar limits: further JSON Schema keywords of its kind, such as `minLength`.
    :ivar instead_of: name of the choice that this text is another answer to; empty where it is a question of its own.
    """

    name: str
    kind: FieldKind = "text"
    title: str = ""
    description: str = ""
    choices: tuple[Choice, ...] = ()
    required: bool = True
    default: JsonValue = None
    limits: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    instead_of: str = ""


@frozen
class Form:
    """Fields that are filled in together, none of them for a secret: that is what an address is for.

    :ivar message: tells the user what is wanted, and why.
    """

    message: str
    fields: tuple[FormField, ...]


Refusal: TypeAlias = Literal["decline", "cancel"]
"""`decline`: the user does not want to answer. `cancel`: they closed the form."""
FormAnswer: TypeAlias = Mapping[str, JsonValue] | Refusal
"""The values by the names of the fields, without those that were left empty; or that there are none."""
LinkAnswer: TypeAlias = Literal["accept"] | Refusal
"""`accept`: the user is on the way to the address, no more."""


@frozen
class Link:
    """An address that the user is asked to visit.

    :ivar id: another one than those of all that are open.
    """

    id: str
    message: str
    url: str


class Questions(Protocol):
    """Asks the user. A question is taken down when its asker is cancelled."""

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

        :param call_id: the call in which it is asked.
        :raises ToolError: it could not be asked, or the answer does not fit.
        """
        ...

    async def choose(self, call: ToolCall, question: str, choices: Sequence[Choice]) -> Choice | None:
        """Ask the user to choose one of several, in a call that is pending.

        :returns: None where the user chose none.
        :raises ToolError: it could not be asked.
        """
        ...

    async def visit(self, link: Link, call_id: str | None = None) -> LinkAnswer:
        """Ask the user to visit an address.

        :raises ToolError: it could not be asked.
        """
        ...

    async def visited(self, link_id: str) -> None:
        """Tell that the user has done at an address what they were sent there for."""
        ...


def filled(form: Form, content: Mapping[str, JsonValue]) -> Mapping[str, JsonValue]:
    """Return an answer as it came, checked against its form.

    An empty text is no answer, and what was not asked is left out. A field that the answer does not mention has its
    default: editors may leave out what the user has not touched.

    :raises ToolError: it does not fit; says which fields.
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
        raise ToolError(f"What the user entered does not fit the form: {'; '.join(faults)}.")
    return values


def field_value(asked: FormField, given: JsonValue) -> JsonValue:
    """Return an answer to a field.

    :raises InvalidParamsError: it does not fit.
    """
    from pydantic import Field, TypeAdapter, ValidationError  # when a question is answered: it delays a new session

    if asked.kind == "integer" and isinstance(given, float) and given.is_integer():
        given = int(given)  # as clients write it that have numbers of one kind
    kind: Any = _TYPES.get(asked.kind)
    if asked.choices:
        kind = Literal[tuple(choice.value for choice in asked.choices)]
        kind = list[kind] if asked.kind == "choices" else kind
    limits: dict[str, Any] = {LIMITS[key]: value for key, value in asked.limits.items() if key in LIMITS}
    if kind is float:
        limits["allow_inf_nan"] = False
    try:
        return TypeAdapter[Any](cast("Any", Annotated)[kind, Field(**limits)]).validate_python(given, strict=True)
    except ValidationError as error:
        raise InvalidParamsError(error.errors()[0]["msg"]) from None
