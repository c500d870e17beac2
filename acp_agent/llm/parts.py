"""What a user sent, as text and images: the only two things that every model reads.

Owns the readable form of embedded files and links, which must never change for the same part: it stands in the prefix
that the providers' caches compare. Knows no provider's wire form.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterable, Sequence
from typing import Literal, TypeVar

from acp_agent.conversation.messages import (
    AssistantMessage,
    Audio,
    CompactedBlock,
    Image,
    JsonObject,
    Message,
    Resource,
    ResourceLink,
    ResultPart,
    Stored,
    Text,
    ToolCall,
    ToolResult,
    UserMessage,
    UserPart,
)
from acp_agent.llm.json_access import parse_object
from acp_agent.llm.profiles import IMAGE_TYPES
from acp_agent.llm.provider import ModelRequest

_AUDIO_FORMATS: dict[str, Literal["wav", "mp3"]] = {
    "audio/wav": "wav",
    "audio/wave": "wav",
    "audio/x-wav": "wav",
    "audio/vnd.wave": "wav",
    "audio/mpeg": "mp3",
    "audio/mp3": "mp3",
}
EMPTY = "(empty)"
"""Stands where a message or a result says nothing: no provider takes an empty one."""


def user_parts(parts: Iterable[UserPart], *, images: bool, stored: bool = False) -> list[Text | Image]:
    """A user's message in text and images, never empty and without blank texts.

    :param images: whether the model reads images; where it does not, a line says what was left out.
    :param stored: whether images whose bytes are kept elsewhere are taken as they are.
    """
    return _never_empty([_readable(part, images=images, stored=stored) for part in parts])


def heard_parts(parts: Iterable[UserPart], *, images: bool, audio: bool) -> list[Text | Image | Audio]:
    """The same for a wire form that has sounds.

    :param audio: whether the model takes sounds.
    """
    return _never_empty(
        [
            sound
            if audio and (sound := sound_of(part)) is not None and isinstance(sound.data, str)
            else _readable(part, images=images)
            for part in parts
        ]
    )


def result_parts(parts: Iterable[ResultPart], *, images: bool, stored: bool = False) -> list[Text | Image]:
    """A tool's result likewise."""
    return _never_empty([_readable(part, images=images, stored=stored) for part in parts])


def newest_compacted(messages: Iterable[Message], provider: str) -> CompactedBlock | None:
    """What a provider itself compacted last, where it stands in the messages."""
    found: CompactedBlock | None = None
    for message in messages:
        for part in message.parts if isinstance(message, UserMessage) else ():
            if isinstance(part, CompactedBlock) and part.provider == provider:
                found = part
    return found


def without(message: UserMessage, block: CompactedBlock | None) -> tuple[UserPart, ...] | None:
    """The parts of a message but for a block that is sent in another form; None where nothing else is in it."""
    rest = tuple(part for part in message.parts if part is not block)
    return rest if rest or not message.parts else None


def arguments_of(call: ToolCall) -> JsonObject:
    """What a call's input is sent as: an empty object where the model's own was none."""
    return {} if call.invalid is not None else call.arguments


def arguments_text(call: ToolCall) -> str:
    """The same as JSON text, always in the same bytes."""
    return json.dumps(arguments_of(call), ensure_ascii=False, separators=(",", ":"))


def wire_name(name: str) -> str:
    """The name of a call as a provider takes it back.

    A model may call a tool by a name that it made up (`functions.read`, an empty one), and every provider refuses a
    history with a name outside of `^[a-zA-Z0-9_-]{1,64}$`. The names of real tools stay as they are.
    """
    return re.sub(r"[^a-zA-Z0-9_-]", "_", name)[:64] or "unknown"


def tool_call(call_id: str, name: str, arguments: str, given: JsonObject | None = None) -> ToolCall:
    """A call from its arguments as text; arguments that are no JSON object are kept raw in `invalid`.

    :param given: the arguments where they came as an object and no text followed.
    """
    if not arguments.strip():
        return ToolCall(call_id, name, given or {})
    parsed = parse_object(arguments)
    if parsed is None:
        return ToolCall(call_id, name, invalid=arguments)
    return ToolCall(call_id, name, parsed)


def image_url(image: Image) -> str:
    """An image as a data URL."""
    return f"data:{image.mime_type};base64,{base64_of(image)}"


def base64_of(part: Image | Audio) -> str:
    """The bytes of what is sent; see `user_parts`, which lets none through that is stored elsewhere."""
    assert isinstance(part.data, str)
    return part.data


def audio_format(mime_type: str) -> Literal["wav", "mp3"] | None:
    """The name that OpenAI's APIs have for a sound's type; None for one that they do not take."""
    return _AUDIO_FORMATS.get(mime_type.partition(";")[0].strip().lower())


def sound_of(part: UserPart) -> Audio | None:
    """What a model that takes sounds hears, attached files that are one included; None where the part is none of a type
    that is taken."""
    match part:
        case Audio(mime_type=kind) if audio_format(kind):
            return part
        case Resource(text=None, blob=blob, mime_type=kind) if blob and audio_format(kind or ""):
            return Audio(blob, kind or "")
        case _:
            return None


def estimated_tokens(text_length: int) -> int:
    """Tokens that so many characters make, roughly: four characters a token."""
    return (text_length + 3) // 4


def message_length(message: Message) -> int:
    """Characters of a message as a model reads it; an image counts as 6,000."""
    match message:
        case UserMessage():
            return sum(_length(part) for part in user_parts(message.parts, images=True, stored=True))
        case ToolResult():
            return sum(_length(part) for part in result_parts(message.parts, images=True, stored=True))
        case AssistantMessage():
            return sum(
                len(part.name) + len(arguments_text(part)) if isinstance(part, ToolCall) else len(part.text)
                for part in message.parts
            )


def request_length(request: ModelRequest) -> int:
    """Characters of a whole request, tools and system prompt included."""
    tools = sum(len(tool.name) + len(tool.description) + len(str(tool.input_schema)) for tool in request.tools)
    return len(request.system) + tools + sum(message_length(message) for message in request.messages)


def _length(part: Text | Image) -> int:
    return len(part.text) if isinstance(part, Text) else 6000


_Readable = TypeVar("_Readable", bound=Text | Image | Audio)


def _never_empty(parts: Sequence[_Readable]) -> list[_Readable | Text]:
    kept: list[_Readable | Text] = [part for part in parts if not isinstance(part, Text) or part.text.strip()]
    return kept or [Text(EMPTY)]


def _readable(part: UserPart, *, images: bool, stored: bool = False) -> Text | Image:
    match part:
        case Text():
            return part
        case CompactedBlock():
            return Text(part.text)
        case Image():
            return _image(part, images=images, stored=stored)
        case Audio():
            return Text(f"[sound ({part.mime_type}) left out: this model does not take it]")
        case ResourceLink():
            return Text(_link(part))
        case Resource():
            return _resource(part, images=images, stored=stored)


def _image(part: Image, *, images: bool, stored: bool) -> Text | Image:
    if images and isinstance(part.data, Stored) and not stored:
        return Text(f"[image{_of(part.uri)} left out: it is kept elsewhere]")
    if images and part.mime_type in IMAGE_TYPES and part.data:
        return part
    reason = "this model does not read images" if not images else f"{part.mime_type} is not a type that models read"
    return Text(f"[image{_of(part.uri)} left out: {reason}]")


def _of(uri: str | None) -> str:
    return f" {uri}" if uri else ""


def _link(part: ResourceLink) -> str:
    described = [part.title or part.name, part.uri]
    if part.mime_type:
        described.append(part.mime_type)
    if part.size is not None:
        described.append(f"{part.size} bytes")
    if part.description:
        described.append(part.description)
    return f"[link: {' | '.join(described)}]"


def _resource(part: Resource, *, images: bool, stored: bool) -> Text | Image:
    kind = f' type="{part.mime_type}"' if part.mime_type else ""
    if part.text is not None:
        return Text(f'<file uri="{part.uri}"{kind}>\n{part.text}\n</file>')
    if part.mime_type in IMAGE_TYPES and part.blob:
        return _image(Image(part.blob, part.mime_type, part.uri), images=images, stored=stored)
    decoded = _decoded(part.blob or "") if not isinstance(part.blob, Stored) else None
    if decoded is not None:
        return Text(f'<file uri="{part.uri}"{kind}>\n{decoded}\n</file>')
    return Text(f"[file {part.uri} left out: it is binary{f' ({part.mime_type})' if part.mime_type else ''}]")


def _decoded(blob: str) -> str | None:
    """The text in a base64 blob, where it is text."""
    try:
        text = base64.b64decode(blob, validate=True).decode("utf-8")
    except (binascii.Error, ValueError):
        return None
    return None if "\0" in text else text
