"""Asks the person at the terminal, if there is one, for a line, or a form line by line."""

from __future__ import annotations

import os
import sys
import termios
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

import anyio.to_thread

from acp_agent.conversation.messages import JsonValue, ToolCall
from acp_agent.errors import ToolError
from acp_agent.tools.forms import (
    Asks,
    FieldChoice,
    Form,
    FormAnswer,
    FormField,
    Link,
    LinkAnswer,
    filled,
)

_LONGEST_ANSWER = 4_096
_YES = {"y": True, "yes": True, "n": False, "no": False}
_HINTS = {
    "choice": "number or name",
    "choices": "numbers or names, with commas",
    "boolean": "[y]es, [n]o",
    "number": "number",
    "integer": "number",
}


def is_interactive() -> bool:
    """Return whether stdin is a terminal."""
    return sys.stdin.isatty()


async def typed_secret(question: str) -> str | None:
    """Do as `typed` at a terminal, without showing what is typed, which it does again
    afterwards, however this ends.

    :param question: printed to stderr, without a line end.
    """
    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)
    quiet = [*before]
    quiet[3] = before[3] & ~termios.ECHO
    try:
        termios.tcsetattr(terminal, termios.TCSAFLUSH, quiet)
        return await typed(question)
    finally:
        termios.tcsetattr(terminal, termios.TCSAFLUSH, before)
        print(file=sys.stderr, flush=True)  # the line end was not shown either


async def typed(question: str) -> str | None:
    """Return the line that a person types, without blanks around it; None for ctrl-d,
    or where stdin is no terminal.

    What was typed before the question was shown is discarded: it answered something
    else, such as a question that a model wrote into its answer.

    A cancel leaves the thread that reads behind: see `process.run_command`, which does
    not wait for it.

    :param question: printed to stderr, without a line end.
    """
    if not is_interactive():
        return None
    with suppress(OSError, termios.error):
        termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)
    print(question, end="", file=sys.stderr, flush=True)
    try:
        line = await anyio.to_thread.run_sync(
            os.read, sys.stdin.fileno(), _LONGEST_ANSWER, abandon_on_cancel=True
        )
    except OSError:  # the terminal is gone, or belongs to another job
        line = b""
    if not line:  # ctrl-d
        print(file=sys.stderr, flush=True)
        return None
    return line.decode(errors="replace").strip()


class TerminalQuestions:
    """`Questions` for a person at a terminal.

    :param say: prints a line.
    :param typed: asks for a line behind this text; None where the person has left in
        its place.
    """

    def __init__(
        self,
        say: Callable[[str], None],
        typed: Callable[[str], Awaitable[str | None]] = typed,
    ) -> None:
        self._say = say
        self._typed = typed
        self.opens_urls = is_interactive()
        self.asks: Asks = "forms" if self.opens_urls else "nothing"

    async def fill(self, form: Form, call_id: str | None = None) -> FormAnswer:
        """Ask field by field; a line that does not fit is asked for again, and ctrl-d
        closes the form.
        """
        self._say(f"? {form.message}")
        values: dict[str, JsonValue] = {}
        for each in form.fields:
            answer = await self._field(each, alone=len(form.fields) == 1)
            if answer is None:
                return "cancel"
            values[each.name] = answer
        return filled(form, values)

    async def choose(
        self, call: ToolCall, question: str, choices: Sequence[FieldChoice]
    ) -> FieldChoice | None:
        """Ask for one of several; an empty line is none of them."""
        field = FormField("answer", "choice", choices=tuple(choices), required=False)
        answer = await self.fill(Form(question, (field,)))
        chosen = None if isinstance(answer, str) else answer.get("answer")
        return next((choice for choice in choices if choice.value == chosen), None)

    async def visit(self, link: Link, call_id: str | None = None) -> LinkAnswer:
        """Show the address, and ask whether the person goes there; it is not opened."""
        self._say(f"? {link.message}")
        self._say(f"  {link.url}")
        line = await self._typed("  Will you open it? [y]es, [n]o: ")
        if line is None:
            return "cancel"
        return "accept" if _YES.get(line.lower(), False) else "decline"

    async def visited(self, link_id: str) -> None:
        """Do nothing: no question was left open."""

    async def _field(self, asked: FormField, *, alone: bool) -> JsonValue:
        """Return what was typed, as a value of the field's kind; "" for nothing, None
        where the person has left.
        """
        title = "" if alone and asked.kind != "boolean" else asked.title or asked.name
        choices = [
            f"{number}. {each.title}{f': {each.description}' if each.description else ''}"
            for number, each in enumerate(asked.choices, 1)
        ]
        for line in filter(None, (title, asked.description, *choices)):
            self._say(f"  {line}")
        optional = "" if asked.required and asked.default is None else "(or nothing)"
        hint = " ".join(filter(None, (_HINTS.get(asked.kind), optional)))
        while (line := await self._typed(f"  {hint}> ")) is not None:
            value = _value(asked, line)
            if not line and asked.default is not None:
                value = asked.default
            try:
                filled(Form("", (asked,)), {asked.name: value})
            except ToolError as error:
                self._say(f"  {error}")
            else:
                return value
        return None


def _value(asked: FormField, line: str) -> JsonValue:
    """Return a line as a value of the field's kind, or as it is where it is none."""
    match asked.kind:
        case "choice":
            return _chosen(asked, line)
        case "choices":
            return [
                *dict.fromkeys(
                    _chosen(asked, word.strip())
                    for word in line.split(",")
                    if word.strip()
                )
            ]
        case "boolean":
            return _YES.get(line.lower(), line)
        case "number" | "integer":
            try:
                return float(line)
            except ValueError:
                return line
        case "text":
            return line


def _chosen(asked: FormField, typed: str) -> str:
    """Return the value of the choice with this number or name; what was typed where
    there is none.
    """
    if typed.isdecimal() and 0 < int(typed) <= len(asked.choices):
        return asked.choices[int(typed) - 1].value
    return next(
        (
            choice.value
            for choice in asked.choices
            if choice.title.casefold() == typed.casefold()
        ),
        typed,
    )
