"""A prompt's blocks in version 2 lose nothing that the domain has a place for."""

from __future__ import annotations

from typing import Any

import pytest

from acp_agent.conversation.messages import Audio, Image, Resource, ResourceLink, Text, UserPart
from acp_agent.errors import InvalidParamsError
from acp_agent.protocol.v2 import PromptRequest
from acp_agent.protocol.wire import parse
from acp_agent.server.v2.content import parts_from_blocks
from support.pictures import encoded, png

PICTURE = encoded(png())


def parts_of(*blocks: dict[str, Any]) -> tuple[UserPart, ...]:
    return parts_from_blocks(parse(PromptRequest, {"sessionId": "s", "prompt": [*blocks]}, "session/prompt").prompt)


LINK = {"uri": "file:///a", "name": "a", "title": "A", "description": "The first", "mimeType": "text/plain", "size": 9}


@pytest.mark.parametrize(
    ("block", "part"),
    [
        ({"type": "text", "text": "Hello"}, Text("Hello")),
        (
            {"type": "image", "data": PICTURE, "mimeType": "image/png", "uri": "file:///a.png"},
            Image(PICTURE, "image/png", "file:///a.png"),
        ),
        ({"type": "audio", "data": "aGk=", "mimeType": "audio/wav"}, Audio("aGk=", "audio/wav")),
        ({"type": "resource_link", **LINK}, ResourceLink("file:///a", "a", "text/plain", "The first", 9, "A")),
        (
            {"type": "resource", "resource": {"uri": "file:///a", "text": "x", "mimeType": "text/x-python"}},
            Resource("file:///a", text="x", mime_type="text/x-python"),
        ),
        (
            {"type": "resource", "resource": {"uri": "file:///a", "blob": "aGk=", "mimeType": "application/pdf"}},
            Resource("file:///a", blob="aGk=", mime_type="application/pdf"),
        ),
    ],
)
def test_a_block_becomes_the_part_that_says_the_same(block: dict[str, Any], part: UserPart) -> None:
    assert parts_of(block) == (part,)


def test_a_block_of_a_kind_that_is_not_known_is_refused_by_its_name() -> None:
    with pytest.raises(InvalidParamsError, match="'smell'"):
        parts_of({"type": "smell", "strength": 3})
