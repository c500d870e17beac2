"""Decides how to start a stdio MCP server: the program, its working directory and its
environment.

The session's directory may be a hostile repository, and package managers and
interpreters run code from their working directory: `npx` reads `.npmrc` and
`node_modules`, `uvx` reads `uv.toml`, Bun loads `bunfig.toml`, and `python -m` imports
modules from there. So servers start in `/`, which only root can write to. They learn
the session's directories through the protocol's roots and an environment variable.

Source: Model Context Protocol, "Roots"; npx(1), npmrc(5), "Per-project config file";
uv's documentation, "Configuration files"; Bun's, "bunfig.toml"; Python's, "The
initialization of the sys.path module search path" and PYTHONSAFEPATH
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from acp_agent.config.settings import McpServer
from acp_agent.errors import ToolError
from acp_agent.frozen import frozen
from acp_agent.mcp.model import inherited
from acp_agent.programs import find_program, missing_program, without_others

DIRECTORY = Path("/")
"""The working directory of every server."""


@frozen
class Launch:
    """The command and environment of a server.

    :ivar argv: the program's absolute path and its arguments.
    :ivar env: all of its environment variables.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str]


def launch(server: McpServer, env: Mapping[str, str]) -> Launch:
    """Return how to start a server.

    :param server: its configuration, with variables expanded.
    :param env: the environment from which a few variables are inherited.
    :raises ToolError: if the program does not exist, or exists only in a folder that
        other users can write to.
    """
    variables = {**inherited(env), **server.env}
    path = variables.setdefault("PATH", os.defpath)
    program = find_program(server.command, path, holding_home=False)
    if program is None:
        raise ToolError(missing_program(server.command, path))
    if not any(Path(each).is_absolute() for each in (server.command, *server.args)):
        # PYTHONSAFEPATH would keep a user's script from importing the modules next to
        # it.
        variables.setdefault("PYTHONSAFEPATH", "1")
    return Launch(
        (program, *server.args), without_others(variables, holding_home=False)
    )


def relative_arguments(server: McpServer) -> tuple[str, ...]:
    """Return the arguments that are paths relative to the working directory, as in
    `server --repository .`.
    """
    if server.transport != "stdio":
        return ()
    return tuple(
        each
        for each in server.args
        if each in (".", "..") or each.startswith(("./", "../"))
    )
