"""Results of MCP servers as parts of messages: text and images that a model reads, bounded in size."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from acp_agent.conversation.encoding import plain
from acp_agent.conversation.messages import Image, JsonObject, JsonValue, Resource, ResultPart, Text, UserPart
from acp_agent.llm.pictures import Unusable, received
from acp_agent.mcp.model import Answer, PromptMessage
from acp_agent.tools.text import clean, counted, cut_middle, one_line

TEXT_LIMIT = 60_000
"""Characters of all texts of one answer together."""
IMAGE_LIMIT = 6_500_000
"""Characters of an image in base64, which is somewhat less than 5 MB; no model takes more."""
IMAGES = 10
"""In one answer."""
EMPTY = "(the tool returned nothing)"


def result_parts(answer: Answer) -> tuple[ResultPart, ...]:
    """Return a tool's result as the model reads it."""
    parts: list[ResultPart] = [_result_part(block) for block in answer.content]
    if answer.structured is not None and not _is_told(answer.structured, parts):
        parts.append(Text(json.dumps(answer.structured, ensure_ascii=False)))
    return _bounded(parts) or (Text(EMPTY),)


def prompt_parts(messages: Sequence[PromptMessage]) -> tuple[UserPart, ...]:
    """Return a prompt as one message of the user's; where others speak in it too, each message says whose it is."""
    parts: list[UserPart] = []
    quoted = any(message.role != "user" for message in messages)
    for message in messages:
        if quoted:
            parts.append(Text(f"[{one_line(message.role)}]"))
        parts.append(_user_part(message.content))
    return tuple(parts)


def resource_parts(uri: str, contents: Iterable[JsonObject]) -> tuple[Resource, ...]:
    """Return the contents of a resource."""
    return tuple(_resource(each, uri) for each in contents)


def _result_part(block: JsonObject) -> ResultPart:
    match block.get("type"):
        case "text":
            return Text(clean(_text(block, "text")))
        case "image":
            return _image(_text(block, "data"), _text(block, "mimeType"))
        case "audio":
            return Text(f"[a sound ({_text(block, 'mimeType')}) left out: it cannot be passed on]")
        case "resource":
            resource = _resource(_object(block.get("resource")), "")
            if resource.text is not None:
                return Text(f"{resource.uri}:\n{resource.text}")
            if isinstance(resource.blob, str) and resource.blob and (resource.mime_type or "").startswith("image/"):
                return _image(resource.blob, resource.mime_type or "", resource.uri)
            return Text(f"[{resource.uri} left out: it is binary ({resource.mime_type or 'of no known type'})]")
        case "resource_link":
            words = [_text(block, key) for key in ("title", "name", "uri", "mimeType", "description")]
            return Text(f"[link: {' | '.join(one_line(word, 500) for word in words if word)}]")
        case kind:
            return Text(f"[content of the unknown type {one_line(str(kind))} left out]")


def _user_part(block: JsonObject) -> UserPart:
    if block.get("type") == "resource":
        return _resource(_object(block.get("resource")), "")
    return _result_part(block)


def _resource(contents: JsonObject, uri: str) -> Resource:
    name, kind = _text(contents, "uri") or uri, _text(contents, "mimeType") or None
    blob = contents.get("blob")
    if isinstance(blob, str):
        if len(blob) > IMAGE_LIMIT:
            return Resource(name, text=f"[left out: larger than {IMAGE_LIMIT * 3 // 4:,} bytes]")
        return Resource(name, blob=plain(blob), mime_type=kind)
    return Resource(name, text=cut_middle(clean(_text(contents, "text")), TEXT_LIMIT), mime_type=kind)


def _image(data: str, kind: str, uri: str | None = None) -> ResultPart:
    if len(data) > IMAGE_LIMIT:
        return Text(f"[an image ({one_line(kind)}) left out: larger than models take]")
    # One that is broken would be refused by the model's provider, and every later request of the session with it.
    try:
        return Image(*received(data, kind), uri)
    except Unusable as error:
        return Text(f"[an image ({one_line(kind, 80)}) left out: {one_line(str(error))}]")


def _is_told(structured: JsonValue, parts: Sequence[ResultPart]) -> bool:
    """Return whether a text says the same: servers are asked to send it as text as well."""
    for part in parts:
        if isinstance(part, Text):
            try:
                value: JsonValue = json.loads(part.text)
            except (ValueError, RecursionError):
                value = part.text
            if value == structured or {"result": value} == structured or {"result": part.text} == structured:
                return True
    # A list is often sent as one text for each of its items.
    texts = [part.text for part in parts if isinstance(part, Text)]
    return isinstance(structured, dict) and structured.get("result") == texts


def _bounded(parts: Sequence[ResultPart]) -> tuple[ResultPart, ...]:
    kept: list[ResultPart] = []
    room, images, dropped = TEXT_LIMIT, IMAGES, 0
    for part in parts:
        if isinstance(part, Image):
            images -= 1
            if images >= 0:
                kept.append(part)
        elif part.text:
            if room <= 0:
                dropped += 1
                continue
            text = cut_middle(part.text, room)
            room -= len(text)
            kept.append(Text(text))
    if images < 0:
        kept.append(Text(f"[{counted(-images, 'more image')} left out]"))
    if dropped:
        kept.append(Text(f"[{counted(dropped, 'more text')} left out: the answer is too long]"))
    return tuple(kept)


def _text(block: JsonObject, key: str) -> str:
    value = block.get(key)
    return value if isinstance(value, str) else ""


def _object(value: JsonValue) -> JsonObject:
    return value if isinstance(value, dict) else {}
