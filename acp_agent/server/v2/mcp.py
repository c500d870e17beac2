"""The MCP servers that an editor of version 2 names, from the wire to the domain. Loaded where one does.

ACP v2, "Session Setup", "MCP Servers".
"""

from __future__ import annotations

from collections.abc import Sequence

from acp_agent.config.settings import McpServer
from acp_agent.errors import InvalidParamsError
from acp_agent.protocol import v2
from acp_agent.tools.text import one_line


def servers_from_wire(servers: Sequence[v2.McpServer]) -> tuple[McpServer, ...]:
    """As the domain knows them, in their order. What is wrong with one is its own failure, not the session's.

    :raises InvalidParamsError: a way to speak to one that the agent does not advertise.
    """
    return tuple(_server(server) for server in servers)


def _server(server: v2.McpServer) -> McpServer:
    match server:
        case v2.McpServerStdio():
            env = {variable.name: variable.value for variable in server.env}
            return McpServer(server.name, "stdio", command=server.command, args=tuple(server.args), env=env)
        case v2.McpServerHttp():
            headers = {header.name: header.value for header in server.headers}
            return McpServer(server.name, "http", url=server.url, headers=headers)
        case v2.McpServerAcp():
            return McpServer(server.name, "acp", server_id=server.server_id)
        case _:
            raise InvalidParamsError(
                f"mcpServers: this agent speaks to MCP servers over stdio, http and acp, and not over "
                f"{one_line(server.type, 40)!r}."
            )
