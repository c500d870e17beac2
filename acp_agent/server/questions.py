"""Questions to the user through an editor: permission dialogs and their options, forms, addresses.

ACP, "Tool Calls", "Requesting Permission"; "Elicitation".
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Sequence
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
from acp_agent.server.content import bounded, cut
from acp_agent.server.handshake import Capabilities
from acp_agent.server.v1.presenter import Presenter
from acp_agent.session.client import Answer
from acp_agent.tools.text import one_line

if TYPE_CHECKING:
    from acp_agent.tools.forms import Asks, Choice, Form, FormAnswer, FormField, Link, LinkAnswer, Refusal

MAX_SUBJECT = 40
"""Characters of a permission option's name that tell what it covers; longer ones break editors' buttons."""
_ALLOW: tuple[PermissionOptionKind, ...] = ("allow_once", "allow_always")
_NONE = "none"
_OTHER_ANSWER = "_askUserQuestionCustomAnswer"
"""By which editors know a text as another answer to a choice, whichever agent asks: then they show the two as one."""

_log = logging.getLogger(__name__)


def permission_options(subject: str) -> list[JsonObject]:
    """Return the options of a question whether a call may run.

    :param subject: what "always" would cover.
    """
    covered = one_line(" ".join(subject.split()), MAX_SUBJECT)
    return [
        _option("allow_once", "Allow"),
        _option("allow_always", f"Always allow {covered}"),
        _option("reject_once", "Reject"),
    ]


def trust_options() -> list[JsonObject]:
    """Return the options of a question whether what a project brings may run."""
    return [
        _option("allow_always", "Trust this folder until something in it changes"),
        _option("allow_once", "For this session"),
        _option("reject_once", "Not now"),
    ]


def _option(kind: PermissionOptionKind, name: str, option_id: str = "") -> JsonObject:
    return {"optionId": option_id or kind, "name": name, "kind": kind}


class PermissionDialogs:
    """Has the user select an option, about a call or anything else.

    :param presenter: of this session.
    :param params: returns a dialog's params but for its options: of a call as an editor shows it, which is what is
        asked about, and of more about the question, as Markdown.
    :param chosen: returns the id of the option in an answer; None where the user has ended the turn.
    """

    def __init__(
        self,
        channel: Channel,
        presenter: Presenter,
        params: Callable[[JsonObject, str], JsonObject],
        chosen: Callable[[JsonValue], str | None],
    ) -> None:
        self._channel = channel
        self._presenter = presenter
        self._params = params
        self._chosen = chosen

    async def ask_permission(
        self, call_id: str, name: str, view: CallView, arguments: JsonObject, subject: str, reason: str = ""
    ) -> Answer:
        """Ask the user. Only a selected allow option is consent.

        :raises ToolError: the editor could not ask, or its answer is invalid.
        """
        shown = self._presenter.diffs(view)
        call = self._presenter.pending_call(call_id, name, view, arguments, shown)
        return await self._answer(call, permission_options(subject), reason)

    async def ask_trust(self, call_id: str, name: str, view: CallView, projects: Sequence[str], text: str) -> Answer:
        """Ask the user whether what a project brings may run.

        :raises ToolError: the editor could not ask, or its answer is invalid.
        """
        call = self._presenter.pending_call(call_id, name, view, {"folders": [*projects]})
        return await self._answer(call, trust_options(), text)

    async def select(self, tool_call: JsonObject, options: Sequence[JsonObject], description: str) -> str | None:
        """Have one of some options selected.

        :param tool_call: what is asked about; whole, since not every editor knows it from before.
        :param options: at most one of each kind, since some editors keep only the last of a kind.
        :param description: more about the question, as Markdown.
        :returns: the option's id; None where the user has ended the turn.
        :raises RpcError: the editor could not ask.
        :raises ToolError: its answer is invalid.
        """
        params: JsonObject = {**self._params(tool_call, description), "options": [*options]}
        chosen = self._chosen(await self._channel.ask(methods.SESSION_REQUEST_PERMISSION, params))
        if chosen is not None and chosen not in [option["optionId"] for option in options]:
            raise ToolError(f"The editor chose the option {one_line(chosen)!r}, which it was not offered.")
        return chosen

    async def _answer(self, call: JsonObject, options: Sequence[JsonObject], description: str) -> Answer:
        try:
            return cast("Answer", await self.select(call, options, cut(description)) or "cancelled")
        except PeerClosedError:
            return "cancelled"  # the turn is about to be ended, since the editor has gone
        except (RpcError, ToolError) as error:
            _log.warning("the editor did not answer a permission request: %s", error)
            raise ToolError(
                f"The user could not be asked, so nothing was done. {sentence(error)} Do not try it in another way."
            ) from error


class EditorQuestions:
    """`Questions` over the wire: forms and addresses by elicitation, choices by permission dialogs.

    :ivar asks: forms where the editor has them; choices everywhere.
    :ivar opens_urls: whether the editor takes addresses.
    """

    def __init__(self, channel: Channel, dialogs: PermissionDialogs, capabilities: Capabilities) -> None:
        self._channel = channel
        self._dialogs = dialogs
        self.asks: Asks = "forms" if capabilities.forms else "choices"
        self.opens_urls = capabilities.urls

    async def fill(self, form: Form, call_id: str | None = None) -> FormAnswer:
        """Have a form filled in; see `Questions.fill`."""
        from acp_agent.tools.forms import filled

        schema: JsonObject = {
            "type": "object",
            "properties": {each.name: _property(each) for each in form.fields},
            "required": [each.name for each in form.fields if each.required],
        }
        params: JsonObject = {"mode": "form", "message": cut(form.message), "requestedSchema": schema}
        answer = await self._elicit(params, call_id)
        return filled(form, answer.content or {}) if answer.action == "accept" else _refusal(answer)

    async def visit(self, link: Link, call_id: str | None = None) -> LinkAnswer:
        """Ask the user to visit an address; see `Questions.visit`."""
        params: JsonObject = {"mode": "url", "message": cut(link.message), "url": link.url, "elicitationId": link.id}
        answer = await self._elicit(params, call_id)
        return "accept" if answer.action == "accept" else _refusal(answer)

    async def visited(self, link_id: str) -> None:
        """Tell the editor that what an address was for has been done."""
        await self._channel.notify(methods.ELICITATION_COMPLETE, {"elicitationId": link_id})

    async def choose(self, call: ToolCall, question: str, choices: Sequence[Choice]) -> Choice | None:
        """Have one of several chosen, one dialog after the other; see `Questions.choose`."""
        shown = tool_call(
            call.id, title=question, name=call.name, kind="other", status="pending", raw_input=bounded(call.arguments)
        )
        listing = cut(_markdown_list(question, choices))
        rest = [*choices]
        while rest:
            has_more = len(rest) > len(_ALLOW)
            titles = [rest[0].title, "More …"] if has_more else [choice.title for choice in rest]
            options = [
                _option(kind, one_line(title, 80), str(index))
                for index, (kind, title) in enumerate(zip(_ALLOW, titles, strict=False))
            ]
            options.append(_option("reject_once", "None of these", _NONE))
            with _refusal_as_tool_error():
                chosen = await self._dialogs.select(shown, options, listing)
            if chosen is None or chosen == _NONE:
                break
            if not has_more or chosen == "0":
                return rest[int(chosen)]
            del rest[0]
        return None

    async def _elicit(self, params: JsonObject, call_id: str | None) -> v1.CreateElicitationResponse:
        params = {**given(toolCallId=call_id or None), **params}
        with _refusal_as_tool_error():
            return await self._channel.request(methods.ELICITATION_CREATE, params, v1.CreateElicitationResponse)


def _refusal(answer: v1.CreateElicitationResponse) -> Refusal:
    return "decline" if answer.action == "decline" else "cancel"


@contextmanager
def _refusal_as_tool_error() -> Generator[None]:
    """Have an editor's refusal to ask raise a `ToolError`."""
    try:
        yield
    except RpcError as error:
        _log.warning("the editor did not answer a question: %s", error)
        raise ToolError(f"The user could not be asked. {sentence(error)}") from error


def _markdown_list(question: str, choices: Sequence[Choice]) -> str:
    """Return all options of a choice, since a dialog has few of them, and names alone."""
    lines = [f"- **{choice.title}**{f': {choice.description}' if choice.description else ''}" for choice in choices]
    return "\n".join((question, "", *lines))


def _property(field: FormField) -> JsonObject:
    """Return the schema of a field's answer."""
    choices: list[JsonValue] = [
        {"const": each.value, "title": each.title, **given(description=each.description or None)}
        for each in field.choices
    ]
    members = given(title=field.title or None, description=field.description or None, default=field.default)
    if field.instead_of:
        members["_meta"] = {_OTHER_ANSWER: {"questionId": field.instead_of, "isCustomAnswer": True}}
    match field.kind:
        case "choices":
            return {"type": "array", **members, **field.limits, "items": {"anyOf": choices}}
        case "choice":
            return {"type": "string", **members, **field.limits, "oneOf": choices}
        case "text":
            # To an editor, an empty text is one that was given.
            least: JsonObject = {"minLength": 1} if field.required and not field.limits.get("minLength") else {}
            return {"type": "string", **members, **field.limits, **least}
        case kind:
            return {"type": kind, **members, **field.limits}
