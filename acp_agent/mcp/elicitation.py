"""Elicitation: questions that an MCP server asks the user while one of its tools runs.

A server's form becomes a `Form`. Forms with unsupported fields are refused, and so are
forms that ask for secrets.

Model Context Protocol, "Elicitation"; Agent Client Protocol, "Elicitation", "Form mode"
and "URL security".
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TypeVar

import anyio

from acp_agent.conversation.messages import JsonObject, JsonValue, new_id
from acp_agent.errors import InvalidParamsError, ToolError
from acp_agent.mcp.addresses import check_address
from acp_agent.secrets.asked import asks_for_secret
from acp_agent.secrets.known import secrets_of
from acp_agent.secrets.names import is_secret_name
from acp_agent.tools.environment import Environment
from acp_agent.tools.forms import (
    LIMITS,
    FieldChoice,
    FieldKind,
    Form,
    FormAnswer,
    FormField,
    Link,
    LinkAnswer,
    Questions,
    field_value,
)
from acp_agent.tools.text import clean, one_line

T = TypeVar("T")

MAX_QUESTIONS = 20
"""Maximum questions per call, since a server could show one dialog after another."""
MAX_MESSAGE = 4_000
"""Maximum characters of a message."""
MAX_FIELDS = 50
MAX_CHOICES = 500
"""Maximum choices of one field."""
MAX_NAME = 200
"""Maximum characters of a field's name."""

_KINDS: dict[JsonValue, FieldKind] = {
    "string": "text",
    "number": "number",
    "integer": "integer",
    "boolean": "boolean",
    "array": "choices",
}
_TYPED = ("text", "number", "integer")
"""Kinds of fields that a secret could be typed into."""
_LONGEST_LETTER = 2
"""Maximum length of a choice that may stand for a digit or a letter."""
_NO_SECRETS = "the message asks for a secret, which forms must not do; use an address (mode `url`)"
_FORMATS = ("email", "uri", "date", "date-time")
_SCHEME = re.compile(r"(?<![a-z0-9+.-])[a-z0-9+.-]++://", re.IGNORECASE)


class Elicitations:
    """Passes on one server's questions while a call of one of its tools runs.

    :param server: the server's name as shown to the user.
    """

    def __init__(self, server: str) -> None:
        self._server = server
        self._environment: Environment | None = None
        self._scope = anyio.CancelScope()
        self._links: dict[str, tuple[str, Questions]] = {}
        self._open: set[anyio.CancelScope] = set()
        self._one_at_a_time = anyio.Lock()
        self._asked = 0

    @contextmanager
    def during(
        self, environment: Environment, scope: anyio.CancelScope
    ) -> Generator[None]:
        """Pass questions on as part of a call.

        :param scope: limits the call's time; waiting for the user does not count.
        """
        self._environment = environment
        self._scope = scope
        self._asked = 0
        try:
            yield
        finally:
            self._environment = None
            # Each question is asked in one of the SDK's tasks, and that task does not
            # end with the call.
            for question in self._open:
                question.cancel()

    async def fill(self, message: str, fields: tuple[FormField, ...]) -> FormAnswer:
        """Ask the user to fill in a server's form.

        :param fields: the result of `fields_of`.
        :raises ToolError: if the user cannot be asked, or must not be asked for this.
        """
        questions, call_id = self._call()
        if questions.asks != "forms":
            raise ToolError("the user's editor does not support forms")
        typed = [
            each for each in fields if each.kind in _TYPED or _spells(each.choices)
        ]
        said = " ".join(
            (
                message,
                *(f"{each.title or each.name} {each.description}" for each in typed),
            )
        )
        if typed and (
            asks_for_secret(said) or asks_for_secret(said.replace("\\n", "\n"))
        ):
            raise ToolError(_NO_SECRETS)
        form = Form(f"{self._server}: {_shown(message)}", fields)
        return await self._answered(partial(questions.fill, form, call_id))

    async def visit(
        self, message: str, url: str, elicitation_id: str | None
    ) -> LinkAnswer:
        """Ask the user to visit an address.

        :param elicitation_id: the id that the server later uses to report that the user
            is done there.
        :raises ToolError: if the user cannot be asked, or must not be sent to this
            address.
        """
        questions, call_id = self._call()
        if not questions.opens_urls:
            raise ToolError("the user's editor cannot open addresses")
        check_address(url, secrets_of(os.environ))
        link = Link(new_id("elicit"), f"{self._server}: {_shown(message)}", url)
        answer = await self._answered(partial(questions.visit, link, call_id))
        if answer == "accept" and elicitation_id is not None:
            self._links[elicitation_id] = (link.id, questions)
        return answer

    async def completed(self, elicitation_id: str) -> None:
        """Tell the editor that the user has completed the server's request at an
        address.
        """
        if (known := self._links.pop(elicitation_id, None)) is not None:
            link_id, questions = known
            await questions.visited(link_id)

    def _call(self) -> tuple[Questions, str]:
        if self._environment is None or self._environment.questions is None:
            raise ToolError("no tool call of this server is running")
        return self._environment.questions, self._environment.call_id

    async def _answered(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Ask one question at a time, and wait for the answer until the call ends.

        :raises ToolError: if the call has ended, or has asked too many questions.
        """
        self._asked += 1
        if self._asked > MAX_QUESTIONS:
            raise ToolError(
                f"one call may ask the user at most {MAX_QUESTIONS} questions"
            )
        with anyio.CancelScope() as question:
            self._open.add(question)
            try:
                async with self._one_at_a_time:
                    return await self._untimed(ask)
            finally:
                self._open.discard(question)
        raise ToolError("the call that asked this question has ended")

    async def _untimed(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Wait for an answer, with the call's time limit paused."""
        call = self._scope
        began = anyio.current_time()
        deadline = call.deadline
        call.deadline = math.inf
        try:
            return await ask()
        finally:
            call.deadline = deadline + anyio.current_time() - began


def fields_of(schema: JsonObject) -> tuple[FormField, ...]:
    """Return the fields of a server's form.

    :param schema: the schema of a flat object.
    :raises ToolError: if the form has an unsupported field, asks for a secret, or is
        too large.
    """
    properties = schema.get("properties")
    required = schema.get("required")
    fields = properties.items() if isinstance(properties, dict) else ()
    if len(fields) > MAX_FIELDS:
        raise ToolError(f"a form may have at most {MAX_FIELDS} fields")
    needed = required if isinstance(required, list) else []
    return tuple(_field(name, asked, name in needed) for name, asked in fields)


def _field(name: str, asked: JsonValue, required: bool) -> FormField:
    shown = one_line(name, 60)
    asked = asked if isinstance(asked, dict) else {}
    type_ = asked.get("type")
    items = asked.get("items")
    kind = _KINDS.get(type_) if isinstance(type_, str) else None
    choices = _choices(
        items if kind == "choices" and isinstance(items, dict) else asked
    )
    if len(name) > MAX_NAME or len(choices) > MAX_CHOICES:
        most = f"{MAX_NAME} characters in its name, or {MAX_CHOICES} choices"
        raise ToolError(f"the field {shown} has more than {most}")
    if kind is None or (kind == "choices" and not choices):
        raise ToolError(f"the field {shown} has an unsupported type")
    title, description = (
        _unlinked(one_line(str(asked.get(key, "")), 500))
        for key in ("title", "description")
    )
    is_typed = kind in _TYPED and not (kind == "text" and choices)
    if is_typed or _spells(choices):
        # Check the raw texts too, since invisible characters are replaced in the
        # others.
        raw = " ".join(
            str(asked.get(key, ""))[:500] for key in ("title", "description")
        )
        is_secret = asks_for_secret(f"{name} {title} {description}") or asks_for_secret(
            f"{name} {raw}"
        )
        if (
            is_secret
            or is_secret_name(name)
            or is_secret_name(title)
            or asked.get("format") == "password"
        ):
            raise ToolError(
                f"the field {shown} asks for a secret, which forms must not do; use an address (mode `url`)"
            )
    if is_typed:
        choices = ()
    elif kind == "text":
        kind = "choice"
    numbers = int | float if kind == "number" else int
    limits: JsonObject = {
        key: value
        for key, value in asked.items()
        # Finite numbers only.
        if (key in LIMITS and isinstance(value, numbers) and value - value == 0)
        or (key == "pattern" and isinstance(value, str))
        or (key == "format" and value in _FORMATS)
    }
    made = FormField(name, kind, title, description, choices, required, limits=limits)
    try:
        return replace(made, default=field_value(made, asked.get("default")))
    except InvalidParamsError:
        return made


def _spells(choices: Sequence[FieldChoice]) -> bool:
    """Return whether the choices are digits or letters, which could be used to spell a
    secret.
    """
    return bool(choices) and all(
        min(len(each.value), len(each.title)) <= _LONGEST_LETTER for each in choices
    )


def _choices(asked: JsonObject) -> tuple[FieldChoice, ...]:
    titled = asked.get("oneOf") or asked.get("anyOf")
    values = asked.get("enum")
    titles = asked.get("enumNames")
    if isinstance(titled, list):
        pairs = [
            (each.get("const"), each.get("title"))
            for each in titled
            if isinstance(each, dict)
        ]
    else:
        values = values if isinstance(values, list) else []
        pairs = [
            *zip(values, titles if isinstance(titles, list) else values, strict=False)
        ]
    return tuple(
        FieldChoice(value, _unlinked(one_line(str(title or value), 500)))
        for value, title in pairs
        if isinstance(value, str)
    )


def _shown(message: str) -> str:
    """Return a message in the form in which the user sees it.

    :raises ToolError: if it is too long.
    """
    if len(message) > MAX_MESSAGE:
        raise ToolError(
            f"a message to the user may have at most {MAX_MESSAGE:,} characters"
        )
    return _unlinked(clean(message))


def _unlinked(text: str) -> str:
    """Return a text without URL schemes, since an editor could turn them into links
    that lead the user elsewhere.
    """
    return _SCHEME.sub("", text)
