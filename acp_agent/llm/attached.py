"""What an attached file is to a model: a picture, a sound, or text, by its type and where that is unknown by its bytes.

Knows no model and no provider's wire form.
"""

from __future__ import annotations

from typing import Literal

from acp_agent.conversation.encoding import decoded, text_in
from acp_agent.conversation.messages import AssistantPart, Audio, Data, Image, Resource, Stored, UserPart
from acp_agent.llm.profiles import IMAGE_TYPES

_AUDIO_FORMATS: dict[str, Literal["wav", "mp3"]] = {
    "audio/wav": "wav",
    "audio/wave": "wav",
    "audio/x-wav": "wav",
    "audio/vnd.wave": "wav",
    "audio/mpeg": "mp3",
    "audio/mp3": "mp3",
}


def media_type(given: str | None) -> str:
    """A media type without its parameters, in lower case (RFC 9110, 8.3.1); empty where there is none."""
    return (given or "").partition(";")[0].strip().lower()


def audio_format(mime_type: str) -> Literal["wav", "mp3"] | None:
    """The name that OpenAI's APIs have for a sound's type; None for one that they do not take."""
    return _AUDIO_FORMATS.get(media_type(mime_type))


def picture_of(part: UserPart | AssistantPart) -> Image | None:
    """What a model that reads images sees, attached files that are one included; None where the part is none.

    A drawing that is text, such as an SVG, is no picture.
    """
    match part:
        case Image(mime_type=kind) if kind == media_type(kind):
            return part
        case Image(data=data, mime_type=kind, uri=uri):
            return Image(data, media_type(kind), uri)
        case Resource(text=None, blob=blob, mime_type=given, uri=uri) if blob is not None:
            kind = media_type(given)
            is_one = kind in IMAGE_TYPES or (kind.startswith("image/") and not _is_text(blob))
            return Image(blob, kind, uri) if is_one else None
        case _:
            return None


def is_picture(part: UserPart | AssistantPart) -> bool:
    """Whether a part is an image, or an attached file that is one."""
    return picture_of(part) is not None


def sound_of(part: UserPart) -> Audio | None:
    """What a model that takes sounds hears, attached files that are one included; None where the part is none.

    A list of sounds to play is text and no sound.
    """
    match part:
        case Audio():
            return part
        case Resource(text=None, blob=blob, mime_type=given) if blob is not None:
            kind = media_type(given)
            is_one = kind in _AUDIO_FORMATS or (kind.startswith("audio/") and not _is_text(blob))
            return Audio(blob, kind) if is_one else None
        case _:
            return None


def text_of(data: Data) -> str | None:
    """The text in bytes that are at hand and are text."""
    content = decoded(data) if isinstance(data, str) else None
    return None if content is None else text_in(content)


def _is_text(data: Data) -> bool:
    return data.text if isinstance(data, Stored) else bool(text_of(data))
