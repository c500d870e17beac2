"""Encodes events for executables as JSON, with our keys and with the keys that hooks
for Claude Code expect. Messages have the form of Anthropic's Messages API, both in
events and in the answers of hooks.

Source of Claude Code's names: https://code.claude.com/docs/en/hooks
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TypeAlias

from acp_agent.config.hook_events import ALIASES, CLAUDE_TOOLS
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
from acp_agent.conversation.strict_json import get_objects
from acp_agent.errors import HookError
from acp_agent.hooks.events import (
    AfterCompaction,
    AfterToolCall,
    AgentStop,
    BeforeCompaction,
    BeforeToolCall,
    HookEvent,
    SessionEnd,
    SessionStart,
    TurnEnd,
    UserMessageSend,
    absolute_path,
)
from acp_agent.llm.parts import arguments_of, user_parts

KEYS: Mapping[str, Mapping[str, str]] = {
    "read": {"path": "file_path"},
    "write": {"path": "file_path"},
    "edit": {"path": "file_path"},
    "grep": {"ignore_case": "-i", "context": "-C"},
    "plan": {"entries": "todos"},
}
"""Maps each of our tools to Claude Code's names of its arguments, by our names. The
arguments of `edit` also differ in structure; see `EDIT_KEYS`.
"""
EDIT_KEYS = {
    "old_text": "old_string",
    "new_text": "new_string",
    "replace_all": "replace_all",
}

"""Maps our keys of one edit to Claude Code's, which are arguments of the call."""

_EVENTS = {ours: theirs for theirs, ours in ALIASES.items()}
_MODES = {
    "plan": "plan",
    "ask": "default",
    "accept-edits": "acceptEdits",
    "full-access": "bypassPermissions",
}
_SOURCES = {
    "new": "startup",
    "load": "resume",
    "resume": "resume",
    "compact": "compact",
}
_ENDS = {
    "close": ("other",),
    "delete": ("other",),
    "exit": ("prompt_input_exit", "other"),
}


async def payload(event: HookEvent) -> JsonObject:
    """Encode an event as JSON, and write the transcript that it names.

    `tool_name` is Claude Code's name of the tool, and `tool` is ours. `source` and the
    `reason` of a session's end have our values.
    """
    at = event.at
    messages: list[JsonValue] = [as_json(message) for message in at.messages]
    return {
        "event": event.name,
        "hook_event_name": _EVENTS.get(event.name, event.name),
        "conv_id": at.session_id,
        "session_id": at.session_id,
        "transcript_path": await at.transcript(),
        "cwd": at.cwd,
        "permission_mode": _MODES.get(at.mode, "default"),
        "invoked_by": at.invoked_by,
        "turn_number": at.turn_number,
        "usage": asdict(at.usage),
        **_details(event),
        "messages": messages,
    }


def _details(event: HookEvent) -> JsonObject:
    """Return the keys that are specific to the event."""
    match event:
        case SessionStart(source=source):
            return {"source": source}
        case UserMessageSend(prompt=prompt):
            return {"prompt": prompt}
        case BeforeToolCall() | AfterToolCall():
            call: JsonObject = {
                "tool": event.tool,
                "tool_name": CLAUDE_TOOLS.get(event.tool, event.tool),
                "tool_use_id": event.call_id,
                "tool_input": with_claude_keys(event.tool, event.input, event.at.cwd),
            }
            if isinstance(event, AfterToolCall):
                call |= {
                    "tool_output": event.text,
                    "is_error": event.is_error,
                    "tool_response": _response(event),
                }
            return call
        case TurnEnd(response=response):
            return {"response": response}
        case AgentStop(response=response, stop_hook_active=active):
            return {
                "response": response,
                "last_assistant_message": response,
                "stop_hook_active": active,
            }
        case BeforeCompaction() | AfterCompaction():
            compaction: JsonObject = {
                "compaction_reason": event.reason,
                "trigger": _trigger(event.reason),
                "input_tokens": event.input_tokens,
                "output_tokens": event.output_tokens,
                "context_limit": event.context_limit,
            }
            if isinstance(event, BeforeCompaction):
                return {**compaction, "custom_instructions": event.instructions}
            return {**compaction, "summary": event.summary}
        case SessionEnd():
            return {"reason": event.reason}


def _response(event: AfterToolCall) -> JsonObject:
    """Return the result of a call in the form of Claude Code's tools, with the keys for
    which we have a value.
    """
    response: JsonObject = {"success": not event.is_error, "content": event.text}
    if event.tool == "shell":
        # The command's own output. If it ran in a terminal, `output` has both streams.
        raw = event.raw_output if isinstance(event.raw_output, dict) else {}
        stdout = raw.get("stdout", raw.get("output", event.text))
        response |= {
            "stdout": stdout,
            "stderr": raw.get("stderr", ""),
            "interrupted": False,
        }
        if "exitCode" in raw:
            response |= {
                "exit_code": raw["exitCode"],
                "interrupted": raw["exitCode"] is None,
            }
    path = event.input.get("path")
    if event.tool in ("read", "write", "edit") and isinstance(path, str):
        response["filePath"] = absolute_path(path, event.at.cwd)
    return response


def _trigger(reason: str) -> str:
    return "manual" if reason == "manual" else "auto"


def names_to_match(event: HookEvent) -> frozenset[str]:
    """Return the names that a matcher is compared with, both ours and Claude Code's;
    empty if events of this kind have no names.
    """
    match event:
        case BeforeToolCall() | AfterToolCall():
            multiple = ("MultiEdit",) if event.tool == "edit" else ()
            return frozenset(
                {event.tool, CLAUDE_TOOLS.get(event.tool, event.tool), *multiple}
            )
        case SessionStart():
            return frozenset({event.source, _SOURCES[event.source]})
        case BeforeCompaction() | AfterCompaction():
            return frozenset({event.reason, _trigger(event.reason)})
        case SessionEnd():
            return frozenset({event.reason, *_ENDS[event.reason]})
        case _:
            return frozenset()


def with_claude_keys(tool: str, arguments: JsonObject, cwd: str) -> JsonObject:
    """Return a call's arguments with Claude Code's keys in addition to ours. Paths in
    Claude Code's keys are absolute.

    If a call has several edits, their old texts are joined with line ends, and so are
    their new texts, so that a hook that searches them sees all of them.
    """
    both = dict(arguments)
    for ours, theirs in KEYS.get(tool, {}).items():
        if ours in arguments:
            value = arguments[ours]
            both[theirs] = (
                absolute_path(value, cwd)
                if theirs == "file_path" and isinstance(value, str)
                else value
            )
    if tool == "edit" and (edits := get_objects(arguments, "edits")):
        both["old_string"] = "\n".join(str(edit.get("old_text", "")) for edit in edits)
        both["new_string"] = "\n".join(str(edit.get("new_text", "")) for edit in edits)
        both["replace_all"] = any(edit.get("replace_all") is True for edit in edits)
    return both


_Part: TypeAlias = Text | Image | ToolCall | ToolResult

_STORED = "sha256:"
"""Prefix of the name under which an image's bytes are stored."""
_STORED_NAME = re.compile(rf"{_STORED}[0-9a-f]{{64}}")
_BLOCK_NAMES: dict[type, str] = {
    Text: "text",
    Image: "image",
    ToolCall: "tool_use",
    ToolResult: "tool_result",
}
_KINDS: dict[str, tuple[type, ...]] = {
    "user": (Text, Image, ToolResult),
    "assistant": (Text, ToolCall),
}


def as_json(message: Message) -> JsonObject:
    """Return a message as an object with `role` and `content`. A tool result has the
    role `user`. If the content is a single text, it is a string instead of a list.
    """
    blocks = blocks_of(message)
    only = blocks[0] if len(blocks) == 1 else {}
    content: JsonValue = only["text"] if only.get("type") == "text" else [*blocks]
    return {
        "role": "assistant" if isinstance(message, AssistantMessage) else "user",
        "content": content,
    }


def blocks_of(message: Message) -> list[JsonObject]:
    """Return the content of a message as a list of blocks. Attachments from the editor
    are included in the form in which models get them.
    """
    match message:
        case UserMessage():
            return [
                _block(part)
                for part in user_parts(message.parts, images=True, stored=True)
            ]
        case AssistantMessage():
            return [_block(part) for part in message.parts]
        case ToolResult():
            content: list[JsonValue] = [
                _block(part)
                for part in user_parts(message.parts, images=True, stored=True)
            ]
            result: JsonObject = {"type": "tool_result", "tool_use_id": message.call_id}
            result["content"] = (
                message.text if len(content) == 1 and message.text else content
            )
            return [{**result, "is_error": message.is_error}]


def _block(part: Text | Image | Thinking | ToolCall) -> JsonObject:
    match part:
        case Text():
            return {"type": "text", "text": part.text}
        case Thinking():
            return {"type": "thinking", "thinking": part.text}
        case ToolCall():
            return {
                "type": "tool_use",
                "id": part.id,
                "name": part.name,
                "input": arguments_of(part),
            }
        case Image():
            if isinstance(part.data, str):
                source: JsonObject = {"type": "base64", "data": part.data}
            else:
                source = {
                    "type": "file",
                    "file_id": f"{_STORED}{part.data.sha256}",
                    "size": part.data.size,
                }
            return {"type": "image", "source": {**source, "media_type": part.mime_type}}


def conversation(values: Sequence[JsonValue], key: str) -> tuple[Message, ...]:
    """Parse the messages with which a hook replaces a conversation. Thinking blocks are
    dropped, since providers do not accept thinking that they did not produce.

    :param key: the key of the messages in the hook's answer.
    :raises HookError: if a model would not accept the messages. The error names the
        place and the reason.
    """
    messages: list[Message] = []
    waiting: list[str] = []  # calls that have no result yet
    known: set[str] = set()
    for index, value in enumerate(values):
        place = f"{key}.{index}"
        role, parts = _role_and_parts(value, place)
        if not messages and role != "user":
            raise HookError(f"{place}: the first message should be a user message.")
        others: list[Text | Image | ToolCall] = []
        for part in parts:
            if not isinstance(part, ToolResult):
                others.append(part)
            elif part.call_id in waiting:
                waiting.remove(part.call_id)
                messages.append(part)
            else:
                raise HookError(
                    f"{place}: no earlier call without a result has the id {part.call_id!r}."
                )
        if waiting and others:
            raise HookError(f"{place}: the earlier call {waiting[0]!r} has no result.")
        calls = [part.id for part in others if isinstance(part, ToolCall)]
        if len(known.union(calls)) < len(known) + len(calls):
            raise HookError(f"{place}: an earlier call has the same id.")
        known.update(calls)
        waiting += calls
        if role == "assistant":
            answer = tuple(part for part in others if not isinstance(part, Image))
            messages.append(
                AssistantMessage(
                    new_id("msg"),
                    answer,
                    stop_reason="tool_use" if calls else "end_turn",
                )
            )
        elif others:
            prompt = tuple(part for part in others if not isinstance(part, ToolCall))
            messages.append(UserMessage(new_id("msg"), prompt))
    if waiting:
        raise HookError(f"{key}: the call {waiting[0]!r} has no result.")
    if not messages:
        raise HookError(f"{key}: there should be at least one message.")
    return tuple(messages)


def _role_and_parts(value: JsonValue, place: str) -> tuple[str, list[_Part]]:
    match value:
        case {
            "role": "user" | "assistant" as role,
            "content": str() | list() as content,
        }:
            parts = [
                part
                for part in _parts(content, place)
                if not (isinstance(part, Text) and not part.text.strip())
            ]
        case _:
            raise HookError(
                f"{place}: should have a `role`, user or assistant, and a `content`, a string or a list of blocks."
            )
    for part in parts:
        if not isinstance(part, _KINDS[str(role)]):
            raise HookError(
                f"{place}: a message with the role {role} cannot contain a {_BLOCK_NAMES[type(part)]} block."
            )
    if not parts:
        raise HookError(f"{place}: the message is empty.")
    return str(role), parts


def _parts(content: str | list[JsonValue], place: str) -> list[_Part]:
    if isinstance(content, str):
        return [Text(content)]
    parts = [
        _part(block, f"{place}.content.{index}") for index, block in enumerate(content)
    ]
    return [part for part in parts if part is not None]


def _part(block: JsonValue, place: str) -> _Part | None:
    match block:
        case {"type": "text", "text": str(text)}:
            return Text(text)
        case {"type": "thinking" | "redacted_thinking"}:
            return None
        case {
            "type": "tool_use",
            "id": str(id),
            "name": str(name),
            "input": dict(arguments),
        } if id and name:
            return ToolCall(id, name, arguments)
        case {
            "type": "tool_result",
            "tool_use_id": str(id),
            "content": str() | list() as content,
        }:
            parts = _parts(content, place)
            result = tuple(part for part in parts if isinstance(part, Text | Image))
            if result and len(result) == len(parts):
                return ToolResult(id, result, block.get("is_error") is True)
        case {
            "type": "image",
            "source": {"type": "base64", "media_type": str(kind), "data": str(data)},
        }:
            return Image(data, kind)
        case {
            "type": "image",
            "source": {
                "type": "file",
                "file_id": str(id),
                "media_type": str(kind),
                "size": int(n),
            },
        }:
            if _STORED_NAME.fullmatch(id) and n >= 0:
                return Image(Stored(id.removeprefix(_STORED), n), kind)
        case _:
            pass
    raise HookError(
        f"{place}: is not a valid block of type text, image, thinking, tool_use or tool_result."
    )
