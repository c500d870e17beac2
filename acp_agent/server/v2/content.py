"""A prompt of version 2, from content blocks to parts.

Its blocks hold what version 1's do, so that version 1 says what a part is made of; and there may be kinds to come.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from acp_agent.conversation.messages import UserPart
from acp_agent.errors import InvalidParamsError
from acp_agent.server.v1 import content as first
from acp_agent.tools.text import one_line

if TYPE_CHECKING:
    from acp_agent.protocol import v1
    from acp_agent.protocol.v2 import ContentBlock


def parts_from_blocks(blocks: Sequence[ContentBlock]) -> tuple[UserPart, ...]:
    """A prompt as the domain knows it.

    :raises InvalidParamsError: a kind of content that is not taken.
    """
    return first.parts_from_blocks([_first(block) for block in blocks])


def _first(block: ContentBlock) -> v1.ContentBlock:
    from acp_agent.protocol import v1, v2

    match block:
        case v2.TextContent():
            return v1.TextContent(type="text", text=block.text)
        case v2.ImageContent():
            return v1.ImageContent(type="image", data=block.data, mime_type=block.mime_type, uri=block.uri)
        case v2.AudioContent():
            return v1.AudioContent(type="audio", data=block.data, mime_type=block.mime_type)
        case v2.ResourceLink():
            return v1.ResourceLink(
                type="resource_link",
                uri=block.uri,
                name=block.name,
                title=block.title,
                description=block.description,
                mime_type=block.mime_type,
                size=block.size,
            )
        case v2.EmbeddedResource(resource=v2.TextResourceContents() as held):
            text = v1.TextResourceContents(uri=held.uri, text=held.text, mime_type=held.mime_type)
            return v1.EmbeddedResource(type="resource", resource=text)
        case v2.EmbeddedResource(resource=v2.BlobResourceContents() as held):
            blob = v1.BlobResourceContents(uri=held.uri, blob=held.blob, mime_type=held.mime_type)
            return v1.EmbeddedResource(type="resource", resource=blob)
        case _:
            raise InvalidParamsError(
                f"session/prompt: a content block of an unknown kind, {one_line(block.type, 40)!r}"
            )
