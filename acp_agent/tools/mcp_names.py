"""Names for what MCP servers offer: `mcp__SERVER__TOOL`, legal with every provider and different from each other.

A server's part is free of double underscores, so that no two servers' tools can have one name; within a server, names
depend on the set of its tools and not on their order. Pure.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence

MAX_NAME = 64
"""Characters that every provider takes in a tool's name."""
_MAX_SERVER = 24
_HASH = 8
_OTHERS = re.compile(r"[^A-Za-z0-9_-]")
_RUNS = re.compile(r"__+")


def server_names(names: Sequence[str]) -> tuple[str, ...]:
    """A short name for each server, in their order: the first of two alike keeps it, the next gets a number. Slash
    commands have small letters only, so that names that differ in nothing else are alike."""
    given: list[str] = []
    for name in names:
        plain = _RUNS.sub("_", _OTHERS.sub("_", name)).strip("_-")[:_MAX_SERVER].strip("_-") or "server"
        short, number = plain, 1
        while short.lower() in (other.lower() for other in given):
            number += 1
            short = f"{plain[: _MAX_SERVER - len(str(number)) - 1].rstrip('_-')}-{number}"
        given.append(short)
    return tuple(given)


def tool_names(server: str, tools: Iterable[str]) -> dict[str, str]:
    """The name that the model calls each of a server's tools by.

    Characters that providers refuse become underscores. A name that is too long, or that two tools would share, ends
    with digits of its hash; the tool whose own name it is keeps it.

    :param server: of `server_names`.
    """
    prefix = f"mcp__{server}__"
    room = MAX_NAME - len(prefix)
    plain = {tool: _OTHERS.sub("_", tool) for tool in dict.fromkeys(tools)}
    sharing: dict[str, list[str]] = {}
    for tool, name in plain.items():
        sharing.setdefault(name, []).append(tool)
    names: dict[str, str] = {}
    for tool, name in plain.items():
        fits = 0 < len(name) <= room
        if fits and (tool == name or len(sharing[name]) == 1):
            names[tool] = prefix + name
        else:
            digits = hashlib.sha256(tool.encode("utf-8", "surrogatepass")).hexdigest()[:_HASH]
            names[tool] = f"{prefix}{name[: room - _HASH - 1]}_{digits}"
    return names


def command_part(name: str) -> str:
    """A name as it stands in a slash command: small letters, digits, underscores and hyphens."""
    return re.sub(r"[^a-z0-9_-]", "-", name.lower()).strip("-_") or "prompt"
