"""Elicitation: what an MCP server asks the user while one of its tools runs.

A server's form becomes a `Form`; what no form can hold is refused, and so is what none may ask: secrets.

Model Context Protocol, "Elicitation"; Agent Client Protocol, "Elicitation", "Form mode" and "URL security".
"""

from __future__ import annotations

import math
import re
from collections.abc import Awaitable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import field, replace
from typing import TypeAlias, TypeVar, cast
from urllib.parse import parse_qsl, urlsplit

import anyio

from acp_agent.conversation.messages import JsonObject, JsonValue, new_id
from acp_agent.errors import ToolError
from acp_agent.frozen import frozen
from acp_agent.tools.forms import (
    Choice,
    FieldKind,
    Filled,
    Form,
    FormAnswer,
    FormField,
    Link,
    LinkAnswer,
    Questions,
    field_value,
    is_number,
)
from acp_agent.tools.text import clean, one_line

T = TypeVar("T")
Plain: TypeAlias = str | int | float | bool | list[str]

_LIMITS: dict[FieldKind, tuple[str, ...]] = {
    "text": ("minLength", "maxLength"),
    "number": ("minimum", "maximum"),
    "integer": ("minimum", "maximum"),
    "choices": ("minItems", "maxItems"),
}
_KINDS: dict[JsonValue, FieldKind] = {
    "string": "text",
    "number": "number",
    "integer": "integer",
    "boolean": "boolean",
    "array": "choices",
}
_FORMATS = ("email", "uri", "date", "date-time")
_SECRET = re.compile(
    r"(?:\b(?:password|passphrase|passcode|secret|credentials?|cvv|cvc|security code|card number"
    r"|(?:api|access|private|secret) ?key|(?:access|refresh|auth|bearer|session|api) token"
    r"|(?:recovery|backup) codes?)|^token|^pin)$"
)
_LOGIN = re.compile(
    r"^(?:auth(?:orization)?|code verifier|e ?mail|id token|jwt|login hint|pass(?:wd)?|phone|pwd|sas|session ?(?:id)?"
    r"|sid|sig|(?:x (?:amz|goog) )?(?:signature|credential))$"
)
"""Further names of an address's parameters that give access or say who the user is."""
_LOGIN_VALUE = re.compile(r"eyJ[\w-]+\.[\w-]+\.[\w-]*|[^\s@/]+@[^\s@/]+\.[A-Za-z]{2,}")
"""Values that do: a JSON Web Token, an email address."""
_WORD_ENDS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[\W_]+")
_SCHEME = re.compile(r"\b[a-z][a-z0-9+.-]*://", re.IGNORECASE)
_SAME_MACHINE = ("localhost", "127.0.0.1", "::1")


@frozen
class Calling:
    """The tool call during which a server may ask.

    :ivar call_id: as the user sees it.
    :ivar questions: how the user can be asked; None where there is no way to.
    :ivar trace: W3C trace context that the prompt came with.
    """

    call_id: str = ""
    questions: Questions | None = None
    trace: Mapping[str, str] = field(default_factory=dict[str, str])


class Elicitations:
    """Passes on what one server asks, as long as a call of one of its tools runs.

    :param server: its name for people.
    """

    def __init__(self, server: str) -> None:
        self._server = server
        self._calling = Calling()
        self._scope = anyio.CancelScope()
        self._links: dict[str, tuple[str, Questions]] = {}
        self._open: set[anyio.CancelScope] = set()

    @contextmanager
    def during(self, calling: Calling, scope: anyio.CancelScope) -> Generator[None]:
        """Pass questions on as part of a call.

        :param scope: bounds the call; the time in which the user thinks does not count.
        """
        self._calling, self._scope = calling, scope
        try:
            yield
        finally:
            self._calling = Calling()
            # Each question is asked in a task of the SDK's, which does not end with the call.
            for question in self._open:
                question.cancel()

    async def fill(self, message: str, schema: JsonObject) -> tuple[FormAnswer, dict[str, Plain]]:
        """Have a server's form filled in.

        :returns: the answer, and its values as servers want them.
        :raises ToolError: the user cannot be asked, or not this.
        """
        questions = self._questions()
        if questions.asks != "forms":
            raise ToolError("the user's editor has no forms")
        form = form_of(f"{self._server}: {_unlinked(clean(message))}", schema)
        answer = await self._answered(questions.fill(form, self._calling.call_id))
        if not isinstance(answer, Filled):
            return answer, {}
        return answer, {name: [*each] if isinstance(each, tuple) else each for name, each in answer.values.items()}

    async def visit(self, message: str, url: str, elicitation_id: str | None) -> LinkAnswer:
        """Ask the user to visit an address.

        :param elicitation_id: by which the server says later that the user is done there.
        :raises ToolError: the user cannot be asked, or not this.
        """
        questions = self._questions()
        if not questions.opens_urls:
            raise ToolError("the user's editor opens no addresses")
        _check_address(url)
        link = Link(new_id("elicit"), f"{self._server}: {clean(message)}", url)
        answer = await self._answered(questions.visit(link, self._calling.call_id))
        if answer == "accepted" and elicitation_id is not None:
            self._links[elicitation_id] = (link.id, questions)
        return answer

    async def visit_required(self, data: object) -> str:
        """Ask the user to visit the addresses that a server wants visited before it does a call.

        :param data: of the server's error.
        :returns: what came of it, for the model, as the end of a sentence.
        """
        links = cast("JsonObject", data).get("elicitations") if isinstance(data, dict) else None
        answers: list[LinkAnswer] = []
        for link in links if isinstance(links, list) else []:
            if isinstance(link, dict):
                message, url, known = (link.get(key) for key in ("message", "url", "elicitationId"))
                answers.append(
                    await self.visit(str(message or ""), str(url or ""), known if isinstance(known, str) else None)
                )
        if answers and all(answer == "accepted" for answer in answers):
            return "it wants the user to do something at an address first, who is on the way there; try again then"
        return "it wants the user to do something at an address first, and they have not gone there"

    async def completed(self, elicitation_id: str) -> None:
        """Tell the editor that the user has done at an address what the server sent them there for."""
        if (known := self._links.pop(elicitation_id, None)) is not None:
            link_id, questions = known
            await questions.visited(link_id)

    def _questions(self) -> Questions:
        if self._calling.questions is None:
            raise ToolError("no call of a tool of this server is running")
        return self._calling.questions

    async def _answered(self, asking: Awaitable[T]) -> T:
        """Wait for an answer as long as the call goes on, whose time limit stands still meanwhile.

        :raises ToolError: the call has ended.
        """
        call, began = self._scope, anyio.current_time()
        deadline, call.deadline = call.deadline, math.inf
        with anyio.CancelScope() as question:
            self._open.add(question)
            try:
                return await asking
            finally:
                self._open.discard(question)
                call.deadline = deadline + anyio.current_time() - began
        raise ToolError("the call in which this was asked has ended")


def _check_address(url: str) -> None:
    """Refuse an address that the user must not be sent to.

    :raises ToolError: it is no web address; it carries a login, as far as that can be seen; or others on the way could
        read what is sent.
    """
    try:
        parts = urlsplit(url)
        host, login = parts.hostname, parts.username or parts.password
    except ValueError:
        host, login, parts = None, None, urlsplit("")
    if parts.scheme not in ("http", "https") or not host or one_line(url, len(url)) != url:
        raise ToolError("what is to be opened is no http or https address")
    if login:
        raise ToolError("an address with a login in it is not passed on")
    for name, value in parse_qsl(f"{parts.query}&{parts.fragment}"):
        words = _words(name)
        if _SECRET.search(words) or _LOGIN.search(words) or _LOGIN_VALUE.fullmatch(value):
            said = f"it has {one_line(name, 60)!r}"
            raise ToolError(f"an address that gives access or says who they are is not passed on: {said}")
    if parts.scheme == "http" and host not in _SAME_MACHINE:
        raise ToolError("an http address of another machine is not passed on: it has to be https")


def form_of(message: str, schema: JsonObject) -> Form:
    """Return a server's form as a `Form`.

    :param schema: a flat object.
    :raises ToolError: it holds what no form can ask, or what none may.
    """
    properties, required = schema.get("properties"), schema.get("required")
    if not isinstance(properties, dict):
        return Form(message, ())
    needed = required if isinstance(required, list) else []
    return Form(message, tuple(_field(name, asked, name in needed) for name, asked in properties.items()))


def _field(name: str, asked: JsonValue, required: bool) -> FormField:
    shown = one_line(name, 60)
    if not isinstance(asked, dict):
        raise ToolError(f"the field {shown} has no schema")
    type_ = asked.get("type")
    kind = _KINDS.get(type_) if isinstance(type_, str) else None
    items = asked.get("items") if kind == "choices" else asked
    choices = _choices(items) if isinstance(items, dict) and kind in ("text", "choices") else ()
    if kind is None or (kind == "choices" and not choices):
        raise ToolError(f"the field {shown} is of no kind that can be asked for")
    if kind == "text" and choices:
        kind = "choice"
    title, description = _text(asked, "title"), _text(asked, "description")
    if kind in ("text", "number", "integer"):
        named_so = any(_SECRET.search(_words(text)) for text in (name, title))
        if named_so or asked.get("format") == "password":
            raise ToolError(f"the field {shown} asks for a secret, which no form may; use an address (mode `url`)")
    limits = {key: value for key in _LIMITS.get(kind, ()) if is_number(value := asked.get(key))}
    if kind == "text":
        limits |= {"pattern": asked["pattern"]} if isinstance(asked.get("pattern"), str) else {}
        limits |= {"format": asked["format"]} if asked.get("format") in _FORMATS else {}
    made = FormField(name, kind, title, description, choices, required, limits=limits)
    try:
        return replace(made, default=field_value(made, asked.get("default")))
    except ValueError:
        return made


def _choices(asked: JsonObject) -> tuple[Choice, ...]:
    titled = asked.get("oneOf") or asked.get("anyOf")
    if isinstance(titled, list):
        options = [option for option in titled if isinstance(option, dict)]
        pairs = [(option.get("const"), option.get("title")) for option in options]
    else:
        values, titles = asked.get("enum"), asked.get("enumNames")
        values = values if isinstance(values, list) else []
        named = isinstance(titles, list) and len(titles) == len(values)
        pairs = [*zip(values, titles if named and isinstance(titles, list) else values, strict=True)]
    return tuple(
        Choice(value, _unlinked(one_line(title if isinstance(title, str) and title else value, 500)))
        for value, title in pairs
        if isinstance(value, str)
    )


def _text(asked: JsonObject, key: str) -> str:
    value = asked.get(key)
    return _unlinked(one_line(value, 500)) if isinstance(value, str) else ""


def _words(name: str) -> str:
    return " ".join(_WORD_ENDS.split(name)).strip().lower()


def _unlinked(text: str) -> str:
    """Return a text without what an editor would show as a link, which could lead the user elsewhere."""
    return _SCHEME.sub("", text)
