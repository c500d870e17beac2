"""The environment variables that the entry of an MCP server names: their values put in, and kept out of what is said.

An entry names one as `${NAME}`, so that no token has to stand in a file. Does not start the server.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from acp_agent.config.settings import McpServer
from acp_agent.errors import ToolError

_SECRET = 6
"""Characters; what is shorter is no secret, and masking it would garble what is said."""
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


def with_values(server: McpServer, env: Mapping[str, str]) -> McpServer:
    """The server with the values of the variables that its entry names.

    :param env: the agent's environment variables.
    :raises ToolError: one is not set, or its address is none.
    """
    if server.transport in ("http", "sse") and not server.url.lower().startswith(("http://", "https://")):
        raise ToolError("its address is no http or https URL")
    if not server.variables:
        return server

    def value(found: re.Match[str]) -> str:
        if found[1] not in env:
            raise ToolError(f"its entry names the environment variable {found[1]}, which is not set")
        return env[found[1]]

    def values(of: Mapping[str, str]) -> dict[str, str]:
        return {key: _VARIABLE.sub(value, text) for key, text in of.items()}

    return replace(server, env=values(server.env), headers=values(server.headers))


def secrets(server: McpServer, env: Mapping[str, str]) -> list[str]:
    """What of a server's entry may not be said, the longest first: its values, as they are written and with the
    variables' values put in.

    :param env: the agent's environment variables.
    """
    values = (*server.env.values(), *server.headers.values())
    expanded = (_VARIABLE.sub(lambda found: env.get(found[1], ""), value) for value in values)
    return sorted({value for value in (*values, *expanded) if len(value) >= _SECRET}, key=len, reverse=True)
