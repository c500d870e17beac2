"""Constructors of the results of the agent's methods, as plain JSON objects (`content` says why).

Methods without a row here (authenticate, close, delete, archive, set_mode) are answered with `{}`, never with null:
some editors look into the result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from acp_agent.protocol import JsonObject
from acp_agent.protocol.v1 import PROTOCOL_VERSION, AuthState, SessionStatus, StopReason
from acp_agent.protocol.v1.content import given


def initialize_result(
    *,
    agent_capabilities: JsonObject,
    auth_methods: Sequence[JsonObject],
    agent_info: JsonObject,
) -> JsonObject:
    """The answer to `initialize`, always with this version.

    :param agent_capabilities: made by `agent_capabilities`.
    :param auth_methods: made by `agent_auth_method` or `terminal_auth_method`; the cheapest first.
    :param agent_info: made by `implementation`.
    """
    return {
        "protocolVersion": PROTOCOL_VERSION,
        "agentCapabilities": agent_capabilities,
        "authMethods": [*auth_methods],
        "agentInfo": agent_info,
    }


def implementation(name: str, version: str, *, title: str | None = None) -> JsonObject:
    """Name and version of a program that speaks ACP."""
    return {"name": name, "version": version, **given(title=title)}


def agent_capabilities(
    *,
    load_session: bool = False,
    prompt: Sequence[str] = (),
    mcp: Sequence[str] = (),
    session: Sequence[str] = (),
    auth: Sequence[str] = (),
    more: Sequence[str] = (),
    session_meta: Mapping[str, JsonObject] | None = None,
) -> JsonObject:
    """What the agent can do. Session capabilities and what follows are objects on the wire, since strict editors refuse
    `true`.

    :param prompt: of `image`, `audio`, `embeddedContext`.
    :param mcp: of `http`, `sse`, `acp`.
    :param session: of `list`, `delete`, `additionalDirectories`, `resume`, `close`, `fork`, `title`, `archive` and
        `status`.
    :param auth: of `logout` and `status`.
    :param more: of `providers`.
    :param session_meta: extensions of some of `session`, by their names.
    """
    extended = session_meta or {}
    return {
        "loadSession": load_session,
        "promptCapabilities": {name: name in prompt for name in ("image", "audio", "embeddedContext")},
        "mcpCapabilities": {name: name in mcp for name in ("http", "sse", "acp")},
        "sessionCapabilities": {name: given(_meta=extended.get(name)) for name in session},
        **({"auth": {name: {} for name in auth}} if auth else {}),
        **{name: {} for name in more},
    }


def agent_auth_method(
    method_id: str, name: str, *, description: str | None = None, meta: JsonObject | None = None
) -> JsonObject:
    """A way to sign in which the agent handles by itself in `authenticate`."""
    return {"id": method_id, "name": name, **given(description=description, _meta=meta)}


def terminal_auth_method(
    method_id: str,
    name: str,
    *,
    description: str | None = None,
    args: Sequence[str] | None = None,
    env: Mapping[str, str] | None = None,
    meta: JsonObject | None = None,
) -> JsonObject:
    """A way to sign in for which the client runs the agent in a terminal; only for clients with `auth.terminal`.

    :param args: what the client appends to the agent's command line.
    """
    method: JsonObject = {"type": "terminal", "id": method_id, "name": name, **given(description=description)}
    if args is not None:
        method["args"] = [*args]
    if env is not None:
        method["env"] = {**env}
    if meta is not None:
        method["_meta"] = meta
    return method


def provider(
    provider_id: str, *, supported: Sequence[str], required: bool, api_type: str | None, base_url: str
) -> JsonObject:
    """One row of a list of providers.

    :param supported: the APIs that it can be asked with.
    :param api_type: the one that it is asked with; None where it is turned off.
    """
    current: JsonObject | None = None if api_type is None else {"apiType": api_type, "baseUrl": base_url}
    return {"providerId": provider_id, "supported": [*supported], "required": required, "current": current}


def list_providers_result(providers: Sequence[JsonObject]) -> JsonObject:
    """The answer to `providers/list`.

    :param providers: made by `provider`.
    """
    return {"providers": [*providers]}


def account(label: str, *, active: bool) -> JsonObject:
    """One of the accounts or keys that the agent has.

    :param label: for people.
    :param active: whether it is the one in use.
    """
    return {"label": label, "active": active}


def auth_status(state: AuthState, accounts: Sequence[JsonObject]) -> JsonObject:
    """The answer to `auth/status`, and the params of `auth/status_update`.

    :param accounts: made by `account`.
    """
    return {"state": state, "accounts": [*accounts]}


def session_result(
    *,
    session_id: str | None = None,
    modes: JsonObject | None = None,
    config_options: Sequence[JsonObject] | None = None,
) -> JsonObject:
    """The answer to `session/new` and `session/fork` (with the id), `session/load` and `session/resume` (without).

    :param modes: made by `session_mode_state`.
    :param config_options: made by `config_select` or `config_boolean`.
    """
    result = given(sessionId=session_id, modes=modes)
    if config_options is not None:
        result["configOptions"] = [*config_options]
    return result


def session_info(
    session_id: str,
    cwd: str,
    *,
    title: str | None = None,
    updated_at: str | None = None,
    additional_directories: Sequence[str] | None = None,
    archived: bool | None = None,
) -> JsonObject:
    """One row of a list of sessions.

    :param cwd: absolute.
    :param updated_at: ISO 8601.
    """
    row: JsonObject = {
        "sessionId": session_id,
        "cwd": cwd,
        **given(title=title, updatedAt=updated_at, archived=archived),
    }
    if additional_directories is not None:
        row["additionalDirectories"] = [*additional_directories]
    return row


def list_sessions_result(sessions: Sequence[JsonObject], *, next_cursor: str | None = None) -> JsonObject:
    """The answer to `session/list`.

    :param sessions: made by `session_info`.
    :param next_cursor: None on the last page.
    """
    return {"sessions": [*sessions], **given(nextCursor=next_cursor)}


def set_title_result(title: str) -> JsonObject:
    """The answer to `session/set_title`.

    :param title: as it is kept.
    """
    return {"title": title}


def session_status_result(status: SessionStatus) -> JsonObject:
    """The answer to `session/status`."""
    return {"status": status}


def prompt_result(stop_reason: StopReason) -> JsonObject:
    """The answer to `session/prompt`."""
    return {"stopReason": stop_reason}


def set_config_option_result(config_options: Sequence[JsonObject]) -> JsonObject:
    """The answer to `session/set_config_option`: the full list, since one option can change another."""
    return {"configOptions": [*config_options]}
