"""Constructors of the variants of `session/update` that version 1 lacks or has in another form, as plain JSON objects.

Most are upserts: what is left out stays as it was (`OMITTED`), None clears it (null), a value replaces it, and the
first with an id creates what it names. The other variants are made by `acp_agent.protocol.v1.updates`.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from typing import TypedDict, Unpack, cast

from acp_agent.protocol import JsonObject, JsonValue
from acp_agent.protocol.v1.content import OMITTED, OmittedType, given
from acp_agent.protocol.v2 import ToolCallStatus, ToolKind

CANCEL: JsonObject = {"cancel": {}}
"""Capabilities of a call or a terminal that the client may cancel."""

# ------------------------------------------------------------------------------------------------------ messages


def user_message(message_id: str, content: Sequence[JsonObject]) -> JsonObject:
    """What the user said, as a whole.

    :param content: content blocks.
    """
    return {"sessionUpdate": "user_message", "messageId": message_id, "content": [*content]}


def agent_message(message_id: str, content: Sequence[JsonObject]) -> JsonObject:
    """An answer as a whole.

    :param content: content blocks.
    """
    return {"sessionUpdate": "agent_message", "messageId": message_id, "content": [*content]}


def agent_thought(message_id: str, content: Sequence[JsonObject]) -> JsonObject:
    """The model's thinking as a whole.

    :param content: content blocks.
    """
    return {"sessionUpdate": "agent_thought", "messageId": message_id, "content": [*content]}


# --------------------------------------------------------------------------------------------- state of the session


def running() -> JsonObject:
    """The session works."""
    return {"sessionUpdate": "state_update", "state": "running"}


def requires_action() -> JsonObject:
    """The session's work waits for the user."""
    return {"sessionUpdate": "state_update", "state": "requires_action"}


def idle(stop_reason: str | None = None, *, error: JsonObject | None = None) -> JsonObject:
    """The session does not work.

    :param stop_reason: why its work ended; None where none did.
    :param error: for the stop reason `error`: what failed, as a JSON-RPC error.
    """
    return {"sessionUpdate": "state_update", "state": "idle", **given(stopReason=stop_reason, error=error)}


# ---------------------------------------------------------------------------------------------------- tool calls


class ToolCallDetails(TypedDict, total=False):
    """What a tool call may be said to have; None clears it.

    :ivar name: the tool's name as the model knows it.
    :ivar content: made by `content.diff`, or by version 1's `tool_content` and `terminal`.
    :ivar locations: made by version 1's `location`.
    :ivar capabilities: `CANCEL`, where the client may cancel it.
    """

    name: str | None
    title: str | None
    kind: ToolKind | None
    status: ToolCallStatus | None
    content: list[JsonObject] | None
    locations: list[JsonObject] | None
    rawInput: JsonValue
    rawOutput: JsonValue
    capabilities: JsonObject | None


def tool_call_update(tool_call_id: str, **details: Unpack[ToolCallDetails]) -> JsonObject:
    """Announce or change a tool call.

    :param tool_call_id: unique within the session.
    """
    return {"sessionUpdate": "tool_call_update", **tool_call(tool_call_id, **details)}


def tool_call_content_chunk(tool_call_id: str, item: JsonObject) -> JsonObject:
    """One item more of a tool call's content.

    :param item: as in `ToolCallDetails.content`.
    """
    return {"sessionUpdate": "tool_call_content_chunk", "toolCallId": tool_call_id, "content": item}


def tool_call(tool_call_id: str, **details: Unpack[ToolCallDetails]) -> JsonObject:
    """The same without the update's discriminator, as a permission request carries it."""
    return cast("JsonObject", {"toolCallId": tool_call_id, **details})


# ----------------------------------------------------------------------------------------------------- terminals


def terminal_update(
    terminal_id: str,
    *,
    command: str | OmittedType | None = OMITTED,
    cwd: str | OmittedType | None = OMITTED,
    output: bytes | OmittedType | None = OMITTED,
    exit_status: JsonObject | OmittedType | None = OMITTED,
    capabilities: JsonObject | OmittedType | None = OMITTED,
) -> JsonObject:
    """Announce or change a terminal of the agent's, which the client only shows.

    :param terminal_id: unique within the session.
    :param cwd: absolute.
    :param output: replaces all that was shown.
    :param exit_status: made by `exit_status`; the command has ended.
    :param capabilities: `CANCEL`, where the client may cancel it.
    """
    update: JsonObject = {"sessionUpdate": "terminal_update", "terminalId": terminal_id}
    if command is not OMITTED:
        update["command"] = command
    if cwd is not OMITTED:
        update["cwd"] = cwd
    if output is not OMITTED:
        update["output"] = None if output is None else {"data": b64encode(output).decode()}
    if exit_status is not OMITTED:
        update["exitStatus"] = exit_status
    if capabilities is not OMITTED:
        update["capabilities"] = capabilities
    return update


def exit_status(exit_code: int | None, signal: str | None) -> JsonObject:
    """How a command ended, as far as that is known.

    :param signal: such as `SIGTERM`.
    """
    return given(exitCode=exit_code, signal=signal)


def terminal_output_chunk(terminal_id: str, data: bytes) -> JsonObject:
    """More of a terminal's output."""
    return {"sessionUpdate": "terminal_output_chunk", "terminalId": terminal_id, "data": b64encode(data).decode()}
