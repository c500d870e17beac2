"""A prompt of version 2, from content blocks to parts. The way back is version 1's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from acp_agent.conversation.messages import Image, Resource, ResourceLink, Text, UserPart
from acp_agent.errors import InvalidParamsError
from acp_agent.tools.text import one_line

if TYPE_CHECKING:
    from acp_agent.protocol.v2 import ContentBlock


def parts_from_blocks(blocks: Sequence[ContentBlock]) -> tuple[UserPart, ...]:
    """A prompt as the domain knows it.

    :raises InvalidParamsError: a kind of content that is not taken.
    """
    return tuple(_part(block) for block in blocks)


def _part(block: ContentBlock) -> UserPart:
    from acp_agent.protocol import v2

    match block:
        case v2.TextContent():
            return Text(block.text)
        case v2.ImageContent():
            return Image(block.data, block.mime_type, block.uri)
        case v2.ResourceLink():
            return ResourceLink(block.uri, block.name, block.mime_type, block.description, block.size, block.title)
        case v2.EmbeddedResource(resource=v2.TextResourceContents() as resource):
            return Resource(resource.uri, text=resource.text, mime_type=resource.mime_type)
        case v2.EmbeddedResource(resource=v2.BlobResourceContents() as resource):
            return Resource(resource.uri, blob=resource.blob, mime_type=resource.mime_type)
        case v2.AudioContent():
            raise InvalidParamsError(
                "This agent does not take audio, and does not say that it does. Send the words as text instead."
            )
        case _:
            raise InvalidParamsError(
                f"session/prompt: a content block of an unknown kind, {one_line(block.type, 40)!r}"
            )
