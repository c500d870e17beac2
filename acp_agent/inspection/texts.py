"""Messages and their parts as texts that a person reads. Data of images and files is named, not shown."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import assert_never

from acp_agent.conversation.messages import (
    AssistantPart,
    Audio,
    CompactedBlock,
    Data,
    Image,
    Message,
    Resource,
    ResourceLink,
    Text,
    Thinking,
    ToolCall,
    UserPart,
    data_length,
)

TITLE_LENGTH = 160


def parts_text(parts: Iterable[UserPart | AssistantPart]) -> str:
    """All parts, an empty line between two."""
    return "\n\n".join(text for text in map(part_text, parts) if text)


def message_text(message: Message) -> str:
    """A message as one text."""
    return parts_text(message.parts)


def part_text(part: UserPart | AssistantPart) -> str:
    """One part."""
    match part:
        case Text():
            return part.text
        case CompactedBlock():
            return part.text
        case Thinking():
            return f"[thought]\n{part.text}" if part.text else "[thought, not shown by the provider]"
        case ToolCall():
            return f"[call of {part.name}]\n{arguments_text(part)}"
        case Audio():
            return f"[sound {part.mime_type}, {_size(part.data)}]"
        case Image():
            return f"[image {part.mime_type}, {_size(part.data)}{f', {part.uri}' if part.uri else ''}]"
        case ResourceLink():
            return f"[link {part.uri}]"
        case Resource():
            return f"[file {part.uri}]\n{part.text}" if part.text is not None else f"[file {part.uri}, not text]"
        case _:
            assert_never(part)


def arguments_text(call: ToolCall) -> str:
    """The arguments as JSON, or as they came where they were none."""
    if call.invalid is not None:
        return call.invalid
    return json.dumps(call.arguments, ensure_ascii=False, indent=2)


def first_line(text: str) -> str:
    """A title for a text: its first words, on one line."""
    words = " ".join(text[: TITLE_LENGTH * 4].split())
    return words if len(words) <= TITLE_LENGTH else f"{words[: TITLE_LENGTH - 1]}…"


def listed(values: Sequence[str]) -> str:
    """One a line."""
    return "\n".join(values)


def _size(data: Data) -> str:
    size = data_length(data) * 3 // 4
    return f"{size} bytes" if size < 10_000 else f"{size // 1000} kB"
