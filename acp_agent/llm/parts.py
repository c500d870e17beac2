"""What a user sent, as text and images: the only two things that every model reads.

Owns the readable form of embedded files and links, which must never change for the same part: it stands in the prefix
that the providers' caches compare. Knows no provider's wire form.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from acp_agent.conversation.messages import (
    AssistantMessage,
    Audio,
    CompactedBlock,
    Image,
    Message,
    Resource,
    ResourceLink,
    ResultPart,
    Stored,
    Text,
    ToolCall,
    ToolResult,
    Usage,
    UserMessage,
    UserPart,
)
from acp_agent.llm.arguments import arguments_text
from acp_agent.llm.attached import audio_format, picture_of, sound_of, text_of
from acp_agent.llm.profiles import IMAGE_TYPES
from acp_agent.llm.provider import Answered, ModelRequest

_FRAMES = re.compile(r"<\s*+(?:/\s*+)?(file(?:-\d+)?)\b", re.IGNORECASE)
"""The marks in a text that may be taken for those around it."""
_NO_ADDRESS = re.compile(r'[\x00-\x1f\x7f\x85\u2028\u2029"<>]')
"""What is in no valid address (RFC 3986, 2), and would end its line or the quotes around it."""
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
            if audio and (sound := heard(part)) is not None and isinstance(sound.data, str)
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


def wire_name(name: str) -> str:
    """The name of a call as a provider takes it back.

    A model may call a tool by a name that it made up (`functions.read`, an empty one), and every provider refuses a
    history with a name outside of `^[a-zA-Z0-9_-]{1,64}$`. The names of real tools stay as they are.
    """
    return re.sub(r"[^a-zA-Z0-9_-]", "_", name)[:64] or "unknown"


def image_url(image: Image) -> str:
    """An image as a data URL."""
    return f"data:{image.mime_type};base64,{base64_of(image)}"


def base64_of(part: Image | Audio) -> str:
    """The bytes of what is sent; see `user_parts`, which lets none through that is stored elsewhere."""
    assert isinstance(part.data, str)
    return part.data


def heard(part: UserPart) -> Audio | None:
    """What a model that takes sounds hears of a part; None where it is none, empty, or of a type that none takes."""
    sound = sound_of(part)
    return sound if sound is not None and sound.data and audio_format(sound.mime_type) else None


def image_left_out(uri: str | None, reason: str) -> Text:
    """The line in place of an image.

    :param reason: why, as the end of a sentence.
    """
    return Text(f"[image{f' {address(uri)}' if uri else ''} left out: {_line(reason)}]")


def framed(text: str, attributes: Mapping[str, str | None]) -> str:
    """A file's text between two marks that it cannot end itself: where it has some of their name, theirs have a number.

    :param attributes: what the first mark says of it; without those that are None.
    """
    taken = {name.lower() for name in _FRAMES.findall(text)}
    names = itertools.chain(("file",), (f"file-{number}" for number in itertools.count(2)))
    name = next(name for name in names if name not in taken)
    said = "".join(f' {key}="{address(value)}"' for key, value in attributes.items() if value is not None)
    return f"<{name}{said}>\n{text}\n</{name}>"


def address(uri: str) -> str:
    """An address that stays on its line and between its quotes; unchanged where it is a valid one."""
    return _NO_ADDRESS.sub(lambda found: "".join(f"%{byte:02X}" for byte in found[0].encode()), uri)


def estimated_tokens(text_length: int) -> int:
    """Tokens that so many characters make, roughly: four characters a token."""
    return (text_length + 3) // 4


def _message_length(message: Message) -> int:
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
    return len(request.system) + tools + sum(_message_length(message) for message in request.messages)


def estimated_usage(request: ModelRequest, answered: Answered) -> Usage:
    """Return an estimate for a server that counts nothing: without one, no context would ever seem full."""
    said = _message_length(AssistantMessage("", answered.parts))
    return Usage(input_tokens=estimated_tokens(request_length(request)), output_tokens=estimated_tokens(said))


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
        case Audio():
            return Text(f"[sound ({_line(part.mime_type)}) left out: this model does not take it]")
        case ResourceLink():
            return Text(_link(part))
        case Image() | Resource():
            picture = picture_of(part)
            if picture is not None:
                return _image(picture, images=images, stored=stored)
            assert isinstance(part, Resource)
            return Text(_file(part))


def _image(part: Image, *, images: bool, stored: bool) -> Text | Image:
    if images and isinstance(part.data, Stored) and not stored:
        return image_left_out(part.uri, "it is kept elsewhere")
    if images and part.mime_type in IMAGE_TYPES and part.data:
        return part
    reason = "this model does not read images" if not images else f"{part.mime_type} is not a type that models read"
    return image_left_out(part.uri, reason)


def _link(part: ResourceLink) -> str:
    described = [_line(part.title or part.name), address(part.uri)]
    if part.mime_type:
        described.append(_line(part.mime_type))
    if part.size is not None:
        described.append(f"{part.size} bytes")
    if part.description:
        described.append(_line(part.description))
    return f"[link: {' | '.join(described)}]"


def _file(part: Resource) -> str:
    text = text_of(part.blob or "") if part.text is None else part.text
    if text is not None:
        return framed(text, {"uri": part.uri, "type": part.mime_type or None})
    kind = f" ({_line(part.mime_type)})" if part.mime_type else ""
    return f"[file {address(part.uri)} left out: it is binary{kind}]"


def _line(text: str) -> str:
    return " ".join(text.splitlines())
