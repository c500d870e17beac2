"""MCP servers that an editor names with a session: its own, which may be mute, must not
hold the session up.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest

from acp_agent.session import mcp
from support.http_server import Exchange, http_server
from support.mcp import mcp_program, ready, says, tool
from support.memory import stage
from support.replies import Reply, ToolCall
from support.stage import results


async def mute(exchange: Exchange) -> None:
    """A server that takes requests and answers none."""
    await anyio.sleep_forever()


async def test_servers_that_say_nothing_hold_up_no_way_of_opening_and_the_user_hears_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mcp, "PATIENCE_SECONDS", 0)
    talker = mcp_program(
        tmp_path, "talker", tools=[tool("talk")], results={"talk": says("Hello there.")}
    )
    replies = (Reply(tool_calls=[ToolCall("mcp__talker__talk")]), Reply("Hello."))
    async with http_server(mute) as url, stage(tmp_path, *replies) as it:
        servers: list[dict[str, Any]] = [
            {
                "name": "ide",
                "command": "/bin/sh",
                "args": ["-c", "sleep 600"],
                "env": [],
            },
            {"type": "http", "name": "web", "url": f"{url}/mcp", "headers": []},
            {"type": "sse", "name": "events", "url": f"{url}/sse", "headers": []},
            talker.entry,
        ]
        session = await it.agent.new_session(it.folder, mcpServers=servers)
        await it.agent.load(session, it.folder, mcpServers=servers)
        await it.agent.resume(session, it.folder, mcpServers=servers)
        await ready(it, "talker")
        heard = len(it.agent.lines)
        assert await it.agent.prompt(session, "Hi", timeout=30) == {
            "stopReason": "end_turn"
        }
        # The one that speaks is of use meanwhile.
        assert [result.text for result in results(it.server.calls[1].body)] == [
            "Hello there."
        ]
        # The editor has no notices, so that the log and the turn are where it is said.
        log = (it.home / "state" / "logs" / "acp-agent.log").read_text()
        for name in ("ide", "web", "events"):
            assert f"The MCP server {name!r} is not ready yet" in it.agent.text(
                since=heard
            )
            assert f"MCP server {name} is not ready yet" in log
