"""Constructors of the params of what the agent asks of the client, as plain JSON objects (`content` says why).

Whether the client can be asked (its capabilities) and how long to wait for it is the server's business.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from acp_agent.protocol import JsonObject
from acp_agent.protocol.v1 import PermissionOptionKind
from acp_agent.protocol.v1.content import given


def request_permission(session_id: str, tool_call: JsonObject, options: Sequence[JsonObject]) -> JsonObject:
    """Params of `session/request_permission`.

    :param tool_call: made by `updates.tool_call_fields`; repeat title, kind, input and diff, not every editor merges.
    :param options: made by `permission_option`, at most one of each kind.
    """
    return {"sessionId": session_id, "toolCall": tool_call, "options": [*options]}


def permission_option(option_id: str, name: str, kind: PermissionOptionKind) -> JsonObject:
    """One of the answers that the user can choose.

    :param name: short, for a button.
    """
    return {"optionId": option_id, "name": name, "kind": kind}


def read_text_file(session_id: str, path: str, *, line: int | None = None, limit: int | None = None) -> JsonObject:
    """Params of `fs/read_text_file`.

    :param path: absolute.
    :param line: first line to read, from 1.
    :param limit: lines to read.
    """
    return {"sessionId": session_id, "path": path, **given(line=line, limit=limit)}


def write_text_file(session_id: str, path: str, content: str) -> JsonObject:
    """Params of `fs/write_text_file`.

    :param path: absolute.
    """
    return {"sessionId": session_id, "path": path, "content": content}


def create_terminal(
    session_id: str,
    command: str,
    *,
    args: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
    cwd: str | None = None,
    output_byte_limit: int | None = None,
) -> JsonObject:
    """Params of `terminal/create`.

    :param cwd: absolute.
    :param output_byte_limit: bytes of output that the client keeps, the oldest go first.
    """
    params: JsonObject = {"sessionId": session_id, "command": command, "args": [*args]}
    if env is not None:
        params["env"] = [{"name": name, "value": value} for name, value in env.items()]
    return {**params, **given(cwd=cwd, outputByteLimit=output_byte_limit)}


def terminal_request(session_id: str, terminal_id: str) -> JsonObject:
    """Params of `terminal/output`, `terminal/wait_for_exit`, `terminal/kill` and `terminal/release`."""
    return {"sessionId": session_id, "terminalId": terminal_id}


def mcp_message(server_id: str, request_id: str, method: str, params: JsonObject | None = None) -> JsonObject:
    """Params of `mcp/message`, for a server that the client has named with a `serverId`.

    :param request_id: of the request inside, which is not the id of the one that carries it.
    :param method: MCP's, and so are its params.
    """
    return {"serverId": server_id, "requestId": request_id, "method": method, **given(params=params)}


def form_elicitation(
    session_id: str, message: str, schema: JsonObject, *, tool_call_id: str | None = None
) -> JsonObject:
    """Params of `elicitation/create` for a form; only for clients with `elicitation.form`.

    :param schema: of the answer: a flat object whose properties are made by `content.form_field`.
    :param tool_call_id: the call that the user is asked in.
    """
    scope: JsonObject = {"sessionId": session_id, **given(toolCallId=tool_call_id)}
    return {**scope, "mode": "form", "message": message, "requestedSchema": schema}


def url_elicitation(
    session_id: str, message: str, url: str, elicitation_id: str, *, tool_call_id: str | None = None
) -> JsonObject:
    """Params of `elicitation/create` for an address; only for clients with `elicitation.url`.

    :param url: holds no secrets.
    :param elicitation_id: another one than those of all that are open.
    """
    scope: JsonObject = {"sessionId": session_id, **given(toolCallId=tool_call_id)}
    return {**scope, "mode": "url", "message": message, "url": url, "elicitationId": elicitation_id}


def complete_elicitation(elicitation_id: str) -> JsonObject:
    """Params of `elicitation/complete`: what the user was sent to an address for has been done."""
    return {"elicitationId": elicitation_id}
