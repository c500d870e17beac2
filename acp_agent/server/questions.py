"""Questions to the user through the editor: permissions, forms, choices, addresses.

A form is sent as an elicitation if the editor supports them. A choice is split into permission dialogs, which every
editor has. There are two kinds of allowing options, and some editors show only one option of a kind: so a dialog has
one choice and an option for the next dialog, and the last has two. Going on is an allowing option, because some editors
end the turn at a rejecting one.

ACP, "Elicitation"; "Tool Calls", "Requesting Permission".
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from acp_agent.conversation.messages import ToolCall
from acp_agent.errors import ToolError, sentence
from acp_agent.jsonrpc.messages import RpcError
from acp_agent.protocol import JsonObject, JsonValue, methods, v1
from acp_agent.protocol.updates import given, tool_call
from acp_agent.protocol.v1 import PermissionOptionKind
from acp_agent.server.channel import Channel
from acp_agent.server.content import bounded, cut
from acp_agent.server.handshake import Capabilities
from acp_agent.tools.text import one_line

if TYPE_CHECKING:
    from acp_agent.tools.forms import Asks, Choice, Form, FormAnswer, FormField, Link, LinkAnswer, Refusal

MAX_SUBJECT = 40
"""Characters of a permission option's name that tell what it covers; longer ones break editors' buttons."""
_YES: tuple[PermissionOptionKind, ...] = ("allow_once", "allow_always")
_MORE, _NONE = "more", "none"
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


class EditorQuestions:
    """`Questions` over the wire.

    :ivar asks: forms where the editor has them; choices everywhere.
    :ivar opens_urls: whether the editor takes addresses.
    """

    def __init__(self, channel: Channel, capabilities: Capabilities) -> None:
        self._channel = channel
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
        try:
            answer = await self._elicit(params, call_id)
        except RpcError as error:
            raise _failure(error) from error
        return filled(form, answer.content or {}) if answer.action == "accept" else _refusal(answer)

    async def visit(self, link: Link, call_id: str | None = None) -> LinkAnswer:
        """Ask the user to visit an address; see `Questions.visit`."""
        params: JsonObject = {"mode": "url", "message": cut(link.message), "url": link.url, "elicitationId": link.id}
        try:
            answer = await self._elicit(params, call_id)
        except RpcError as error:
            raise _failure(error) from error
        return "accept" if answer.action == "accept" else _refusal(answer)

    async def visited(self, link_id: str) -> None:
        """Tell the editor that what an address was for has been done."""
        await self._channel.notify(methods.ELICITATION_COMPLETE, {"elicitationId": link_id})

    async def choose(self, call: ToolCall, question: str, choices: Sequence[Choice]) -> Choice | None:
        """Have one of several chosen, one dialog after the other; see `Questions.choose`."""
        shown = tool_call(
            call.id, title=question, name=call.name, kind="other", status="pending", raw_input=bounded(call.arguments)
        )
        listed = cut(_listing(question, choices))
        last = max(len(choices) - len(_YES), 0)
        for begin in range(last + 1):
            offered = [(str(index), choice.title) for index, choice in enumerate(choices)][begin:]
            if begin < last:
                offered[1:] = [(_MORE, "More …")]
            options = [
                _option(kind, one_line(title, 80), option_id)
                for (option_id, title), kind in zip(offered, _YES, strict=False)
            ]
            options.append(_option("reject_once", "None of these", _NONE))
            try:
                chosen = await self._channel.select(shown, options, listed)
            except RpcError as error:
                raise _failure(error) from error
            if chosen is None or chosen == _NONE:
                return None
            if chosen != _MORE:
                return choices[int(chosen)]
        return None

    async def _elicit(self, params: JsonObject, call_id: str | None) -> v1.CreateElicitationResponse:
        params = {**given(toolCallId=call_id or None), **params}
        answer = await self._channel.ask(methods.ELICITATION_CREATE, params)
        return v1.CreateElicitationResponse.from_result(answer, methods.ELICITATION_CREATE)


def _refusal(answer: v1.CreateElicitationResponse) -> Refusal:
    return "decline" if answer.action == "decline" else "cancel"


def _failure(error: RpcError) -> ToolError:
    _log.warning("the editor did not answer a question: %s", error)
    return ToolError(f"The user could not be asked. {sentence(error)}")


def _listing(question: str, choices: Sequence[Choice]) -> str:
    """Return all options of a choice, since a dialog has few of them, and names alone."""
    lines = [f"- **{choice.title}**{f': {choice.description}' if choice.description else ''}" for choice in choices]
    return "\n".join((question, "", *lines))


def _property(asked: FormField) -> JsonObject:
    """Return the schema of a field's answer."""
    choices: list[JsonValue] = [
        {"const": each.value, "title": each.title, **given(description=each.description or None)}
        for each in asked.choices
    ]
    said = given(title=asked.title or None, description=asked.description or None, default=asked.default)
    if asked.instead_of:
        said["_meta"] = {_OTHER_ANSWER: {"questionId": asked.instead_of, "isCustomAnswer": True}}
    match asked.kind:
        case "choices":
            return {"type": "array", **said, **asked.limits, "items": {"anyOf": choices}}
        case "choice":
            return {"type": "string", **said, **asked.limits, "oneOf": choices}
        case "text":
            # To an editor, an empty text is one that was given.
            least: JsonObject = {"minLength": 1} if asked.required and not asked.limits.get("minLength") else {}
            return {"type": "string", **said, **asked.limits, **least}
        case kind:
            return {"type": kind, **said, **asked.limits}
