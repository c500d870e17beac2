"""Constructors of the params of what the agent asks of the client, as plain JSON objects."""

from __future__ import annotations

from collections.abc import Sequence

from acp_agent.protocol import JsonObject
from acp_agent.protocol.v1.content import given


def request_permission(
    session_id: str, title: str, options: Sequence[JsonObject], *, subject: JsonObject, description: str | None = None
) -> JsonObject:
    """Params of `session/request_permission`.

    :param title: of the question.
    :param options: made by version 1's `permission_option`, at most one of each kind.
    :param subject: made by `tool_call_subject` or `command_subject`.
    :param description: more about the question.
    """
    question: JsonObject = {"sessionId": session_id, "title": title, **given(description=description)}
    return {**question, "subject": subject, "options": [*options]}


def tool_call_subject(tool_call: JsonObject) -> JsonObject:
    """What is asked about is a tool call.

    :param tool_call: made by `updates.tool_call`; it changes what is shown of the call.
    """
    return {"type": "tool_call", "toolCall": tool_call}


def command_subject(command: str, cwd: str, tool_call_id: str) -> JsonObject:
    """What is asked about is a command.

    :param cwd: absolute.
    :param tool_call_id: of the call that would run it.
    """
    return {"type": "command", "command": command, "cwd": cwd, "toolCallId": tool_call_id}


def url_elicitation(request_id: int | str | None, message: str, url: str, elicitation_id: str) -> JsonObject:
    """Params of `elicitation/create` for an address that belongs to a request of the client's, and to no session.

    :param request_id: of the request, which is not answered yet.
    :param url: holds no secrets.
    :param elicitation_id: another one than those of all that are open.
    """
    return {"requestId": request_id, "mode": "url", "message": message, "url": url, "elicitationId": elicitation_id}
