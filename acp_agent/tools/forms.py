"""Questions to the user as plain data: a form with fields, an address to visit, and what came of them.

A form is as flat as ACP and MCP have it: texts, numbers, yes or no, and choices. Owns whether an answer fits its form.
Knows neither the wire nor who asks.

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


@frozen
class Choice:
    """One of the answers that a field offers.

    :ivar value: what the answer then is.
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
    """What is asked together. Never for a secret: that is what an address is for.

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
    """Whoever is to show a form does not know what that is; there may be another way to ask."""


class AnswerError(ToolError):
    """What came back does not fit the form that was asked."""


class Questions(Protocol):
    """How the user can be asked. What is open when its asker is cancelled is taken down."""

    @property
    def asks(self) -> Asks:
        """What can be asked, as far as is known by now."""
        ...

    @property
    def opens_urls(self) -> bool:
        """Whether `visit` can be called."""
        ...

    async def fill(self, form: Form, call_id: str | None = None) -> FormAnswer:
        """Have a form filled in.

        :param call_id: the call in which it is asked.
        :raises FormsUnknownError: nobody knows here how to show one.
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
        """What the user was sent to an address for has been done."""
        ...


def filled(form: Form, content: Mapping[str, JsonValue]) -> Filled:
    """An answer as it came, checked against its form. An empty text is no answer, and what was not asked is left out.

    :raises AnswerError: it does not fit; says which fields.
    """
    values: dict[str, Value] = {}
    wrong: list[str] = []
    for each in form.fields:
        given = content.get(each.name)
        if given is None or given in ("", []):
            if each.required:
                wrong.append(f"{_named(each)} is missing")
            continue
        value = _value(each, given)
        if isinstance(value, _Wrong):
            wrong.append(f"{_named(each)} {value.why}")
        else:
            values[each.name] = value
    if wrong:
        raise AnswerError(f"What the user entered does not fit the form: {'; '.join(wrong)}.")
    return Filled(values)


def is_number(value: JsonValue) -> TypeGuard[int | float]:
    """Whether it is a number, with an end: JSON has `1e999`."""
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, int) and not isinstance(value, bool)


@frozen
class _Wrong:
    why: str


def _value(asked: FormField, given: JsonValue) -> Value | _Wrong:
    match asked.kind:
        case "text":
            return _text(asked, given)
        case "boolean":
            return given if isinstance(given, bool) else _Wrong("is neither true nor false")
        case "number" | "integer":
            return _number(asked, given)
        case "choice":
            known = {choice.value for choice in asked.choices}
            return given if isinstance(given, str) and given in known else _Wrong("is none of its choices")
        case "choices":
            known = {choice.value for choice in asked.choices}
            items = given if isinstance(given, list) else []
            chosen = tuple(item for item in items if isinstance(item, str) and item in known)
            if not chosen or len(chosen) != len(items):
                return _Wrong("is not of its choices")
            return (
                chosen if _within(len(chosen), asked.limits, "minItems", "maxItems") else _Wrong("are too many or few")
            )


def _text(asked: FormField, given: JsonValue) -> Value | _Wrong:
    if not isinstance(given, str):
        return _Wrong("is no text")
    return given if _within(len(given), asked.limits, "minLength", "maxLength") else _Wrong("is too short or too long")


def _number(asked: FormField, given: JsonValue) -> Value | _Wrong:
    if asked.kind == "integer" and isinstance(given, float) and not given.is_integer():
        return _Wrong("is no whole number")
    if not is_number(given):
        return _Wrong("is no number")
    value = int(given) if asked.kind == "integer" else given
    return value if _within(value, asked.limits, "minimum", "maximum") else _Wrong("is too small or too large")


def _within(size: float, limits: Mapping[str, JsonValue], least: str, most: str) -> bool:
    low, high = limits.get(least), limits.get(most)
    if isinstance(low, int | float) and size < low:
        return False
    return not (isinstance(high, int | float) and size > high)


def _named(asked: FormField) -> str:
    return f"`{one_line(asked.title or asked.name, 60)}`"
