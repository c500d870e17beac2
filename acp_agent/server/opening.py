"""The params of `session/new`, read without a model where they are valid beyond doubt.

Loading pydantic and building the model takes a third of the time from an editor's start to its first session, and what
nearly every editor sends is a directory and no servers. Whatever is not that simple is the model's to read, or to
refuse. Needs the standard library alone.

ACP, "Session Setup".
"""

from __future__ import annotations

from dataclasses import dataclass

from acp_agent.protocol import JsonObject, JsonValue

_KNOWN = frozenset({"cwd", "additionalDirectories", "mcpServers", "_meta"})


@dataclass(frozen=True, slots=True)
class NewSession:
    """What `NewSessionRequest` says, where no MCP server came with it."""

    cwd: str
    additional_directories: list[str]
    mcp_servers: tuple[()] = ()


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
