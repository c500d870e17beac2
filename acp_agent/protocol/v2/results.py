"""Constructors of the results of the agent's methods, as plain JSON objects.

Methods without a row here (login, logout, close, delete, both kinds of cancel) are answered with `{}`. The rows of
`session/list` and its answer are version 1's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from acp_agent.protocol import JsonObject
from acp_agent.protocol.v1.content import given
from acp_agent.protocol.v2 import PROTOCOL_VERSION, SessionStatus


def initialize_result(*, info: JsonObject, capabilities: JsonObject, auth_methods: Sequence[JsonObject]) -> JsonObject:
    """The answer to `initialize`.

    :param info: made by version 1's `implementation`.
    :param capabilities: made by `agent_capabilities`.
    :param auth_methods: version 1's, with `methodId` and a `type`.
    """
    return {
        "protocolVersion": PROTOCOL_VERSION,
        "info": info,
        "capabilities": capabilities,
        "authMethods": [*auth_methods],
    }


def agent_capabilities(
    *,
    prompt: Sequence[str] = (),
    mcp: Sequence[str] = (),
    session: Sequence[str] = (),
    auth: Sequence[str] = (),
    more: Sequence[str] = (),
    session_meta: Mapping[str, JsonObject] | None = None,
) -> JsonObject:
    """What the agent can do beside the methods that every agent with sessions has.

    :param prompt: of `image`, `audio`, `embeddedContext`.
    :param mcp: of `stdio`, `http`, `acp`.
    :param session: of `delete`, `additionalDirectories`, `fork`, `title`, `archive` and `status`.
    :param auth: of `status`.
    :param more: of `providers`.
    :param session_meta: extensions of some of `session`, by their names.
    """
    extended = session_meta or {}
    return {
        "session": {
            "prompt": {name: {} for name in prompt},
            "mcp": {name: {} for name in mcp},
            **{name: given(_meta=extended.get(name)) for name in session},
        },
        **({"auth": {name: {} for name in auth}} if auth else {}),
        **{name: {} for name in more},
    }


def session_status_result(status: SessionStatus, state: JsonObject | None = None) -> JsonObject:
    """The answer to `session/status`.

    :param state: what a `state_update` would say now; None where that is not known.
    """
    return {"status": status, **given(state=state)}


def session_result(
    *, session_id: str | None = None, config_options: Sequence[JsonObject], available_commands: Sequence[JsonObject]
) -> JsonObject:
    """The answer to `session/new` and `session/fork` (with the id) and `session/resume` (without).

    :param config_options: made by `content.config_option`.
    :param available_commands: made by `content.available_command`.
    """
    return {
        **given(sessionId=session_id),
        "configOptions": [*config_options],
        "availableCommands": [*available_commands],
    }


def prompt_result(message_id: str) -> JsonObject:
    """The answer to `session/prompt`: the message that it became."""
    return {"messageId": message_id}
