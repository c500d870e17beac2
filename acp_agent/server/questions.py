"""Asks the user questions through an editor: permission dialogs and their options,
forms, and URLs.

As in other agents, the id of an option is its kind, since some editors look at the id
(avante) and some at the kind (CodeCompanion).

ACP, "Tool Calls", "Requesting Permission"; "Elicitation".
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, cast

from acp_agent.conversation.events import CallView
from acp_agent.conversation.messages import ToolCall
from acp_agent.errors import ToolError, sentence
from acp_agent.jsonrpc.messages import PeerClosedError, RpcError
from acp_agent.protocol import JsonObject, JsonValue, methods, v1
from acp_agent.protocol.updates import given, tool_call
from acp_agent.protocol.v1 import PermissionOptionKind
from acp_agent.server.channel import Channel
from acp_agent.server.content import cut, pending_call
from acp_agent.server.handshake import Capabilities
from acp_agent.session.client import MAX_LABEL, Answer, Grant
from acp_agent.tools.forms import filled
from acp_agent.tools.text import one_line, title_line
from acp_agent.visible import visible

if TYPE_CHECKING:
    from acp_agent.tools.asked import Question
    from acp_agent.tools.forms import (
        Asks,
        FieldChoice,
        Form,
        FormAnswer,
        FormField,
        Link,
        LinkAnswer,
        Refusal,
    )

_CHOICE = "allow_once"
_NONE = "reject_once"
_OTHER_ANSWER = "_askUserQuestionCustomAnswer"
"""`_meta` key that marks a text field as the free-text answer to a choice. Editors show
the two as one field.
"""

_log = logging.getLogger(__name__)


def permission_options(grant: Grant | None) -> list[JsonObject]:
    """Return the options of a dialog that asks whether a tool call may run.

    :param grant: the permission that "always" would grant.
    """
    always = (
        []
        if grant is None
        else [_option("allow_always", title_line(grant.label, MAX_LABEL))]
    )
    return [_option("allow_once", "Allow"), *always, _option("reject_once", "Reject")]


def trust_options() -> list[JsonObject]:
    """Return the options of a dialog that asks whether the hooks and recipes of a
    project may run.
    """
    return [
        _option("allow_always", "Trust this folder until something in it changes"),
        _option("allow_once", "For this session"),
        _option("reject_once", "Not now"),
    ]


def _option(kind: PermissionOptionKind, name: str, option_id: str = "") -> JsonObject:
    return {"optionId": option_id or kind, "name": name, "kind": kind}


class PermissionDialogs:
    """Asks the user to select one of several options, using
    `session/request_permission`.

    The callables are specific to the protocol version.

    :param diffs: returns the file changes of a tool call as items of its content.
    :param params: builds the request's params, without its options, from the tool call
        to show, a Markdown text with the reason for the question, and one with what
        would be done.
    :param chosen: returns the id of the selected option from the request's result, or
        None if the user cancelled.
    :param announce: shows the tool call with this id if it was not shown yet.
    :param offers_always: returns whether to offer the user a permanent permission.
    """

    def __init__(
        self,
        channel: Channel,
        diffs: Callable[[CallView], list[JsonObject]],
        params: Callable[[JsonObject, str, str], JsonObject],
        chosen: Callable[[JsonValue], str | None],
        announce: Callable[[str], Awaitable[None]],
        offers_always: Callable[[], bool] = lambda: True,
    ) -> None:
        self._channel = channel
        self._announce = announce
        self._offers_always = offers_always
        self._diffs = diffs
        self._params = params
        self._chosen = chosen

    async def ask_permission(
        self,
        call_id: str,
        name: str,
        view: CallView,
        arguments: JsonObject,
        grant: Grant | None,
        reason: str = "",
        *,
        question: Question,
    ) -> Answer | Grant:
        """Ask the user whether a tool call may run. Only a selected allow option is
        consent.

        :raises ToolError: if the editor could not ask, or if its answer is invalid.
        """
        call = pending_call(call_id, name, view, arguments, self._diffs(view))
        grant = grant if self._offers_always() else None
        answer = await self._answer(
            call, permission_options(grant), reason, question.markdown
        )
        return grant if answer == "allow_always" and grant is not None else answer

    async def ask_trust(
        self,
        call_id: str,
        name: str,
        view: CallView,
        projects: Sequence[str],
        text: str,
    ) -> Answer:
        """Ask the user whether the hooks and recipes of projects may run.

        :raises ToolError: if the editor could not ask, or if its answer is invalid.
        """
        call = pending_call(call_id, name, view, {"folders": [*projects]})
        options = [
            option
            for option in trust_options()
            if option["kind"] != "allow_always" or self._offers_always()
        ]
        return await self._answer(call, options, text)

    async def select(
        self,
        tool_call: JsonObject,
        options: Sequence[JsonObject],
        description: str,
        facts: str = "",
    ) -> str | None:
        """Ask the user to select one of `options`.

        :param tool_call: the subject of the question, with all its fields, since some
            editors have not seen it before.
        :param options: at most one of each kind, unless the editor shows every option.
        :param description: additional text, as Markdown.
        :param facts: Markdown text that says what would be done.
        :returns: the id of the option, or None if the user cancelled.
        :raises RpcError: if the editor could not ask.
        :raises ToolError: if the editor's answer is invalid.
        """
        params: JsonObject = {
            **self._params(tool_call, description, facts),
            "options": [*options],
        }
        await self._announce(str(tool_call["toolCallId"]))
        chosen = self._chosen(
            await self._channel.request_raw(methods.SESSION_REQUEST_PERMISSION, params)
        )
        if chosen is not None and chosen not in [
            option["optionId"] for option in options
        ]:
            raise ToolError(
                f"The editor chose the option {one_line(chosen)!r}, which it was not offered."
            )
        return chosen

    async def _answer(
        self,
        call: JsonObject,
        options: Sequence[JsonObject],
        description: str,
        facts: str = "",
    ) -> Answer:
        try:
            return cast(
                "Answer",
                await self.select(call, options, cut(description), cut(facts))
                or "cancelled",
            )
        except PeerClosedError:
            return "cancelled"  # the editor has disconnected, so the turn is about to be cancelled
        except (RpcError, ToolError) as error:
            _log.warning("the editor did not answer a permission request: %s", error)
            raise ToolError(
                f"The user could not be asked, so nothing was done. {sentence(error)} Do not try it in another way."
            ) from error


class EditorQuestions:
    """`Questions` over the wire: forms and URLs by elicitation, choices by permission
    dialogs.

    :ivar asks: `forms` if the editor supports them, or else `choices`, which every
        editor supports.
    :ivar opens_urls: whether the editor supports elicitation by URL.
    """

    def __init__(
        self, channel: Channel, dialogs: PermissionDialogs, capabilities: Capabilities
    ) -> None:
        self._channel = channel
        self._dialogs = dialogs
        self.asks: Asks = "forms" if capabilities.forms else "choices"
        self.opens_urls = capabilities.urls
        self._shows_every_option = capabilities.traits.shows_every_option

    async def fill(self, form: Form, call_id: str | None = None) -> FormAnswer:
        """Ask the user to fill in a form; see `Questions.fill`."""
        schema: JsonObject = {
            "type": "object",
            "properties": {each.name: _property(each) for each in form.fields},
            "required": [each.name for each in form.fields if each.required],
        }
        params: JsonObject = {
            "mode": "form",
            "message": cut(visible(form.message)),
            "requestedSchema": schema,
        }
        answer = await self._elicit(params, call_id)
        return (
            filled(form, answer.content or {})
            if answer.action == "accept"
            else _refusal(answer)
        )

    async def visit(self, link: Link, call_id: str | None = None) -> LinkAnswer:
        """Ask the user to visit a URL; see `Questions.visit`."""
        params: JsonObject = {
            "mode": "url",
            "message": cut(visible(link.message)),
            "url": link.url,
            "elicitationId": link.id,
        }
        answer = await self._elicit(params, call_id)
        return "accept" if answer.action == "accept" else _refusal(answer)

    async def visited(self, link_id: str) -> None:
        """Notify the editor that the interaction at a URL is complete."""
        await self._channel.notify(
            methods.ELICITATION_COMPLETE, {"elicitationId": link_id}
        )

    async def choose(
        self, call: ToolCall, question: str, choices: Sequence[FieldChoice]
    ) -> FieldChoice | None:
        """Ask the user to choose; see `Questions.choose`.

        An editor that shows every option gets one dialog. Other editors get a dialog
        for each choice, whose title names the choice. If the user answers "no", the
        next choice is offered.
        """
        listing = cut(_markdown_list(choices))
        if self._shows_every_option:
            by_id = {
                f"{_CHOICE}_{number}" if number > 1 else _CHOICE: each
                for number, each in enumerate(choices, 1)
            }
            options = [
                _option("allow_once", title_line(each.title, 80), id)
                for id, each in by_id.items()
            ]
            options.append(_option("reject_once", "None of these"))
            return by_id.get(
                await self._choose_one(call, question, options, listing) or _NONE
            )
        for number, choice in enumerate(choices, 1):
            # A title keeps its end when it is cut, so put the choice there, since the
            # user answers to it.
            title = f"{question} → {choice.title}"
            is_last = number == len(choices)
            options = [
                _option("allow_once", title_line(choice.title, 80)),
                _option(
                    "reject_once",
                    "None of these" if is_last else "Show the next choice",
                ),
            ]
            place = f" ({number} of {len(choices)})" if len(choices) > 1 else ""
            chosen = await self._choose_one(
                call, f"{title_line(title, 300)}{place}", options, listing
            )
            if chosen == _CHOICE:
                return choice
            if chosen is None:
                return None
        return None

    async def _choose_one(
        self, call: ToolCall, title: str, options: Sequence[JsonObject], listing: str
    ) -> str | None:
        shown = tool_call(
            call.id, title=title, name=call.name, kind="other", status="pending"
        )
        with _refusal_as_tool_error():
            return await self._dialogs.select(shown, options, listing)

    async def _elicit(
        self, params: JsonObject, call_id: str | None
    ) -> v1.CreateElicitationResponse:
        params = {**given(toolCallId=call_id or None), **params}
        with _refusal_as_tool_error():
            return await self._channel.request(
                methods.ELICITATION_CREATE, params, v1.CreateElicitationResponse
            )


def _refusal(answer: v1.CreateElicitationResponse) -> Refusal:
    return "decline" if answer.action == "decline" else "cancel"


@contextmanager
def _refusal_as_tool_error() -> Generator[None]:
    """Convert an editor's refusal to ask into a `ToolError`."""
    try:
        yield
    except RpcError as error:
        _log.warning("the editor did not answer a question: %s", error)
        raise ToolError(f"The user could not be asked. {sentence(error)}") from error


def _markdown_list(choices: Sequence[FieldChoice]) -> str:
    """Return all choices with their descriptions."""
    lines = [
        f"- **{choice.title}**{f': {choice.description}' if choice.description else ''}"
        for choice in choices
    ]
    return visible("\n".join(lines))


def _property(field: FormField) -> JsonObject:
    """Return the JSON Schema of a form's field."""
    choices: list[JsonValue] = [
        {
            "const": each.value,
            "title": visible(each.title),
            **given(description=visible(each.description) or None),
        }
        for each in field.choices
    ]
    title = visible(field.title)
    description = visible(field.description)
    members = given(
        title=title or None, description=description or None, default=field.default
    )
    if field.instead_of:
        members["_meta"] = {
            _OTHER_ANSWER: {"questionId": field.instead_of, "isCustomAnswer": True}
        }
    match field.kind:
        case "choices":
            return {
                "type": "array",
                **members,
                **field.limits,
                "items": {"anyOf": choices},
            }
        case "choice":
            return {"type": "string", **members, **field.limits, "oneOf": choices}
        case "text":
            # Editors accept an empty text as the answer to a required field.
            least: JsonObject = (
                {"minLength": 1}
                if field.required and not field.limits.get("minLength")
                else {}
            )
            return {"type": "string", **members, **field.limits, **least}
        case kind:
            return {"type": kind, **members, **field.limits}
