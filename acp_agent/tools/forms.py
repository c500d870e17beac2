"""Questions to the user as plain data: forms with fields, addresses to visit, and the answers to them.

A form is as flat as ACP and MCP have it: texts, numbers, yes or no, and choices. The `ask_user` tool, recipes, MCP
servers and the question of trust all ask by it.

ACP, "Elicitation".
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Literal, Protocol, TypeAlias, TypeGuard

from acp_agent.conversation.events import CallView
from acp_agent.conversation.messages import JsonObject, JsonValue
from acp_agent.errors import ToolError
from acp_agent.frozen import frozen
from acp_agent.tools.text import one_line

FieldKind: TypeAlias = Literal["text", "number", "integer", "boolean", "choice", "choices"]
Value: TypeAlias = str | int | float | bool | tuple[str, ...]
Asks: TypeAlias = Literal["forms", "choices", "nothing"]
"""What questions the user can be asked: whole forms, one choice at a time, or none."""

_WANTED: Mapping[FieldKind, str] = {
    "text": "is no text",
    "boolean": "is neither true nor false",
    "choice": "is none of its choices",
    "choices": "is not of its choices",
    "number": "is no number",
    "integer": "is no whole number",
}


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
    default: Value | None = None
    limits: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    instead_of: str = ""


@frozen
class Form:
    """Fields that are filled in together, none of them for a secret: that is what an address is for.

    :ivar message: tells the user what is wanted, and why.
    """

    message: str
    fields: tuple[FormField, ...]


@frozen
class Filled:
    """The user has answered.

    :ivar values: by the names of the fields; without those that were left empty.
    """

    values: Mapping[str, Value]


FormAnswer: TypeAlias = Filled | Literal["declined", "cancelled"]
"""`declined`: the user does not want to answer. `cancelled`: they closed the form."""
LinkAnswer: TypeAlias = Literal["accepted", "declined", "cancelled"]
"""`accepted`: the user is on the way to the address, no more."""


@frozen
class Link:
    """An address that the user is asked to visit.

    :ivar id: another one than those of all that are open.
    """

    id: str
    message: str
    url: str


@frozen
class Asking:
    """The call in which something is asked, as it was announced."""

    call_id: str
    name: str
    view: CallView
    arguments: JsonObject


class FormsUnknownError(ToolError):
    """The client does not know forms; there may be another way to ask."""


class AnswerError(ToolError):
    """The answer does not fit its form."""


class Questions(Protocol):
    """Asks the user. A question is taken down when its asker is cancelled."""

    @property
    def asks(self) -> Asks:
        """The questions that can be asked, as far as is known by now."""
        ...

    @property
    def opens_urls(self) -> bool:
        """Whether `visit` can be called."""
        ...

    async def fill(self, form: Form, call_id: str | None = None) -> FormAnswer:
        """Have a form filled in.

        :param call_id: the call in which it is asked.
        :raises FormsUnknownError: the client does not know forms.
        :raises AnswerError: the answer does not fit the form.
        :raises ToolError: it could not be asked.
        """
        ...

    async def choose(self, asking: Asking, choices: Sequence[Choice]) -> Choice | None:
        """Have one of several chosen, in a call that is pending; its view says what is asked.

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


def filled(form: Form, content: Mapping[str, JsonValue]) -> Filled:
    """Return an answer as it came, checked against its form.

    An empty text is no answer, and what was not asked is left out.

    :raises AnswerError: it does not fit; says which fields.
    """
    values: dict[str, Value] = {}
    faults: list[str] = []
    for each in form.fields:
        given = content.get(each.name)
        if given is None or given in ("", []):
            if each.required:
                faults.append(f"`{one_line(each.title or each.name, 60)}` is missing")
            continue
        try:
            values[each.name] = field_value(each, given)
        except ValueError as error:
            faults.append(f"`{one_line(each.title or each.name, 60)}` {error}")
    if faults:
        raise AnswerError(f"What the user entered does not fit the form: {'; '.join(faults)}.")
    return Filled(values)


def is_number(value: JsonValue) -> TypeGuard[int | float]:
    """Return whether it is a number, with an end: JSON has `1e999`."""
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, int) and not isinstance(value, bool)


def field_value(asked: FormField, given: JsonValue) -> Value:
    """Return an answer to a field.

    :raises ValueError: it does not fit; says why, behind the field's name.
    """
    known = {choice.value for choice in asked.choices}
    match asked.kind, given:
        case "boolean", bool() as value:
            return value
        case "choice", str() as value if value in known:
            return value
        case "text", str() as value:
            return _within(asked, value, len(value), "Length", "is too short or too long")
        case "integer", float() as value if not value.is_integer():
            pass
        case "number" | "integer", int() | float() as value if is_number(value):
            number = int(value) if asked.kind == "integer" else value
            return _within(asked, number, number, "imum", "is too small or too large")
        case "choices", list() as values:
            chosen = tuple(item for item in values if isinstance(item, str))
            if chosen and known.issuperset(chosen) and len(chosen) == len(values):
                return _within(asked, chosen, len(chosen), "Items", "are too many or too few")
        case _:
            pass
    raise ValueError(_WANTED[asked.kind])


def _within(asked: FormField, value: Value, size: float, of: str, fault: str) -> Value:
    least, most = asked.limits.get(f"min{of}"), asked.limits.get(f"max{of}")
    if (isinstance(least, int | float) and size < least) or (isinstance(most, int | float) and size > most):
        raise ValueError(fault)
    return value
