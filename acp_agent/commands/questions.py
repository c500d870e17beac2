"""`TerminalQuestions`: a form at the terminal, one line for each of its fields."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence

from acp_agent.commands.asking import is_somebody_here, typed
from acp_agent.conversation.messages import JsonValue
from acp_agent.errors import ToolError
from acp_agent.tools.forms import (
    Asking,
    Asks,
    Choice,
    Filled,
    Form,
    FormAnswer,
    FormField,
    Link,
    LinkAnswer,
    Value,
    filled,
)

_YES = {"y": True, "yes": True, "n": False, "no": False}


class TerminalQuestions:
    """`Questions` for a person at a terminal.

    :param say: prints a line.
    :param typed: asks for a line behind this text; None where the person has left in its place.
    """

    def __init__(self, say: Callable[[str], None], typed: Callable[[str], Awaitable[str | None]] = typed) -> None:
        self._say = say
        self._typed = typed

    @property
    def asks(self) -> Asks:
        """Forms, as long as somebody is there."""
        return "forms" if is_somebody_here() else "nothing"

    @property
    def opens_urls(self) -> bool:
        """An address can be printed for whoever is there."""
        return is_somebody_here()

    async def fill(self, form: Form, call_id: str | None = None) -> FormAnswer:
        """Ask field by field; a line that does not fit is asked for again, and ctrl-d closes the form."""
        self._say(f"? {form.message}")
        values: dict[str, JsonValue] = {}
        for each in form.fields:
            answer = await self._field(each, alone=len(form.fields) == 1)
            if answer is None:
                return "cancelled"
            values[each.name] = answer
        return filled(form, values)

    async def choose(self, asking: Asking, choices: Sequence[Choice]) -> Choice | None:
        """Ask for one of several; an empty line is none of them."""
        field = FormField("answer", "choice", choices=tuple(choices), required=False)
        answer = await self.fill(Form(asking.view.title, (field,)))
        if not isinstance(answer, Filled):
            return None
        return next((choice for choice in choices if choice.value == answer.values.get("answer")), None)

    async def visit(self, link: Link, call_id: str | None = None) -> LinkAnswer:
        """Show the address, and ask whether the person goes there; it is not opened."""
        self._say(f"? {link.message}")
        self._say(f"  {link.url}")
        line = await self._typed("  Will you open it? [y]es, [n]o: ")
        if line is None:
            return "cancelled"
        return "accepted" if _YES.get(line.lower(), False) else "declined"

    async def visited(self, link_id: str) -> None:
        """Nothing was left open."""

    async def _field(self, asked: FormField, *, alone: bool) -> JsonValue:
        """What was typed, as a value of its kind; "" for nothing, None where the person has left."""
        title = "" if alone and asked.kind != "boolean" else asked.title or asked.name
        if title:
            self._say(f"  {title}")
        if asked.description:
            self._say(f"  {asked.description}")
        for number, choice in enumerate(asked.choices, 1):
            self._say(f"  {number}. {choice.title}{f': {choice.description}' if choice.description else ''}")
        optional = "" if asked.required and asked.default is None else "(or nothing)"
        hint = " ".join(filter(None, (_HINTS.get(asked.kind), optional)))
        while True:
            line = await self._typed(f"  {hint}> ")
            if line is None:
                return None
            value = _value(asked, line)
            if not line and asked.default is not None:
                value = _plain(asked.default)
            try:
                filled(Form("", (asked,)), {asked.name: value})
            except ToolError as error:
                self._say(f"  {error}")
                continue
            return value


_HINTS = {
    "choice": "number or name",
    "choices": "numbers or names",
    "boolean": "[y]es, [n]o",
    "number": "number",
    "integer": "number",
}


def _value(asked: FormField, line: str) -> JsonValue:
    match asked.kind:
        case "choice":
            return _chosen(asked, line) or line
        case "choices":
            return [*dict.fromkeys(_all_chosen(asked, line))]
        case "boolean":
            return _YES.get(line.lower(), line)
        case "number" | "integer":
            try:
                return float(line)
            except ValueError:
                return line
        case "text":
            return line


def _plain(value: Value) -> JsonValue:
    return [*value] if isinstance(value, tuple) else value


def _chosen(asked: FormField, typed: str) -> str | None:
    """The value of the choice with this number, or with this name, where case decides between two of one name."""
    if typed.isdecimal() and 0 < int(typed) <= len(asked.choices):
        return asked.choices[int(typed) - 1].value
    folded = [choice for choice in asked.choices if choice.title.casefold() == typed.casefold()]
    exact = [choice for choice in folded if choice.title == typed]
    return next((choice.value for choice in exact or folded), None)


def _all_chosen(asked: FormField, line: str) -> Iterator[str]:
    """Values of the choices in a line, and what is none; between them a comma, or a blank where no name has one."""
    if (one := _chosen(asked, line)) is not None:
        yield one
        return
    for part in filter(None, map(str.strip, line.split(","))):
        if (one := _chosen(asked, part)) is not None:
            yield one
        else:
            yield from (_chosen(asked, word) or word for word in part.split())
