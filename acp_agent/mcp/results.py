"""Results of MCP servers as parts of messages: text and images that a model reads, bounded in size."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from acp_agent.conversation.encoding import plain
from acp_agent.conversation.messages import Image, JsonValue, Resource, ResultPart, Text, UserPart
from acp_agent.llm.pictures import Unusable, received
from acp_agent.tools.text import clean, counted, cut_middle, one_line

if TYPE_CHECKING:
    from mcp.types import BlobResourceContents, CallToolResult, ContentBlock, PromptMessage, TextResourceContents

TEXT_LIMIT = 60_000
"""Characters of all texts of one answer together."""
IMAGE_LIMIT = 6_500_000
"""Characters of an image in base64, which is somewhat less than 5 MB; no model takes more."""
IMAGES = 10
"""In one answer."""
EMPTY = "(the tool returned nothing)"


def result_parts(answer: CallToolResult) -> tuple[ResultPart, ...]:
    """Return a tool's result as the model reads it."""
    parts = [_result_part(block) for block in answer.content]
    structured: JsonValue = answer.structured_content
    if structured is not None and not _is_told(structured, [part.text for part in parts if isinstance(part, Text)]):
        parts.append(Text(json.dumps(structured, ensure_ascii=False)))
    return _bounded(parts) or (Text(EMPTY),)


def prompt_parts(messages: Sequence[PromptMessage]) -> tuple[UserPart, ...]:
    """Return a prompt as one message of the user's; where others speak in it too, each message says whose it is."""
    parts: list[UserPart] = []
    quoted = any(message.role != "user" for message in messages)
    for message in messages:
        if quoted:
            parts.append(Text(f"[{message.role}]"))
        block = message.content
        parts.append(_resource(block.resource) if block.type == "resource" else _result_part(block))
    return tuple(parts)


def resource_parts(contents: Iterable[TextResourceContents | BlobResourceContents]) -> tuple[Resource, ...]:
    """Return the contents of a resource."""
    return tuple(map(_resource, contents))


def _result_part(block: ContentBlock) -> ResultPart:
    match block.type:
        case "text":
            return Text(clean(block.text))
        case "image":
            return _image(block.data, block.mime_type)
        case "audio":
            return Text(f"[a sound ({one_line(block.mime_type)}) left out: it cannot be passed on]")
        case "resource":
            resource = _resource(block.resource)
            if resource.text is not None:
                return Text(f"{resource.uri}:\n{resource.text}")
            if isinstance(resource.blob, str) and (resource.mime_type or "").startswith("image/"):
                return _image(resource.blob, resource.mime_type or "", resource.uri)
            return Text(f"[{resource.uri} left out: it is binary ({resource.mime_type or 'of no known type'})]")
        case "resource_link":
            words = (block.title, block.name, block.uri, block.mime_type, block.description)
            return Text(f"[link: {' | '.join(one_line(word, 500) for word in words if word)}]")


def _resource(contents: TextResourceContents | BlobResourceContents) -> Resource:
    blob: str | None = getattr(contents, "blob", None)
    if blob is None:
        text = cut_middle(clean(getattr(contents, "text", "")), TEXT_LIMIT)
        return Resource(contents.uri, text=text, mime_type=contents.mime_type)
    if len(blob) > IMAGE_LIMIT:
        return Resource(contents.uri, text=f"[left out: larger than {IMAGE_LIMIT * 3 // 4:,} bytes]")
    return Resource(contents.uri, blob=plain(blob), mime_type=contents.mime_type)


def _image(data: str, kind: str, uri: str | None = None) -> ResultPart:
    # One that is broken would be refused by the model's provider, and every later request of the session with it.
    try:
        if len(data) > IMAGE_LIMIT:
            raise Unusable("larger than models take")
        return Image(*received(data, kind), uri)
    except Unusable as error:
        return Text(f"[an image ({one_line(kind, 80)}) left out: {one_line(str(error))}]")


def _is_told(structured: JsonValue, texts: Sequence[str]) -> bool:
    """Return whether the texts say the same, as servers are asked to have them; a list may be a text for each item."""
    value = structured["result"] if isinstance(structured, dict) and "result" in structured else structured
    return value == [*texts] or any(each in (value, structured) for text in texts for each in (text, _parsed(text)))


def _parsed(text: str) -> JsonValue:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _bounded(parts: Sequence[ResultPart]) -> tuple[ResultPart, ...]:
    parts = [part for part in parts if isinstance(part, Image) or part.text]
    kept: list[ResultPart] = []
    room, images = TEXT_LIMIT, IMAGES
    for part in parts:
        if isinstance(part, Image):
            images -= 1
            kept += [part] * (images >= 0)
        elif text := cut_middle(part.text, room):
            room -= len(text)
            kept.append(Text(text))
    if len(kept) < len(parts):
        kept.append(Text(f"[{counted(len(parts) - len(kept), 'more part')} left out: the answer is too long]"))
    return tuple(kept)
