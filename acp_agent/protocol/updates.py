"""The updates of a session that are sent often, and their parts, as plain JSON objects
in the form of both versions.

There is one `session/update` for each token: a dict costs a small part of a validated
model, and nothing has to be loaded for it. What is sent less often is written where it
is made; tests check all of it against the official schema.

None and an empty list are left out here, and what is left out stays as it was at the
client. Null clears a field: where that is meant, it is written as such.
"""

from __future__ import annotations

from collections.abc import Sequence

from acp_agent.protocol import JsonObject, JsonValue
from acp_agent.protocol.v1 import ToolCallStatus, ToolKind


def given(**members: JsonValue) -> JsonObject:
    """Return the arguments that are not None, under their wire names."""
    return {name: value for name, value in members.items() if value is not None}


def session_update(session_id: str, update: JsonObject) -> JsonObject:
    """Return the params of `session/update`."""
    return {"sessionId": session_id, "update": update}


def text_content(text: str) -> JsonObject:
    """Return a content block of plain text or Markdown."""
    return {"type": "text", "text": text}


def message_chunk(kind: str, message_id: str, content: JsonObject) -> JsonObject:
    """Return a part of a message.

    :param kind: `user_message_chunk`, which is for replay alone, `agent_message_chunk`
        or `agent_thought_chunk`.
    :param message_id: the same for all parts of one message.
    :param content: a content block.
    """
    return {"sessionUpdate": kind, "messageId": message_id, "content": content}


def tool_call(
    call_id: str,
    *,
    title: str | None = None,
    name: str | None = None,
    kind: ToolKind | None = None,
    status: ToolCallStatus | None = None,
    content: Sequence[JsonObject] = (),
    locations: Sequence[JsonObject] = (),
    raw_input: JsonValue = None,
    raw_output: JsonValue = None,
) -> JsonObject:
    """Return a tool call without the update's discriminator, as a permission request
    carries it as well.

    :param call_id: unique within the session.
    :param title: one line for people.
    :param name: of the tool, as the model knows it.
    """
    return given(
        toolCallId=call_id,
        title=title,
        name=name,
        kind=kind,
        status=status,
        content=[*content] or None,
        locations=[*locations] or None,
        rawInput=raw_input,
        rawOutput=raw_output,
    )


def tool_text(text: str) -> JsonObject:
    """Return an item of a tool call's content that is a text."""
    return {"type": "content", "content": text_content(text)}
