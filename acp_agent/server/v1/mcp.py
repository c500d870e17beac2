"""The MCP servers that an editor names, from the wire to the domain. Loaded where one does.

ACP, "Session Setup", "MCP Servers".
"""

from __future__ import annotations

from collections.abc import Sequence

from acp_agent.config.settings import McpServer
from acp_agent.protocol import v1


def servers_from_wire(servers: Sequence[v1.McpServer]) -> tuple[McpServer, ...]:
    """As the domain knows them, in their order. What is wrong with one is its own failure, not the session's."""
    return tuple(_server(server) for server in servers)


def _server(server: v1.McpServer) -> McpServer:
    if isinstance(server, v1.McpServerStdio):
        env = {variable.name: variable.value for variable in server.env}
        return McpServer(server.name, "stdio", command=server.command, args=tuple(server.args), env=env)
    if isinstance(server, v1.McpServerAcp):
        return McpServer(server.name, "acp", server_id=server.server_id)
    headers = {header.name: header.value for header in server.headers}
    return McpServer(server.name, server.type, url=server.url, headers=headers)
