"""Transcripts: `{"messages": [{"role", "content"}]}`, where the content is a text or an array of content blocks.

Blocks are `text`, `thinking`, `tool_use {id, name, input}` and `tool_result {tool_use_id, content, is_error}`, as in
Anthropic's Messages API; calls may also be given as OpenAI's Chat Completions has them (`tool_calls`, and messages of
the role `tool`). A bare array of messages counts as well.
"""

from __future__ import annotations

from pathlib import Path

from acp_agent.compaction.evaluation.importers.reading import (
    Document,
    Object,
    arguments,
    as_list,
    as_object,
    as_text,
    block_text,
    objects,
    wrong,
)
from acp_agent.compaction.evaluation.recording import Recording, RecordingBuilder

FORM = "transcript"


def matches(document: Document) -> bool:
    """Whether it is one."""
    return bool(_messages(document))


def read(document: Document, name: str) -> Recording:
    """Import it.

    :raises AgentError: a message has another form.
    """
    builder = RecordingBuilder()
    for index, value in enumerate(_messages(document)):
        add_message(builder, value, document.path, f"messages[{index}]")
    return builder.build(name, FORM)


def add_message(builder: RecordingBuilder, value: object, path: Path, key: str) -> None:
    """Add one message.

    :param key: where it stands in the file.
    :raises AgentError: it has another form.
    """
    message = as_object(value)
    if message is None or not as_text(message.get("role")):
        raise wrong(path, "should be an object with `role` and `content`", key=key)
    role = as_text(message["role"])
    match role:
        case "system" | "developer":
            builder.add_system(block_text(message.get("content")))
        case "tool":
            _add_tool_message(builder, message)
        case "user" | "human" | "assistant" | "ai":
            add_content(builder, message.get("content"), user=role in ("user", "human"))
            for call in objects(message.get("tool_calls")):
                add_function_call(builder, call)
        case _:
            pass  # what an agent notes for itself, such as how it ended


def add_content(builder: RecordingBuilder, content: object, *, user: bool, key: str = "") -> None:
    """Add a message's content.

    :param key: name of the answer in the recording.
    """
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    said: list[str] = []
    for block in objects(content):
        match as_text(block.get("type")):
            case "tool_result":
                result = block_text(block.get("content"))
                builder.result(as_text(block.get("tool_use_id")), result, is_error=block.get("is_error") is True)
            case "tool_use" if not user:
                name, given = as_text(block.get("name")), arguments(block.get("input"))
                builder.call(as_text(block.get("id")), name, given, key)
            case "thinking" if not user:
                builder.thinking(as_text(block.get("thinking")), key)
            case _ if user:
                said.append(block_text([block]))
            case _:
                builder.text(block_text([block]), key)
    if user:
        builder.user("\n".join(said))


def add_function_call(builder: RecordingBuilder, call: Object) -> None:
    """Add a call as Chat Completions has it."""
    function = as_object(call.get("function")) or call
    builder.call(as_text(call.get("id")), as_text(function.get("name")), arguments(function.get("arguments")))


def _add_tool_message(builder: RecordingBuilder, message: Object) -> None:
    recorded_id = as_text(message.get("tool_call_id"))
    if not recorded_id:
        recorded_id = next((as_text(each) for each in as_list(message.get("tool_call_ids"))), "")
    extra = as_object(message.get("extra")) or {}
    failed = extra.get("returncode", 0) not in (0, None)
    builder.result(recorded_id, block_text(message.get("content")), is_error=failed)


def _messages(document: Document) -> list[object]:
    bare = as_list(document.whole)
    if bare:
        return bare if "role" in (as_object(bare[0]) or {}) else []
    return as_list((as_object(document.whole) or {}).get("messages"))
