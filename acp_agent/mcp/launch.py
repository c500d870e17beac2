"""How an MCP server that is a program is started: which program, in which directory, with which variables.

The session's directory is a repository that may be hostile, and package managers and interpreters run what they find
in their working directory: `npx` reads `.npmrc` and `node_modules`, `uvx` reads `uv.toml`, Bun loads `bunfig.toml`, and
`python -m` imports every module from there. So a server starts in `/`, where only root can put anything, and learns
of the session's directories as the roots of the protocol and from a variable.

Source: Model Context Protocol, "Roots"; npx(1), npmrc(5), "Per-project config file"; uv's documentation, "Configuration
files"; Bun's, "bunfig.toml"; Python's, "The initialization of the sys.path module search path" and PYTHONSAFEPATH
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
    """What is started for a server.

    :ivar argv: the program's absolute path and its arguments.
    :ivar env: all of its environment variables.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str]


def launch(server: McpServer, env: Mapping[str, str]) -> Launch:
    """Return how to start a server.

    :param server: with the values of the variables that its entry names.
    :param env: the environment that it inherits a few variables from.
    :raises ToolError: if there is no such program, or only in a folder that others can write to.
    """
    variables = {**inherited(env), **server.env}
    path = variables.setdefault("PATH", os.defpath)
    program = find_program(server.command, path, holding_home=False)
    if program is None:
        raise ToolError(missing_program(server.command, path))
    if not any(Path(each).is_absolute() for each in (server.command, *server.args)):
        # A script of the user's may import what lies beside it, which this setting prevents.
        variables.setdefault("PYTHONSAFEPATH", "1")
    return Launch((program, *server.args), without_others(variables, holding_home=False))


def relative_arguments(server: McpServer) -> tuple[str, ...]:
    """Return the arguments that mean a path in the working directory, as in `server --repository .`."""
    if server.transport != "stdio":
        return ()
    return tuple(each for each in server.args if each in (".", "..") or each.startswith(("./", "../")))
