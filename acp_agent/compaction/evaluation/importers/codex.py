"""Rollouts of Codex: JSON Lines `{"timestamp", "type", "payload"}`, in which those of the type `response_item` are the
conversation; early versions wrote the items alone.

Items are messages, function, custom and local shell calls with their outputs, and reasoning. Events of the user
interface repeat them and are left out, as are instructions and notes that Codex writes in the user's name, and what a
compaction left (the whole history stands before it).
"""

from __future__ import annotations

import json

from acp_agent.compaction.evaluation.importers.reading import (
    Document,
    Line,
    Object,
    arguments,
    as_list,
    as_object,
    as_text,
    block_text,
    wrong,
)
from acp_agent.compaction.evaluation.recording import Recording, RecordingBuilder

FORM = "Codex"

_ENVELOPES = ("response_item", "session_meta", "event_msg", "turn_context", "compacted")
_ITEMS = ("function_call", "function_call_output", "local_shell_call", "custom_tool_call", "custom_tool_call_output")
_NOT_THE_USER = ("<environment_context>", "<user_instructions>", "<permissions", "<turn_aborted>", "# AGENTS.md instr")


def matches(document: Document) -> bool:
    """Whether it is one."""
    return any(_is_codex(line.value) for line in document.lines)


def read(document: Document, name: str) -> Recording:
    """Import it.

    :raises AgentError: a line of the conversation holds no item.
    """
    builder = RecordingBuilder()
    for line in document.lines:
        kind = as_text(line.value.get("type"))
        if kind == "session_meta":
            builder.cwd = as_text((as_object(line.value.get("payload")) or {}).get("cwd"))
        elif kind == "response_item":
            _add_item(builder, _payload(document, line))
        elif kind not in _ENVELOPES and "payload" not in line.value:
            _add_item(builder, line.value)
    return builder.build(name, FORM)


def _is_codex(value: Object) -> bool:
    kind = value.get("type")
    if kind in _ENVELOPES and "payload" in value:
        return True
    return kind in _ITEMS or (kind == "message" and "role" in value and "message" not in value)


def _payload(document: Document, line: Line) -> Object:
    item = as_object(line.value.get("payload"))
    if item is None or not as_text(item.get("type")):
        raise wrong(document.path, "should be an object with `type`", line.number, "payload")
    return item


def _add_item(builder: RecordingBuilder, item: Object) -> None:
    call_id = as_text(item.get("call_id")) or as_text(item.get("id"))
    match item.get("type"):
        case "message":
            _add_message(builder, item)
        case "reasoning":
            builder.thinking(block_text(item.get("summary")))
        case "function_call":
            builder.call(call_id, as_text(item.get("name")), arguments(item.get("arguments")))
        case "custom_tool_call":
            builder.call(call_id, as_text(item.get("name")), {"input": as_text(item.get("input"))})
        case "local_shell_call":
            action = as_object(item.get("action")) or {}
            command = [word for word in as_list(action.get("command")) if isinstance(word, str)]
            builder.call(call_id, "local_shell", {"command": [*command]})
        case "function_call_output" | "custom_tool_call_output" | "local_shell_call_output":
            text, failed = _output(item.get("output"))
            builder.result(call_id, text, is_error=failed)
        case _:
            pass


def _add_message(builder: RecordingBuilder, item: Object) -> None:
    text = block_text(item.get("content"))
    match item.get("role"):
        case "user":
            if not text.lstrip().startswith(_NOT_THE_USER):
                builder.user(text)
        case "assistant":
            builder.text(text)
        case _:
            builder.add_system(text)


def _output(value: object) -> tuple[str, bool]:
    """Text of an output, and whether it says that the call failed."""
    if isinstance(value, str) and value.startswith('{"output"'):
        try:
            value = json.loads(value)
        except ValueError:
            return str(value), False
    whole = as_object(value)
    if whole is None:
        return block_text(value), False
    metadata = as_object(whole.get("metadata")) or {}
    failed = whole.get("success") is False or metadata.get("exit_code", 0) not in (0, None)
    return block_text(whole.get("output") or whole.get("content")), failed
