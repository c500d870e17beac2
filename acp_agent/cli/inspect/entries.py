"""Entries of the log as lines and texts that a person reads. Data of images and files
is named, not shown.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Literal, NamedTuple, TypeAlias, cast

from acp_agent.compaction.estimate import estimate_message, estimate_part
from acp_agent.compaction.frame import layer_of
from acp_agent.conversation.context import Context
from acp_agent.conversation.events import (
    ContextSwapped,
    Event,
    MessageSupplied,
    PlanChanged,
    SurroundingsChanged,
    ToolsDeclared,
)
from acp_agent.conversation.messages import (
    Amendment,
    AssistantPart,
    Audio,
    Entry,
    Image,
    Message,
    Resource,
    ResourceLink,
    Thinking,
    ToolCall,
    UserPart,
    data_length,
)
from acp_agent.tools.text import one_line

ItemKind: TypeAlias = Literal[
    "prompt",
    "answer",
    "thought",
    "call",
    "note",
    "hook",
    "compaction",
    "undo",
    "pin",
    "plan",
    "setting",
    "refused",
]
Layer: TypeAlias = Literal["pinned", "excerpts", "summary", "tail", "replaced"]
"""What a part of a context is to a compaction. `pinned`: carried over word for word.
`excerpts`: lines that code chose. `tail`: messages that stay. `replaced`: messages that
leave.
"""
_KINDS: Mapping[str, ItemKind] = {
    "note_added": "note",
    "context_added": "hook",
    "continuation_asked": "hook",
    "message_supplied": "hook",
    "edits_undone": "undo",
    "text_pinned": "pin",
    "pin_removed": "pin",
    "plan_changed": "plan",
}
"""The kinds of events that are a line in the timeline and no more; all others are
settings.
"""
_TITLE_LENGTH = 160


Part: TypeAlias = tuple[str, str]
"""A heading, and a text, such as the arguments of a call."""


class Block(NamedTuple):
    """A message, or a layer of one, that the model sees; `tokens` is an estimate, `seq`
    its entry in the log.
    """

    layer: Layer
    role: str
    seq: int
    tokens: int
    text: str
    shortened: bool = False


def line_of(event: Event) -> tuple[ItemKind, str, list[Part]]:
    """Return the kind, the title and the texts of an event that is a line in the
    timeline and no more.
    """
    parts: list[Part] = []
    for each in fields(event):
        value = cast("object", getattr(event, each.name))
        if isinstance(event, MessageSupplied):
            value = message_text(event.message)
        elif isinstance(event, ToolsDeclared):
            value = (
                "\n".join(tool.name for tool in event.tools)
                if each.name == "tools"
                else value
            )
        elif isinstance(event, SurroundingsChanged) and each.name == "amendment":
            value = _amendment_text(event.amendment)
        elif isinstance(event, PlanChanged):
            value = "\n".join(
                f"[{entry.status}] {entry.content}" for entry in event.entries
            )
        elif isinstance(value, tuple):
            value = "\n".join(map(str, cast("tuple[object, ...]", value)))
        if each.name not in ("kind", "usage") and value not in ("", None):
            parts.append((each.name.replace("_", " "), str(value)))
    return (
        _KINDS.get(event.kind, "setting"),
        event.kind.replace("_", " ").capitalize(),
        parts,
    )


def _amendment_text(amendment: Amendment) -> str:
    lines = [message_text(amendment)] if amendment.parts else []
    lines += [f"New or changed tool: {tool.name}" for tool in amendment.added]
    lines += [f"Removed tool: {name}" for name in amendment.removed]
    if amendment.thought_level is not None:
        lines.append(f"Thinking: {amendment.thought_level or 'default'}")
    return "\n".join(lines)


def parts_text(parts: Iterable[UserPart | AssistantPart]) -> str:
    """Return all parts, an empty line between two."""
    return "\n\n".join(text for text in map(_part_text, parts) if text)


def message_text(message: Message) -> str:
    """Return a message as one text."""
    return parts_text(message.parts)


def _part_text(part: UserPart | AssistantPart) -> str:
    match part:
        case Thinking():
            return (
                f"[thought]\n{part.text}"
                if part.text
                else "[thought, not shown by the provider]"
            )
        case ToolCall():
            return f"[call of {part.name}]\n{arguments_text(part)}"
        case Audio() | Image():
            kind = "sound" if isinstance(part, Audio) else "image"
            return (
                f"[{kind} {part.mime_type}, {data_length(part.data) * 3 // 4:,} bytes]"
            )
        case ResourceLink():
            return f"[link {part.uri}]"
        case Resource():
            return f"[file {part.uri}]\n{part.text or '(not text)'}"
        case _:
            return part.text


def arguments_text(call: ToolCall) -> str:
    """Return the arguments as JSON, or as they came where they were none."""
    return (
        json.dumps(call.arguments, ensure_ascii=False, indent=2)
        if call.invalid is None
        else call.invalid
    )


def first_line(text: str) -> str:
    """Return the first words of a text, on one line."""
    return one_line(" ".join(text.split()), _TITLE_LENGTH)


def blocks_before(
    context: Context, swap: ContextSwapped, pins: Mapping[int, str]
) -> list[Block]:
    """Return the context that a swap replaces: what leaves, what stays."""
    pinned = {pin.seq for pin in swap.pinned}
    carried = "\n".join(
        parts_text([part]) for part in swap.sent if layer_of(part) == "pinned"
    )

    def layer(entry: Entry) -> Layer:
        if entry.seq in pinned:
            return "pinned"
        if not swap.sent or entry.seq >= swap.keep_from:
            return "tail"
        typed = (
            message_text(entry.message)
            if entry.message.role == "user" and not entry.note
            else ""
        )
        text = pins.get(entry.seq) or typed
        return "pinned" if text and text in carried else "replaced"

    return blocks((entry, layer(entry)) for entry in context.entries)


def blocks(entries: Iterable[tuple[Entry, Layer]]) -> list[Block]:
    """Return each message as a block, and a summary as one for each of its layers."""
    found: list[Block] = []
    for entry, layer in entries:
        message = entry.message
        if entry.summary:
            found += (
                Block(
                    layer_of(part),
                    message.role,
                    entry.seq,
                    estimate_part(part),
                    parts_text([part]),
                )
                for part in message.parts
            )
        else:
            tokens = estimate_message(message)
            text = message_text(message)
            found.append(
                Block(layer, message.role, entry.seq, tokens, text, entry.shortened)
            )
    return found
