"""Opening a session: new, load and resume, what they answer, and in which order things
come.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from support.editors import ZED_BETA
from support.memory import agent_in_memory


async def test_mcp_servers_may_be_missing_and_may_be_there(tmp_path: Path) -> None:
    server = {"name": "ide", "command": "/bin/false", "args": [], "env": []}
    remote = {
        "type": "http",
        "name": "web",
        "url": "http://127.0.0.1:9/mcp",
        "headers": [],
    }
    async with agent_in_memory(
        home=tmp_path, capabilities=replace(ZED_BETA, sends_mcp_servers=False)
    ) as agent:
        params: dict[str, Any] = {
            "cwd": str(tmp_path),
            "sessionId": await agent.new_session(tmp_path),
        }
        for method in ("session/new", "session/load", "session/resume"):
            await agent.request(method, params)
            heard = len(agent.lines)
            await agent.request(method, {**params, "mcpServers": [server, remote]})
            # They are not started, and the user is told so, after the response.
            assert "MCP" in str(await agent.wait_update("notice", since=heard))
