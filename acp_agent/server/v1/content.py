"""Content blocks of the wire and parts of the domain, in both directions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, assert_never

from acp_agent.conversation.encoding import plain
from acp_agent.conversation.messages import (
    Audio,
    CompactedBlock,
    Data,
    Image,
    Resource,
    ResourceLink,
    Text,
    UserPart,
    data_length,
)
from acp_agent.errors import InvalidParamsError
from acp_agent.llm.attached import media_type
from acp_agent.protocol import JsonObject
from acp_agent.protocol.v1 import content
from acp_agent.server.bounds import MAX_DATA, cut
from acp_agent.session.titles import name_of

if TYPE_CHECKING:
    from acp_agent.protocol.v1 import ContentBlock

_NUL, _REPLACED = "\0", "\ufffd"
_SVG, _SVG_URI = "image/svg+xml", "attachment:image.svg"


def parts_from_blocks(blocks: Sequence[ContentBlock]) -> tuple[UserPart, ...]:
    """A prompt as the domain knows it.

    :raises InvalidParamsError: a kind of content that is not taken.
    """
    return tuple(_part(block) for block in blocks)


def _part(block: ContentBlock) -> UserPart:
    from acp_agent.protocol import v1

    match block:
        case v1.TextContent():
            return Text(block.text)
        case v1.ImageContent():
            if media_type(block.mime_type) == _SVG:  # text to a model, as the same file would be
                return Resource(block.uri or _SVG_URI, blob=plain(block.data), mime_type=block.mime_type)
            return Image(plain(block.data), block.mime_type, block.uri)
        case v1.ResourceLink():
            return ResourceLink(block.uri, block.name, block.mime_type, block.description, block.size, block.title)
        case v1.EmbeddedResource(resource=v1.TextResourceContents() as resource):
            if _NUL in resource.text and _REPLACED in resource.text:
                # Bytes that an editor took for text: nobody can read them, and they may fill the window. The tools can.
                return ResourceLink(resource.uri, name_of(resource.uri), resource.mime_type)
            return Resource(resource.uri, text=resource.text, mime_type=resource.mime_type)
        case v1.EmbeddedResource(resource=v1.BlobResourceContents() as resource):
            return Resource(resource.uri, blob=plain(resource.blob), mime_type=resource.mime_type)
        case v1.AudioContent():
            return Audio(plain(block.data), block.mime_type)
        case _:
            raise InvalidParamsError("session/prompt: a content block of an unknown kind")


def block_from_part(part: UserPart) -> JsonObject:
    """The block that a part came from; a few words in place of one that is larger than what editors take in a line."""
    match part:
        case Image() if missing := _missing(part.data):
            return content.text_content(f"[{part.uri or 'a picture'}: {missing}]")
        case Audio() if missing := _missing(part.data):
            return content.text_content(f"[a sound: {missing}]")
        case Resource() if part.text is None and (missing := _missing(part.blob or "")):
            return content.text_content(f"[{part.uri}: {missing}]")
        case Text() | CompactedBlock():
            return content.text_content(cut(part.text))
        case Audio():
            return content.audio_content(_base64(part.data), part.mime_type)
        case Image():
            return content.image_content(_base64(part.data), part.mime_type, uri=part.uri)
        case ResourceLink():
            return content.resource_link(
                part.uri,
                part.name,
                mime_type=part.mime_type,
                title=part.title,
                description=part.description,
                size=part.size,
            )
        case Resource():
            if part.text is not None:
                return content.text_resource(part.uri, cut(part.text), mime_type=part.mime_type)
            return content.blob_resource(part.uri, _base64(part.blob or ""), mime_type=part.mime_type)
        case _:
            assert_never(part)


def _missing(data: Data) -> str:
    """Why bytes are not shown; empty where they are."""
    if data_length(data) > MAX_DATA:
        return "too large to be shown again"
    return "" if isinstance(data, str) else "no longer there"


def _base64(data: Data) -> str:
    assert isinstance(data, str)
    return data
