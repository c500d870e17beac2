"""`Channel`: what one session sends to its editor: updates, requests and questions to the user; and `EditorServers`,
for the MCP servers inside the editor.

It has version 1's form of a permission dialog; version 2 has its own, and reports the session's state around it.

ACP, "Prompt Turn"; "Tool Calls", "Requesting Permission"; "Elicitation"; its unstable schema, `mcp/message`.
"""

from __future__ import annotations

import logging
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from acp_agent.conversation.messages import ToolCall
from acp_agent.errors import InvalidParamsError, ToolError, sentence
from acp_agent.jsonrpc.messages import PeerClosedError, RpcError
from acp_agent.jsonrpc.peer import Peer
from acp_agent.mcp.model import OnNotification, ServerGoneError
from acp_agent.protocol import JsonObject, JsonValue, methods, v1
from acp_agent.protocol.updates import given, session_update, text_content, tool_call, tool_text
from acp_agent.protocol.v1 import PermissionOptionKind
from acp_agent.server.content import bounded, cut
from acp_agent.server.handshake import Capabilities
from acp_agent.tools.text import one_line

if TYPE_CHECKING:
    from acp_agent.protocol.wire import WireModel
    from acp_agent.tools.forms import Asks, Choice, Form, FormAnswer, FormField, Link, LinkAnswer, Refusal

Result = TypeVar("Result", bound="WireModel")

MAX_JOINED = 16_384
"""Characters of neighbouring text deltas that are joined while the editor is slow."""
JOINABLE = ("agent_message_chunk", "agent_thought_chunk", "compaction_summary_chunk")
MAX_SUBJECT = 40
"""Characters of a permission option's name that tell what it covers; longer ones break editors' buttons."""
_YES: tuple[PermissionOptionKind, ...] = ("allow_once", "allow_always")
_NONE = "none"
_OTHER_ANSWER = "_askUserQuestionCustomAnswer"
"""By which editors know a text as another answer to a choice, whichever agent asks: then they show the two as one."""
_SERVER_UNAVAILABLE = -33001

_log = logging.getLogger(__name__)


class Channel:
    """Sends the messages of one session.

    :param peer: the connection.
    :param session_id: as the editor knows it; every message carries it, also one of a nested piece of work.
    :ivar notify: sends a notification that is no update of the session.
    """

    def __init__(self, peer: Peer, session_id: str) -> None:
        self._peer = peer
        self.notify = peer.notify
        self._session_id = session_id

    async def send(self, update: JsonObject) -> None:
        """Send an update: wait for room in the outgoing queue, not for the write."""
        await self._peer.notify(methods.SESSION_UPDATE, session_update(self._session_id, update), merge=joined_deltas)

    async def request(
        self, method: str, params: JsonObject, result: type[Result], *, timeout: float | None = None
    ) -> Result:
        """Ask the editor, and read its answer.

        :param params: without the session's id.
        :raises RpcError: what the editor answered; see `Peer.request` for the others.
        :raises ToolError: the answer cannot be used.
        """
        return result.from_result(await self.ask(method, params, timeout=timeout), method)

    async def ask(self, method: str, params: JsonObject, *, timeout: float | None = None) -> JsonValue:
        """Ask the editor, and return its answer as it came; see `request`."""
        return await self._peer.request(method, {"sessionId": self._session_id, **params}, timeout=timeout)

    async def select(self, tool_call: JsonObject, options: Sequence[JsonObject], description: str = "") -> str | None:
        """Have one of some options selected in a permission dialog.

        :param tool_call: what is asked about; whole, since not every editor knows it from before.
        :param options: at most one of each kind, since some editors keep only the last of a kind.
        :param description: more about the question, as Markdown.
        :returns: the option's id; None where the user has ended the turn.
        :raises RpcError: the editor could not ask.
        :raises ToolError: its answer is invalid.
        """
        params: JsonObject = {**self._dialog(tool_call, description), "options": [*options]}
        chosen = self._chosen(await self.ask(methods.SESSION_REQUEST_PERMISSION, params))
        if chosen is not None and chosen not in [option["optionId"] for option in options]:
            raise ToolError(f"The editor chose the option {one_line(chosen)!r}, which it was not offered.")
        return chosen

    def _dialog(self, tool_call: JsonObject, description: str) -> JsonObject:
        """Return the params of a permission dialog but for its options."""
        if description:
            shown = tool_call.get("content")
            tool_call = {**tool_call, "content": [tool_text(description), *(shown if isinstance(shown, list) else [])]}
        return {"toolCall": tool_call}

    def _chosen(self, answer: JsonValue) -> str | None:
        """Return the id of the option that was selected; None where the user has ended the turn."""
        outcome = v1.RequestPermissionResponse.from_result(answer, methods.SESSION_REQUEST_PERMISSION).outcome
        return outcome.option_id if isinstance(outcome, v1.SelectedPermissionOutcome) else None


def joined_deltas(before: JsonObject, after: JsonObject) -> JsonObject | None:
    """Merge two adjacent text deltas of one message; return None if they cannot be merged."""
    match before, after:
        case (
            {"sessionId": session, "update": {"content": {"text": str(head)}, **first}},
            {"sessionId": same_session, "update": {"content": {"text": str(tail)}, **second}},
        ) if (session, first) == (same_session, second) and len(head) + len(tail) <= MAX_JOINED:
            joined: JsonObject = {**second, "content": text_content(head + tail)}
            return {**after, "update": joined} if second.get("sessionUpdate") in JOINABLE else None
        case _:
            return None


# --- questions to the user ---


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
        listed = cut(_listing(question, choices))
        rest = [*choices]
        while rest:
            goes_on = len(rest) > len(_YES)
            titles = [rest[0].title, "More …"] if goes_on else [choice.title for choice in rest]
            options = [
                _option(kind, one_line(title, 80), str(index))
                for index, (kind, title) in enumerate(zip(_YES, titles, strict=False))
            ]
            options.append(_option("reject_once", "None of these", _NONE))
            with _told_failure():
                chosen = await self._channel.select(shown, options, listed)
            if chosen is None or chosen == _NONE:
                break
            if not goes_on or chosen == "0":
                return rest[int(chosen)]
            del rest[0]
        return None

    async def _elicit(self, params: JsonObject, call_id: str | None) -> v1.CreateElicitationResponse:
        params = {**given(toolCallId=call_id or None), **params}
        with _told_failure():
            return await self._channel.request(methods.ELICITATION_CREATE, params, v1.CreateElicitationResponse)


def _refusal(answer: v1.CreateElicitationResponse) -> Refusal:
    return "decline" if answer.action == "decline" else "cancel"


@contextmanager
def _told_failure() -> Generator[None]:
    """Have an editor's refusal to ask raise a `ToolError`."""
    try:
        yield
    except RpcError as error:
        _log.warning("the editor did not answer a question: %s", error)
        raise ToolError(f"The user could not be asked. {sentence(error)}") from error


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


# --- MCP servers inside the editor ---


class EditorServers:
    """`McpChannel` over one connection, the same in versions 1 and 2: the form of the TypeScript SDK's binding. The RFD
    has had another one, in which a connection is opened first.

    :param peer: the connection.
    """

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self._receivers: dict[tuple[JsonValue, JsonValue], OnNotification] = {}

    async def ask(
        self, server_id: str, request_id: str, method: str, params: JsonObject | None, notified: OnNotification
    ) -> JsonObject:
        """Send a request; see `McpChannel.ask`."""
        key = (server_id, request_id)
        self._receivers[key] = notified
        try:
            message: JsonObject = {"serverId": server_id, "requestId": request_id, "method": method}
            message |= given(params=params)
            response = await self._peer.request(methods.MCP_MESSAGE, message)
        except RpcError as error:
            if error.code == _SERVER_UNAVAILABLE:
                raise ServerGoneError("the editor does not have it (any more)") from error
            raise ToolError(f"the editor could not ask it: {sentence(error)}") from error
        except PeerClosedError as error:
            raise ServerGoneError("the editor has gone") from error
        finally:
            del self._receivers[key]
        if not isinstance(response, dict):
            raise ToolError("what the editor answered for it is not what the protocol says")
        return {name: response[name] for name in ("result", "error") if name in response}

    def receive(self, params: JsonObject) -> None:
        """Deliver a server's message. One that belongs to no pending request comes too late and is dropped.

        :raises InvalidParamsError: it is not what the protocol says.
        """
        method, inner = params.get("method"), params.get("params")
        key = (params.get("serverId"), params.get("requestId"))
        if not all(isinstance(value, str) for value in (*key, method)) or not isinstance(inner, dict | None):
            raise InvalidParamsError(
                f"{methods.MCP_MESSAGE}: serverId, requestId and method must be strings, and params an object."
            )
        heard = self._receivers.get(key)
        if heard is not None:
            heard(str(method), inner)
