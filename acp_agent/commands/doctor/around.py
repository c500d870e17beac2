"""Checks of what is around the agent: what this project brings, MCP servers. Starts none of them."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

from acp_agent.commands.doctor.findings import Finding
from acp_agent.commands.trust import brought_by
from acp_agent.config import Settings
from acp_agent.config.settings import McpServer
from acp_agent.config.trust import TrustStore
from acp_agent.errors import AgentError

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


def check_project(settings: Settings, cwd: Path) -> Iterator[Finding]:
    """What this directory brings that would run, and whether that is allowed."""
    store = TrustStore(settings.home)
    try:
        brought = brought_by(settings, cwd)
        trusted = [store.trusts(each) for each in brought]
    except AgentError as error:
        yield Finding("fail", "trust", str(error))
        return
    for each, is_trusted in zip(brought, trusted, strict=True):
        if each.problem:
            yield Finding("warn", "trust", f"{each.place}: {each.problem}.", "Nothing of it runs until that is mended.")
        elif is_trusted:
            yield Finding("ok", "trust", f"What {each.place} brings is allowed to run.")
        else:
            advice = f"If you know what it does: acp-agent trust {shlex.quote(str(each.place.parent))}"
            yield Finding("warn", "trust", f"What {each.place} brings is not allowed, and does not run.", advice)
    if not brought:
        yield Finding("ok", "trust", "This directory brings no hooks and no recipes.")
    if own := sum(command.origin == "config" for command in settings.hooks):
        yield Finding("ok", "hooks", f"config.yaml names {own} {'command' if own == 1 else 'commands'}.")


def check_mcp(settings: Settings, env: Mapping[str, str]) -> Iterator[Finding]:
    """The MCP servers of the configuration: whether they could be started."""
    for server in settings.mcp_servers:
        unset = sorted(
            {
                name
                for value in (*server.env.values(), *server.headers.values())
                for name in _VARIABLE.findall(value)
                if name not in env
            }
        )
        if unset:
            yield Finding("fail", "mcp", f"{server.name}: {', '.join(unset)} is not set.", "Set it, or take it out.")
        elif server.transport == "stdio" and not _is_program(server, env):
            advice = "Install it, or write its whole path."
            yield Finding("fail", "mcp", f"{server.name}: {server.command} is no program on the PATH.", advice)
        else:
            what = server.command if server.transport == "stdio" else f"{server.transport}, not asked here"
            yield Finding("ok", "mcp", f"{server.name}: {what}.")


def _is_program(server: McpServer, env: Mapping[str, str]) -> bool:
    path = server.env.get("PATH", env.get("PATH", os.defpath))
    return shutil.which(server.command, path=path) is not None
