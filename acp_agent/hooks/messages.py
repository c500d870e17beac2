"""The messages of a conversation in the form of Anthropic's Messages API: written for hooks, and read from them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TypeAlias

from acp_agent.conversation.messages import (
    AssistantMessage,
    Image,
    JsonObject,
    JsonValue,
    Message,
    Stored,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    UserMessage,
    new_id,
)
from acp_agent.errors import HookError
from acp_agent.llm.parts import arguments_of, user_parts

_Part: TypeAlias = Text | Image | ToolCall | ToolResult

_STORED = "sha256:"
"""Prefix of the name under which the bytes of an image are kept."""
_STORED_NAME = re.compile(rf"{_STORED}[0-9a-f]{{64}}")
_KINDS: dict[str, tuple[type, ...]] = {"user": (Text, Image, ToolResult), "assistant": (Text, ToolCall)}


def as_json(message: Message) -> JsonObject:
    """Return a message as `{"role", "content"}`; a tool's result is the user's, and text alone is a string."""
    blocks = blocks_of(message)
    only = blocks[0] if len(blocks) == 1 else {}
    content: JsonValue = only["text"] if only.get("type") == "text" else [*blocks]
    return {"role": "assistant" if isinstance(message, AssistantMessage) else "user", "content": content}


def blocks_of(message: Message) -> list[JsonObject]:
    """Return a message's content as blocks. What an editor attached is in them as models read it."""
    match message:
        case UserMessage():
            return [_block(part) for part in user_parts(message.parts, images=True, stored=True)]
        case AssistantMessage():
            return [_block(part) for part in message.parts]
        case ToolResult():
            content: list[JsonValue] = [_block(part) for part in user_parts(message.parts, images=True, stored=True)]
            result: JsonObject = {"type": "tool_result", "tool_use_id": message.call_id}
            result["content"] = message.text if len(content) == 1 and message.text else content
            return [{**result, "is_error": message.is_error}]


def _block(part: Text | Image | Thinking | ToolCall) -> JsonObject:
    match part:
        case Text():
            return {"type": "text", "text": part.text}
        case Thinking():
            return {"type": "thinking", "thinking": part.text}
        case ToolCall():
            return {"type": "tool_use", "id": part.id, "name": part.name, "input": arguments_of(part)}
        case Image():
            if isinstance(part.data, str):
                where: JsonObject = {"type": "base64", "data": part.data}
            else:
                where = {"type": "file", "file_id": f"{_STORED}{part.data.sha256}", "size": part.data.size}
            return {"type": "image", "source": {**where, "media_type": part.mime_type}}


def conversation(values: Sequence[JsonValue], key: str) -> tuple[Message, ...]:
    """Return the messages that a hook gives for a whole conversation. Thinking is left out: no provider takes it from
    others.

    :param key: where they stand in its answer.
    :raises HookError: no model could be sent them; says which, and why.
    """
    messages: list[Message] = []
    waiting: list[str] = []  # calls without a result so far
    known: set[str] = set()
    for index, value in enumerate(values):
        place = f"{key}.{index}"
        role, parts = _role_and_parts(value, place)
        if not messages and role != "user":
            raise HookError(f"{place}: the first message should be the user's.")
        others: list[Text | Image | ToolCall] = []
        for part in parts:
            if not isinstance(part, ToolResult):
                others.append(part)
            elif part.call_id in waiting:
                waiting.remove(part.call_id)
                messages.append(part)
            else:
                raise HookError(f"{place}: no call before it waits for the result of {part.call_id!r}.")
        if waiting and others:
            raise HookError(f"{place}: the call {waiting[0]!r} before it has no result.")
        calls = [part.id for part in others if isinstance(part, ToolCall)]
        if len(known.union(calls)) < len(known) + len(calls):
            raise HookError(f"{place}: there is a call of this id already.")
        known.update(calls)
        waiting += calls
        if role == "assistant":
            spoken = tuple(part for part in others if not isinstance(part, Image))
            messages.append(AssistantMessage(new_id("msg"), spoken, stop_reason="tool_use" if calls else "end_turn"))
        elif others:
            said = tuple(part for part in others if not isinstance(part, ToolCall))
            messages.append(UserMessage(new_id("msg"), said))
    if waiting:
        raise HookError(f"{key}: the call {waiting[0]!r} has no result.")
    if not messages:
        raise HookError(f"{key}: there should be at least one message.")
    return tuple(messages)


def _role_and_parts(value: JsonValue, place: str) -> tuple[str, list[_Part]]:
    match value:
        case {"role": "user" | "assistant" as role, "content": str() | list() as content}:
            parts = [part for part in _parts(content, place) if not (isinstance(part, Text) and not part.text.strip())]
        case _:
            raise HookError(f"{place}: should have a role, user or assistant, and a content of text or blocks.")
    for part in parts:
        if not isinstance(part, _KINDS[str(role)]):
            raise HookError(f"{place}: a message of the {role} has no {type(part).__name__}.")
    if not parts:
        raise HookError(f"{place}: it says nothing.")
    return str(role), parts


def _parts(content: str | list[JsonValue], place: str) -> list[_Part]:
    if isinstance(content, str):
        return [Text(content)]
    parts = [_part(block, f"{place}.content.{index}") for index, block in enumerate(content)]
    return [part for part in parts if part is not None]


def _part(block: JsonValue, place: str) -> _Part | None:
    match block:
        case {"type": "text", "text": str(text)}:
            return Text(text)
        case {"type": "thinking" | "redacted_thinking"}:
            return None
        case {"type": "tool_use", "id": str(id), "name": str(name), "input": dict(arguments)} if id and name:
            return ToolCall(id, name, arguments)
        case {"type": "tool_result", "tool_use_id": str(id), "content": str() | list() as content}:
            parts = _parts(content, place)
            result = tuple(part for part in parts if isinstance(part, Text | Image))
            if result and len(result) == len(parts):
                return ToolResult(id, result, block.get("is_error") is True)
        case {"type": "image", "source": {"type": "base64", "media_type": str(kind), "data": str(data)}}:
            return Image(data, kind)
        case {"type": "image", "source": {"type": "file", "file_id": str(id), "media_type": str(kind), "size": int(n)}}:
            if _STORED_NAME.fullmatch(id) and n >= 0:
                return Image(Stored(id.removeprefix(_STORED), n), kind)
        case _:
            pass
    raise HookError(f"{place}: is no whole block of text, image, thinking, tool_use or tool_result.")
