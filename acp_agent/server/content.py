"""Converts content blocks, tool calls and MCP servers between the wire and the domain,
for all protocol versions.

Some editors fail on a line of 10 MiB, so longer content is truncated, with a note. The
log and the model get the full content.

ACP, "Content"; "Session Setup", "MCP Servers".
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from acp_agent.config.settings import McpServer
from acp_agent.conversation.encoding import plain
from acp_agent.conversation.events import CallView
from acp_agent.conversation.messages import (
    Audio,
    CompactedBlock,
    Image,
    Resource,
    ResourceLink,
    Text,
    UserPart,
    data_length,
)
from acp_agent.errors import InvalidParamsError
from acp_agent.llm.parts import media_type
from acp_agent.protocol import JsonObject, JsonValue, v1
from acp_agent.protocol.updates import given, text_content, tool_call
from acp_agent.session.titles import name_of
from acp_agent.tools.text import one_line

if TYPE_CHECKING:
    from acp_agent.protocol import v2

MAX_DATA = 8_000_000
"""Maximum characters of base64 in one line."""
MAX_TEXT = 1_200_000
"""Maximum characters of text in one line. In JSON, a character may take six bytes."""
PLAN_TOOL = "plan"
ASK_TOOL = "ask_user"
_NUL = "\0"
_REPLACED = "\ufffd"
_SVG = "image/svg+xml"
_SVG_URI = "attachment:image.svg"
_REPEATED = re.compile(
    r"<previous_user_message>(.*)</previous_user_message>", re.DOTALL
)
_REPEATS = re.compile(
    r"<system_context>Continuing from previous session with \d{1,3} recent user messages</system_context>"
)

_NOTE = re.compile(r"System note: [^\n]+\n\n(?=\S)")
_HISTORY = "</conversation_history>\n\nCurrent user message:\n"


def parts_from_blocks(
    blocks: Sequence[v1.ContentBlock | v2.ContentBlock],
) -> tuple[UserPart, ...]:
    """Convert a prompt's content blocks to parts.

    :raises InvalidParamsError: if a block is of an unknown kind.
    """
    return tuple(map(_part, blocks))


def _part(block: v1.ContentBlock | v2.ContentBlock) -> UserPart:
    match block:
        case v1.TextContent():
            return Text(block.text)
        case v1.ImageContent():
            # A model reads an SVG as text, as it would read the file.
            if media_type(block.mime_type) == _SVG:
                return Resource(
                    block.uri or _SVG_URI,
                    blob=plain(block.data),
                    mime_type=block.mime_type,
                )
            return Image(plain(block.data), block.mime_type, block.uri)
        case v1.ResourceLink():
            return ResourceLink(
                block.uri,
                block.name,
                block.mime_type,
                block.description,
                block.size,
                block.title,
            )
        case v1.EmbeddedResource(resource=v1.TextResourceContents() as resource):
            if _NUL in resource.text and _REPLACED in resource.text:
                # The editor has decoded binary data as text. It could fill the context
                # window, and only the tools can read it.
                return ResourceLink(
                    resource.uri, name_of(resource.uri), resource.mime_type
                )
            return Resource(
                resource.uri, text=resource.text, mime_type=resource.mime_type
            )
        case v1.EmbeddedResource(resource=v1.BlobResourceContents() as resource):
            return Resource(
                resource.uri, blob=plain(resource.blob), mime_type=resource.mime_type
            )
        case v1.AudioContent():
            return Audio(plain(block.data), block.mime_type)
        case _:
            raise InvalidParamsError(
                f"session/prompt: a content block has the unknown kind {one_line(block.type, 40)!r}"
            )


def repeats_prompts(parts: tuple[UserPart, ...]) -> bool:
    """Return whether a prompt repeats earlier ones, as avante's prompts do.

    avante sends the last five prompts each time, each in a tag, followed by a note with
    their number.
    """
    return (
        bool(parts)
        and isinstance(parts[-1], Text)
        and _REPEATS.fullmatch(parts[-1].text) is not None
    )


def without_repeats(
    parts: tuple[UserPart, ...], said: Iterable[str]
) -> tuple[UserPart, ...]:
    """Return a prompt without the earlier prompts that it repeats, and without avante's
    tags.

    A command inside the tag would not be recognised, and the tag would become the
    session's title.

    avante usually sends the newest prompt first. After a restart of Neovim, however,
    new messages get the ids of older ones and take their places (`lua/avante/llm.lua`,
    `Utils.uuid`). So a prompt is new if it was not said before.

    :param said: the texts of the session's earlier prompts.
    """
    earlier = Counter(said)
    kept = list[UserPart]()
    told = list[Text]()
    new: list[Text] = []
    for part in parts[:-1]:
        words = _REPEATED.fullmatch(part.text) if isinstance(part, Text) else None
        if words is None:
            kept.append(part)
            continue
        told.append(Text(words[1]))
        if earlier[words[1]]:
            earlier[words[1]] -= 1
        else:
            new.append(told[-1])
    # If all were said before, the new prompt repeats an earlier one that is no longer
    # among the last five.
    new = new or told[:1]
    return (*kept, *reversed(new))


def split_preamble(parts: tuple[UserPart, ...]) -> tuple[str, tuple[UserPart, ...]]:
    """Return the text that Jupyter AI puts before the user's text, and the prompt
    without it.

    Jupyter AI begins the first prompt of a session with a note about notebooks. If a
    session could not be loaded, it begins the next prompt with the history of the chat
    (`jupyter_ai_acp_client/base_acp_persona.py`, `process_message`).

    :returns: the empty string and the prompt itself if there is no such text.
    """
    first = parts[0] if parts else None
    if not isinstance(first, Text):
        return "", parts
    rest = first.text.rpartition(_HISTORY)[2]
    note = _NOTE.match(rest)
    typed = rest[note.end() :] if note else rest
    preamble = first.text[: len(first.text) - len(typed)].strip()
    return preamble, (Text(typed), *parts[1:]) if preamble else parts


def as_context(preamble: str) -> Text:
    """Return a preamble as a separate part. Titles ignore it."""
    return Text(f"<context>\n{preamble}\n</context>")


def block_from_part(part: UserPart) -> JsonObject:
    """Convert a part to a content block. A note replaces data that is too large for a
    line or no longer stored.
    """
    match part:
        case Text() | CompactedBlock():
            return text_content(cut(part.text))
        case ResourceLink():
            more = given(
                mimeType=part.mime_type,
                title=part.title,
                description=part.description,
                size=part.size,
            )
            return {"type": "resource_link", "uri": part.uri, "name": part.name, **more}
        case Resource(text=str() as text):
            held: JsonObject = {"uri": part.uri, **given(mimeType=part.mime_type)}
            return {"type": "resource", "resource": {**held, "text": cut(text)}}
        case Image() | Audio() | Resource():
            data = (part.blob or "") if isinstance(part, Resource) else part.data
            uri = None if isinstance(part, Audio) else part.uri
            too_large = data_length(data) > MAX_DATA
            if too_large or not isinstance(data, str):
                name = "audio" if isinstance(part, Audio) else uri or "an image"
                return text_content(
                    f"[{name}: {'too large to be shown again' if too_large else 'no longer stored'}]"
                )
            held = {**given(uri=uri, mimeType=part.mime_type)}
            if isinstance(part, Resource):
                return {"type": "resource", "resource": {**held, "blob": data}}
            return {
                "type": "image" if isinstance(part, Image) else "audio",
                "data": data,
                **held,
            }


# --- the size of a line ---


def cut(text: str, limit: int = MAX_TEXT) -> str:
    """Truncate a text to `limit` characters, with a note on how many are missing."""
    return (
        text
        if len(text) <= limit
        else f"{text[:limit]}\n… ({len(text) - limit} more characters)"
    )


def bounded(value: JsonObject) -> JsonObject:
    """Return a call's arguments, or a placeholder with their length if they exceed
    `MAX_TEXT` characters.
    """
    length = size(value)
    return (
        value if length <= MAX_TEXT else {"…": f"{length} characters, too many to show"}
    )


def size(value: JsonValue) -> int:
    """Estimate the length of a value as JSON, in characters."""
    match value:
        case str():
            return len(value) + 2
        case dict():
            return sum(len(key) + 2 + size(item) for key, item in value.items())
        case list():
            return sum(map(size, value)) + 2
        case _:
            return 8


# --- tool calls ---


def pending_call(
    call_id: str,
    name: str,
    view: CallView,
    arguments: JsonObject,
    content: Sequence[JsonObject] = (),
) -> JsonObject:
    """Return a tool call that has not run yet, for an update or a permission dialog."""
    return tool_call(
        call_id,
        title=view.title,
        name=one_line(name),
        kind=view.kind,
        status="pending",
        content=content,
        locations=locations(view),
        raw_input=raw_input(name, arguments),
    )


def raw_input(name: str, arguments: JsonObject) -> JsonObject | None:
    """Return a call's arguments for an editor; None for a plan or a question, which are
    shown in another form.

    Many editors print a call's arguments as JSON above or instead of its content.
    """
    return None if name in (PLAN_TOOL, ASK_TOOL) else bounded(arguments)


def locations(view: CallView) -> list[JsonObject]:
    """Return the files and lines that a tool call is about."""
    return [{"path": place.path, **given(line=place.line)} for place in view.locations]


# --- MCP servers ---


def servers_from_wire(
    servers: Sequence[v1.McpServer | v2.McpServer],
) -> tuple[McpServer, ...]:
    """Convert the MCP servers of a request, in order. Connection errors are reported
    later, for each server.

    :raises InvalidParamsError: if a server needs a transport that the agent does not
        advertise.
    """
    return tuple(map(_server, servers))


def _server(server: v1.McpServer | v2.McpServer) -> McpServer:
    from acp_agent.protocol import v2

    match server:
        case v1.McpServerHttp() | v1.McpServerSse():
            headers = {header.name: header.value for header in server.headers}
            return McpServer(server.name, server.type, url=server.url, headers=headers)
        case v1.McpServerAcp():
            return McpServer(server.name, "acp", server_id=server.server_id)
        case v1.McpServerStdio() | v2.McpServerStdio():
            env = {variable.name: variable.value for variable in server.env}
            return McpServer(
                server.name,
                "stdio",
                command=server.command,
                args=tuple(server.args),
                env=env,
            )
        case _:
            raise InvalidParamsError(
                f"mcpServers: this agent connects to MCP servers over stdio, http and acp, but not over "
                f"{one_line(server.type, 40)!r}."
            )
