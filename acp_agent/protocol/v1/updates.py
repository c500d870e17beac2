"""Constructors of the variants of `session/update`, as plain JSON objects.

The pieces inside come from `content`, which also says why these are dicts and how absent and null are told apart. Which
update a client may be sent (it has to advertise some) is the server's business.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict, Unpack

from acp_agent.protocol import JsonObject, JsonValue
from acp_agent.protocol.v1 import CompactionStatus, NoticeSeverity, ToolCallStatus, ToolKind
from acp_agent.protocol.v1.content import OMITTED, OmittedType, given, text_content


def session_update(session_id: str, update: JsonObject) -> JsonObject:
    """The params of the notification `session/update`.

    :param update: made by one of the functions below.
    """
    return {"sessionId": session_id, "update": update}


# ------------------------------------------------------------------------------------------------------ messages


def user_message_chunk(content: JsonObject, *, message_id: str | None = None) -> JsonObject:
    """Part of what the user said; for replay only, a live prompt is not echoed.

    :param content: a content block.
    :param message_id: the same for all chunks of one message.
    """
    return {"sessionUpdate": "user_message_chunk", "content": content, **given(messageId=message_id)}


def agent_message_chunk(content: JsonObject, *, message_id: str | None = None) -> JsonObject:
    """Part of the answer.

    :param content: a content block.
    :param message_id: the same for all chunks of one message.
    """
    if message_id is None:
        return {"sessionUpdate": "agent_message_chunk", "content": content}
    return {"sessionUpdate": "agent_message_chunk", "content": content, "messageId": message_id}


def agent_thought_chunk(content: JsonObject, *, message_id: str | None = None) -> JsonObject:
    """Part of the model's thinking.

    :param content: a content block.
    :param message_id: the same for all chunks of one message.
    """
    if message_id is None:
        return {"sessionUpdate": "agent_thought_chunk", "content": content}
    return {"sessionUpdate": "agent_thought_chunk", "content": content, "messageId": message_id}


# ----------------------------------------------------------------------------------------------------- tool calls


class ToolCallDetails(TypedDict, total=False):
    """Keyword arguments of the three functions below; None is the same as leaving it out.

    :ivar name: the tool's name as the model knows it.
    :ivar content: made by `tool_content`, `diff` or `terminal`.
    :ivar locations: made by `location`.
    """

    name: str | None
    kind: ToolKind | None
    status: ToolCallStatus | None
    content: Sequence[JsonObject] | None
    locations: Sequence[JsonObject] | None
    raw_input: JsonValue
    raw_output: JsonValue
    meta: JsonObject | None


def tool_call(tool_call_id: str, title: str, **details: Unpack[ToolCallDetails]) -> JsonObject:
    """Announce a tool call.

    :param tool_call_id: unique within the session.
    :param title: one line for people.
    """
    return {"sessionUpdate": "tool_call", **tool_call_fields(tool_call_id, title, **details)}


def tool_call_update(tool_call_id: str, title: str | None = None, **details: Unpack[ToolCallDetails]) -> JsonObject:
    """Change a tool call that was announced; what is left out stays, a list replaces the whole list."""
    return {"sessionUpdate": "tool_call_update", **tool_call_fields(tool_call_id, title, **details)}


def tool_call_fields(tool_call_id: str, title: str | None = None, **details: Unpack[ToolCallDetails]) -> JsonObject:
    """A tool call without the update's discriminator, as a permission request carries it."""
    content, locations = details.get("content"), details.get("locations")
    return given(
        toolCallId=tool_call_id,
        title=title,
        name=details.get("name"),
        kind=details.get("kind"),
        status=details.get("status"),
        content=None if content is None else [*content],
        locations=None if locations is None else [*locations],
        rawInput=details.get("raw_input"),
        rawOutput=details.get("raw_output"),
        _meta=details.get("meta"),
    )


# ---------------------------------------------------------------------------------------------- state of the session


def plan(entries: Sequence[JsonObject]) -> JsonObject:
    """The whole plan, which replaces the one before.

    :param entries: made by `plan_entry`.
    """
    return {"sessionUpdate": "plan", "entries": [*entries]}


def plan_update(plan_id: str, entries: Sequence[JsonObject]) -> JsonObject:
    """The whole of one plan, which replaces what it was before; only for clients with `plan`.

    :param plan_id: unique within the session; the first update with it adds the plan.
    :param entries: made by `plan_entry`.
    """
    return {"sessionUpdate": "plan_update", "plan": {"type": "items", "planId": plan_id, "entries": [*entries]}}


def plan_removed(plan_id: str) -> JsonObject:
    """There is no such plan any more; only for clients with `plan`."""
    return {"sessionUpdate": "plan_removed", "planId": plan_id}


def available_commands_update(available_commands: Sequence[JsonObject]) -> JsonObject:
    """All slash commands, which replace those before.

    :param available_commands: made by `available_command`.
    """
    return {"sessionUpdate": "available_commands_update", "availableCommands": [*available_commands]}


def current_mode_update(current_mode_id: str) -> JsonObject:
    """The mode that is on now."""
    return {"sessionUpdate": "current_mode_update", "currentModeId": current_mode_id}


def config_option_update(config_options: Sequence[JsonObject]) -> JsonObject:
    """All config options with their values, which replace those before.

    :param config_options: made by `config_select` or `config_boolean`.
    """
    return {"sessionUpdate": "config_option_update", "configOptions": [*config_options]}


def session_info_update(
    *, title: str | OmittedType | None = OMITTED, updated_at: str | OmittedType | None = OMITTED
) -> JsonObject:
    """Change what a list of sessions shows; None clears, what is left out stays.

    :param updated_at: ISO 8601.
    """
    update: JsonObject = {"sessionUpdate": "session_info_update"}
    if title is not OMITTED:
        update["title"] = title
    if updated_at is not OMITTED:
        update["updatedAt"] = updated_at
    return update


def usage_update(used: int, size: int, *, cost: JsonObject | None = None) -> JsonObject:
    """The context meter.

    :param used: tokens in the context now.
    :param size: tokens that fit into the model's whole window.
    :param cost: of the session so far, made by `cost`.
    """
    return {"sessionUpdate": "usage_update", "used": used, "size": size, **given(cost=cost)}


def notice(severity: NoticeSeverity, title: str, *, description: str | None = None) -> JsonObject:
    """A remark to the user outside of the conversation; only for clients with `session.notices`.

    :param title: must not be empty.
    """
    return {"sessionUpdate": "notice", "severity": severity, "title": title, **given(description=description)}


# ---------------------------------------------------------------------------------------------------- compaction


def compaction_update(
    compaction_id: str,
    status: CompactionStatus,
    *,
    summary: Sequence[JsonObject] | OmittedType | None = OMITTED,
    error: str | OmittedType | None = OMITTED,
    meta: JsonObject | OmittedType | None = OMITTED,
) -> JsonObject:
    """Begin or change a compaction; only for clients with `session.compaction`.

    What is left out stays as it was, None clears it, a value replaces it.

    :param compaction_id: unique within the session; the first update with it fixes its place in the conversation.
    :param summary: the whole summary, as content blocks.
    :param error: why it failed, for the user.
    """
    update: JsonObject = {"sessionUpdate": "compaction_update", "compactionId": compaction_id, "status": status}
    if summary is not OMITTED:
        update["summary"] = None if summary is None else [*summary]
    if error is not OMITTED:
        update["error"] = error
    if meta is not OMITTED:
        update["_meta"] = meta
    return update


def compaction_summary_chunk(compaction_id: str, text: str) -> JsonObject:
    """Part of a summary while it is written; only for clients with `session.compaction`."""
    return {
        "sessionUpdate": "compaction_summary_chunk",
        "compactionId": compaction_id,
        "content": text_content(text),
    }
