"""What an MCP server asks of the user while one of its tools runs, passed on to whoever can ask.

A server's form becomes a form of ours and back; what no form can hold is refused, and so is what none may ask: secrets.
Knows neither the SDK nor a session.

Model Context Protocol, "Elicitation"; Agent Client Protocol, "Elicitation", "Form mode" and "URL security".
"""

from __future__ import annotations

import math
import re
from collections.abc import Awaitable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import field
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
    Value,
    is_number,
)
from acp_agent.tools.text import clean, one_line

_LIMITS: dict[FieldKind, tuple[str, ...]] = {
    "text": ("minLength", "maxLength", "pattern", "format"),
    "number": ("minimum", "maximum"),
    "integer": ("minimum", "maximum"),
    "choices": ("minItems", "maxItems"),
}
_INTEGERS = (-(2**63), 2**63 - 1)
_LARGEST_SIZE = 2**32 - 1
"""What editors read of integers, and of lengths: MCP has no such bounds, and a form beyond them is none to ACP."""
_FORMATS = ("email", "uri", "date", "date-time")
_SECRET = re.compile(
    r"(?:\b(?:password|passphrase|passcode|secret|credentials?|cvv|cvc|security code|card number"
    r"|(?:api|access|private|secret) ?key|(?:access|refresh|auth|bearer|session|api) token"
    r"|(?:recovery|backup) codes?)|^token|^pin)$"
)
_LETS_IN = re.compile(
    r"^(?:auth(?:orization)?|code verifier|e ?mail|id token|jwt|login hint|pass(?:wd)?|phone|pwd|sas|session ?(?:id)?"
    r"|sid|sig|(?:x (?:amz|goog) )?(?:signature|credential))$"
)
"""Beside secrets, names of parameters by which an address lets somebody in, or says who they are."""
_TOLD = re.compile(r"eyJ[\w-]+\.[\w-]+\.[\w-]*|[^\s@/]+@[^\s@/]+\.[A-Za-z]{2,}")
"""The same of their values: a JSON Web Token, an address of electronic mail."""
_WORD_ENDS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[\W_]+")
_SCHEME = re.compile(r"\b[a-z][a-z0-9+.-]*://", re.IGNORECASE)
_SAME_MACHINE = ("localhost", "127.0.0.1", "::1")

T = TypeVar("T")
Plain: TypeAlias = str | int | float | bool | list[str]


@frozen
class Calling:
    """What a call of a server's tool is part of.

    :ivar call_id: as the user sees it.
    :ivar questions: how the user can be asked; None where nobody can.
    :ivar trace: W3C trace context that the prompt came with.
    """

    call_id: str = ""
    questions: Questions | None = None
    trace: Mapping[str, str] = field(default_factory=dict[str, str])


class Elicitations:
    """What one server asks. Nothing is passed on outside of a call: nobody waits for a server then.

    :param server: what people call it.
    """

    def __init__(self, server: str) -> None:
        self._server = server
        self._calling: Calling | None = None
        self._scope = anyio.CancelScope()
        self._links: dict[str, tuple[str, Questions]] = {}
        self._open: set[anyio.CancelScope] = set()

    @contextmanager
    def during(self, calling: Calling, scope: anyio.CancelScope) -> Generator[None]:
        """Pass on what is asked meanwhile.

        :param scope: bounds the call; the time in which the user thinks does not count.
        """
        self._calling, self._scope = calling, scope
        try:
            yield
        finally:
            self._calling = None
            # Each is asked in a task of the SDK's, which does not end with the call.
            for question in self._open:
                question.cancel()

    async def fill(self, message: str, schema: JsonObject) -> tuple[FormAnswer, dict[str, Plain]]:
        """Have a server's form filled in.

        :returns: what came of it, and the values as servers want them.
        :raises ToolError: nobody can be asked, or not this.
        """
        calling, questions = self._asked()
        if questions.asks != "forms":
            raise ToolError("the user's editor has no forms")
        form = form_of(f"{self._server}: {_unlinked(clean(message))}", schema)
        answer = await self._answered(questions.fill(form, calling.call_id))
        if not isinstance(answer, Filled):
            return answer, {}
        return answer, {name: _plain(value) for name, value in answer.values.items()}

    async def visit(self, message: str, url: str, server_id: str | None) -> LinkAnswer:
        """Ask the user to visit a server's address.

        :param server_id: what it will be called when it is done.
        :raises ToolError: nobody can be asked, or not this.
        """
        calling, questions = self._asked()
        if not questions.opens_urls:
            raise ToolError("the user's editor opens no addresses")
        _check_address(url)
        link = Link(new_id("elicit"), f"{self._server}: {clean(message)}", url)
        answer = await self._answered(questions.visit(link, calling.call_id))
        if answer == "accepted" and server_id is not None:
            self._links[server_id] = (link.id, questions)
        return answer

    async def required(self, data: object) -> str:
        """Ask the user to visit what a server wants visited before it does a call.

        :param data: what its error says.
        :returns: what came of it, for the model, as the end of a sentence.
        """
        said = cast("JsonObject", data) if isinstance(data, dict) else {}
        links = said.get("elicitations")
        answers: list[LinkAnswer] = []
        for link in links if isinstance(links, list) else []:
            if isinstance(link, dict):
                message, url, server_id = (link.get(key) for key in ("message", "url", "elicitationId"))
                known = str(server_id) if isinstance(server_id, str) else None
                answers.append(await self.visit(str(message or ""), str(url or ""), known))
        if answers and all(answer == "accepted" for answer in answers):
            return "it wants the user to do something at an address first, who is on the way there; try again then"
        return "it wants the user to do something at an address first, and they have not gone there"

    async def completed(self, server_id: str) -> None:
        """The server says that what it sent the user to an address for has been done."""
        known = self._links.pop(server_id, None)
        if known is not None:
            link_id, questions = known
            await questions.visited(link_id)

    def _asked(self) -> tuple[Calling, Questions]:
        if self._calling is None or self._calling.questions is None:
            raise ToolError("nobody waits for this server now")
        return self._calling, self._calling.questions

    async def _answered(self, asking: Awaitable[T]) -> T:
        """Wait for an answer as long as the call goes on, whose clock stands still meanwhile.

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
    """See that the user may be sent to an address.

    :raises ToolError: it is none, carries a login or what stands for one as far as that can be seen, or is one of
        another machine that others on the way can read.
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
    if (name := _telling(f"{parts.query}&{parts.fragment}")) is not None:
        raise ToolError(
            f"an address that lets somebody in or says who they are is not passed on: it has {one_line(name, 60)!r}"
        )
    if parts.scheme == "http" and host not in _SAME_MACHINE:
        raise ToolError("an http address of another machine is not passed on: it has to be https")


def _telling(parameters: str) -> str | None:
    """The first of an address's parameters that gives access or tells of a person."""
    for name, value in parse_qsl(parameters):
        words = _words(name)
        if _SECRET.search(words) or _LETS_IN.search(words) or _TOLD.fullmatch(value):
            return name
    return None


def form_of(message: str, schema: JsonObject) -> Form:
    """A server's form as one of ours.

    :param schema: a flat object.
    :raises ToolError: it holds what no form can ask, or what none may.
    """
    properties, required = schema.get("properties"), schema.get("required")
    if not isinstance(properties, dict) or not properties:
        return Form(message, ())
    needed = required if isinstance(required, list) else []
    return Form(message, tuple(_field(name, asked, name in needed) for name, asked in properties.items()))


def _field(name: str, asked: JsonValue, required: bool) -> FormField:
    if not isinstance(asked, dict):
        raise ToolError(f"the field {one_line(name, 60)} has no schema")
    choices: tuple[Choice, ...] = ()
    match asked.get("type"):
        case "string":
            choices = _choices(asked)
            kind: FieldKind = "choice" if choices else "text"
        case "number":
            kind = "number"
        case "integer":
            kind = "integer"
        case "boolean":
            kind = "boolean"
        case "array":
            items = asked.get("items")
            choices, kind = _choices(items if isinstance(items, dict) else {}), "choices"
        case _:
            raise ToolError(f"the field {one_line(name, 60)} is of no kind that can be asked for")
    if kind == "choices" and not choices:
        raise ToolError(f"the field {one_line(name, 60)} is of no kind that can be asked for")
    if kind not in ("boolean", "choice", "choices") and _is_secret(name, asked):
        raise ToolError(
            f"the field {one_line(name, 60)} asks for a secret, which no form may; use an address (mode `url`)"
        )
    found = {key: _limit(kind, key, asked.get(key)) for key in _LIMITS.get(kind, ())}
    limits = {key: limit for key, limit in found.items() if limit is not None}
    return FormField(
        name, kind, _text(asked, "title"), _text(asked, "description"), choices, required, _default(kind, asked), limits
    )


def _is_secret(name: str, asked: JsonObject) -> bool:
    said = (name, _text(asked, "title"))
    return asked.get("format") == "password" or any(_SECRET.search(_words(text)) for text in said)


def _words(name: str) -> str:
    return " ".join(_WORD_ENDS.split(name)).strip().lower()


def _unlinked(text: str) -> str:
    """Without what makes an editor show a link: who fills in a form is not to be led elsewhere by it."""
    return _SCHEME.sub("", text)


def _limit(kind: FieldKind, key: str, value: JsonValue) -> JsonValue:
    """A limit as a form can have it; None where it says none."""
    if key == "format":
        return value if value in _FORMATS else None
    if key == "pattern":
        return value if isinstance(value, str) else None
    if not is_number(value):
        return None
    if key not in ("minimum", "maximum"):
        return min(value, _LARGEST_SIZE) if isinstance(value, int) and value >= 0 else None
    if kind == "number":
        return value
    least, most = _INTEGERS
    return max(least, min(most, math.ceil(value) if key == "minimum" else math.floor(value)))


def _choices(asked: JsonObject) -> tuple[Choice, ...]:
    titled = asked.get("oneOf") or asked.get("anyOf")
    if isinstance(titled, list):
        options = [option for option in titled if isinstance(option, dict)]
        values = [option["const"] for option in options if isinstance(option.get("const"), str)]
        titles: list[JsonValue] = [_text(option, "title") for option in options]
    else:
        listed, names = asked.get("enum"), asked.get("enumNames")
        values = listed if isinstance(listed, list) else []
        titles = names if isinstance(names, list) and len(names) == len(values) else list[JsonValue](values)
    return tuple(
        Choice(value, _unlinked(title if isinstance(title, str) and title else value))
        for value, title in zip(values, titles, strict=False)
        if isinstance(value, str)
    )


def _text(asked: JsonObject, key: str) -> str:
    value = asked.get(key)
    return _unlinked(one_line(value, 500)) if isinstance(value, str) else ""


def _default(kind: FieldKind, asked: JsonObject) -> Value | None:
    given = asked.get("default")
    match kind:
        case "text" | "choice":
            return given if isinstance(given, str) else None
        case "boolean":
            return given if isinstance(given, bool) else None
        case "number":
            return given if is_number(given) else None
        case "integer":
            return _integer(given)
        case "choices":
            items = given if isinstance(given, list) else []
            return tuple(item for item in items if isinstance(item, str)) or None


def _integer(given: JsonValue) -> int | None:
    if not is_number(given) or (isinstance(given, float) and not given.is_integer()):
        return None
    least, most = _INTEGERS
    return int(given) if least <= given <= most else None


def _plain(value: Value) -> Plain:
    return [*value] if isinstance(value, tuple) else value
