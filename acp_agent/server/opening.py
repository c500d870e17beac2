"""The params of a new session, of its prompts and of their cancelling, read without a model where they are valid beyond
doubt.

Loading pydantic and building the models takes a third of the time from an editor's start to its first session, and what
nearly every editor sends is a directory and no servers, then text and links. Whatever is not that simple is the model's
to read, or to refuse. Needs nothing of pydantic.

ACP, "Session Setup" and "Prompt Turn".
"""

from __future__ import annotations

from acp_agent.conversation.messages import ResourceLink, Text, UserPart
from acp_agent.frozen import frozen
from acp_agent.protocol import JsonObject, JsonValue

_KNOWN = frozenset({"cwd", "additionalDirectories", "mcpServers", "_meta"})
_PROMPT = frozenset({"sessionId", "prompt", "_meta"})
_CANCEL = frozenset({"sessionId", "_meta"})
_TEXT = frozenset({"type", "text", "annotations", "_meta"})
_LINK = frozenset({"type", "uri", "name", "mimeType", "title", "description", "size", "annotations", "_meta"})


@frozen
class NewSession:
    """What `NewSessionRequest` says, where no MCP server came with it."""

    cwd: str
    additional_directories: list[str]
    mcp_servers: tuple[()] = ()


@frozen
class Prompt:
    """What `PromptRequest` says, where it holds texts and links alone."""

    session_id: str
    parts: tuple[UserPart, ...]


@frozen
class Cancel:
    """What `CancelNotification` says."""

    session_id: str


def plain_new_session(params: JsonObject) -> NewSession | None:
    """Read the params of `session/new`.

    :returns: the same as the model would hold; None leaves them to the model.
    """
    cwd, more, servers = params.get("cwd"), params.get("additionalDirectories"), params.get("mcpServers")
    directories: JsonValue = [] if more is None else more
    if not params.keys() <= _KNOWN or servers not in ([], None):
        return None
    if not isinstance(cwd, str) or not isinstance(directories, list):
        return None
    paths = [path for path in directories if isinstance(path, str)]
    return NewSession(cwd, paths) if len(paths) == len(directories) else None


def plain_prompt(params: JsonObject) -> Prompt | None:
    """Read the params of `session/prompt`.

    :returns: the same as the model would hold, as parts; None leaves them to the model.
    """
    session_id, blocks = params.get("sessionId"), params.get("prompt")
    if not params.keys() <= _PROMPT or not isinstance(session_id, str) or not isinstance(blocks, list):
        return None
    parts = [part for block in blocks if (part := _part(block)) is not None]
    return Prompt(session_id, tuple(parts)) if len(parts) == len(blocks) else None


def plain_cancel(params: JsonObject) -> Cancel | None:
    """Read the params of `session/cancel`.

    :returns: the same as the model would hold; None leaves them to the model.
    """
    session_id = params.get("sessionId")
    return Cancel(session_id) if params.keys() <= _CANCEL and isinstance(session_id, str) else None


def _part(block: JsonValue) -> Text | ResourceLink | None:
    # What is not known is passed over by the models, but for names in another spelling, which they know.
    if not isinstance(block, dict):
        return None
    text, uri, name = block.get("text"), block.get("uri"), block.get("name")
    if block.get("type") == "text" and isinstance(text, str) and block.keys() <= _TEXT:
        return Text(text)
    if block.get("type") != "resource_link" or not block.keys() <= _LINK:
        return None
    mime_type, title, description = block.get("mimeType"), block.get("title"), block.get("description")
    size = block.get("size")
    if not isinstance(uri, str) or not isinstance(name, str) or not isinstance(size, int | None):
        return None
    if not isinstance(mime_type, str | None) or not isinstance(title, str | None):
        return None
    if not isinstance(description, str | None) or isinstance(size, bool):
        return None
    return ResourceLink(uri, name, mime_type, description, size, title)
