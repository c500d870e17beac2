"""`EditorQuestions`: what the user is asked through the editor beside permissions: forms, choices, addresses.

A form goes out as an elicitation where the editor has those. A choice is put into permission dialogs, which every
editor has. There are two ways to say yes, and some editors keep only one option of a kind: so a dialog shows one option
and the way to the next dialog, and the last shows two. The way on is a yes, because some editors end the turn at a no.

ACP, "Elicitation"; "Tool Calls", "Requesting Permission".
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from acp_agent.errors import ToolError, sentence
from acp_agent.jsonrpc.messages import METHOD_NOT_FOUND, JsonObject, JsonValue, RpcError
from acp_agent.jsonrpc.peer import Peer
from acp_agent.protocol.v1 import PermissionOptionKind, content, methods, requests, updates
from acp_agent.server.bounds import bounded, cut
from acp_agent.server.v1.capabilities import Capabilities
from acp_agent.tools.text import one_line

if TYPE_CHECKING:
    from acp_agent.protocol.v1 import CreateElicitationResponse
    from acp_agent.tools.forms import Asking, Asks, Choice, Form, FormAnswer, FormField, Link, LinkAnswer

_YES: tuple[PermissionOptionKind, ...] = ("allow_once", "allow_always")
_MORE, _NONE = "more", "none"
_OTHER_ANSWER = "_askUserQuestionCustomAnswer"
"""By which editors know a text as another answer to a choice, whichever agent asks: then they show the two as one."""
_log = logging.getLogger(__name__)


class EditorQuestions:
    """`Questions` over the wire.

    :param peer: the connection.
    :param session_id: as the editor knows it.
    """

    def __init__(self, peer: Peer, session_id: str, capabilities: Capabilities) -> None:
        self._peer = peer
        self._session_id = session_id
        self._forms = capabilities.forms
        self._urls = capabilities.urls

    @property
    def asks(self) -> Asks:
        """Forms where the editor has them; choices everywhere."""
        return "forms" if self._forms else "choices"

    @property
    def opens_urls(self) -> bool:
        """Whether the editor takes addresses."""
        return self._urls

    async def fill(self, form: Form, call_id: str | None = None) -> FormAnswer:
        """Have a form filled in; see `Questions.fill`."""
        from acp_agent.tools.forms import FormsUnknownError, filled

        if not self._forms:
            raise FormsUnknownError("The editor has no forms.")
        schema = content.form_schema(
            {each.name: _field(each) for each in form.fields}, [each.name for each in form.fields if each.required]
        )
        try:
            answer = await self._elicit(
                requests.form_elicitation(self._session_id, cut(form.message), schema, tool_call_id=call_id or None)
            )
        except RpcError as error:
            if error.code == METHOD_NOT_FOUND:
                self._forms = False  # it said that it has them, and that is not so
                raise FormsUnknownError("The editor has no forms.") from error
            raise _unasked(error) from error
        match answer.action:
            case "accept":
                return filled(form, answer.content or {})
            case "decline":
                return "declined"
            case _:
                return "cancelled"

    async def visit(self, link: Link, call_id: str | None = None) -> LinkAnswer:
        """Ask the user to visit an address; see `Questions.visit`."""
        try:
            answer = await self._elicit(
                requests.url_elicitation(
                    self._session_id, cut(link.message), link.url, link.id, tool_call_id=call_id or None
                )
            )
        except RpcError as error:
            raise _unasked(error) from error
        match answer.action:
            case "accept":
                return "accepted"
            case "decline":
                return "declined"
            case _:
                return "cancelled"

    async def visited(self, link_id: str) -> None:
        """Tell the editor that what an address was for has been done."""
        await self._peer.notify(methods.ELICITATION_COMPLETE, requests.complete_elicitation(link_id))

    async def choose(self, asking: Asking, choices: Sequence[Choice]) -> Choice | None:
        """Have one of several chosen, one dialog after the other; see `Questions.choose`."""
        tool_call = updates.tool_call_fields(
            asking.call_id,
            asking.view.title,
            name=asking.name,
            kind=asking.view.kind,
            status="pending",
            content=[content.tool_content(content.text_content(cut(_listing(asking.view.title, choices))))],
            raw_input=bounded(asking.arguments),
        )
        last = max(len(choices) - len(_YES), 0)
        for begin in range(last + 1):
            offered = [(str(index), choice.title) for index, choice in enumerate(choices)][begin:]
            if begin < last:
                offered[1:] = [(_MORE, "More …")]
            options = [
                requests.permission_option(option_id, one_line(title, 80), kind)
                for (option_id, title), kind in zip(offered, _YES, strict=False)
            ]
            options.append(requests.permission_option(_NONE, "None of these", "reject_once"))
            chosen = await self._chosen(tool_call, options)
            if chosen is None or chosen == _NONE:
                return None
            if chosen != _MORE:
                return choices[int(chosen)]
        return None

    async def _chosen(self, tool_call: JsonObject, options: list[JsonObject]) -> str | None:
        """The option that the user has selected; None where they have ended the turn."""
        from acp_agent.protocol.v1 import CancelledPermissionOutcome, RequestPermissionResponse
        from acp_agent.protocol.wire import parse_result

        try:
            wire = await self._peer.request(
                methods.SESSION_REQUEST_PERMISSION, requests.request_permission(self._session_id, tool_call, options)
            )
            response = parse_result(RequestPermissionResponse, wire, methods.SESSION_REQUEST_PERMISSION)
        except RpcError as error:
            raise _unasked(error) from error
        if isinstance(response.outcome, CancelledPermissionOutcome):
            return None
        chosen = response.outcome.option_id
        if chosen not in [option["optionId"] for option in options]:
            raise ToolError(f"The editor chose the option {one_line(chosen)!r}, which it was not offered.")
        return chosen

    async def _elicit(self, params: JsonObject) -> CreateElicitationResponse:
        from acp_agent.protocol.v1 import CreateElicitationResponse
        from acp_agent.protocol.wire import parse_result

        wire: JsonValue = await self._peer.request(methods.ELICITATION_CREATE, params)
        return parse_result(CreateElicitationResponse, wire, methods.ELICITATION_CREATE)


def _unasked(error: RpcError) -> ToolError:
    _log.warning("the editor did not answer a question: %s", error)
    return ToolError(f"The user could not be asked. {sentence(error)}")


def _listing(question: str, choices: Sequence[Choice]) -> str:
    """All options of a choice, since a dialog has few of them, and names alone."""
    lines = [f"- **{choice.title}**{f': {choice.description}' if choice.description else ''}" for choice in choices]
    return "\n".join((question, "", *lines))


def _field(asked: FormField) -> JsonObject:
    choices = [
        content.form_choice(each.value, each.title, description=each.description or None) for each in asked.choices
    ]
    default: JsonValue = [*asked.default] if isinstance(asked.default, tuple) else asked.default
    limits = asked.limits
    match asked.kind:
        case "text" | "choice":
            kind = "string"
            if asked.kind == "text" and asked.required and not limits.get("minLength"):
                limits = {**limits, "minLength": 1}  # to an editor, an empty text is one that was given
        case "choices":
            kind = "array"
        case _:
            kind = asked.kind
    return content.form_field(
        kind,
        title=asked.title or None,
        description=asked.description or None,
        default=default,
        choices=choices,
        limits=limits,
        meta={_OTHER_ANSWER: {"questionId": asked.instead_of, "isCustomAnswer": True}} if asked.instead_of else None,
    )
