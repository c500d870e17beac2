"""Opening a session: new, load and resume, what they answer, and in which order things come."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from support.client import AgentError
from support.editors import ZED_BETA
from support.memory import agent_in_memory, stage
from support.replies import Reply


async def test_an_open_session_goes_on_where_opening_it_again_fails_for_its_settings(tmp_path: Path) -> None:
    hold = anyio.Event()
    async with stage(tmp_path, Reply(["One", " two"], hold=hold, hold_after=1), Reply("Three.")) as it:
        handle = await it.agent.start_prompt(it.session, "Go")
        await it.held()
        config = it.home / "state" / "config.yaml"
        before = config.read_text() if config.exists() else None
        config.write_text("model: [unclosed")
        for reopening in (it.agent.load, it.agent.resume):
            with pytest.raises(AgentError, match=r"config\.yaml"):
                await reopening(it.session, it.folder)
        hold.set()
        assert await handle.result() == {"stopReason": "end_turn"}
        config.unlink() if before is None else config.write_text(before)
        assert await it.prompt("On") == {"stopReason": "end_turn"}
        assert "".join(it.agent.text().split()) == "OnetwoThree."


async def test_mcp_servers_may_be_missing_and_may_be_there(tmp_path: Path) -> None:
    server = {"name": "ide", "command": "/bin/false", "args": [], "env": []}
    remote = {"type": "http", "name": "web", "url": "http://127.0.0.1:9/mcp", "headers": []}
    async with agent_in_memory(home=tmp_path, capabilities=replace(ZED_BETA, sends_mcp_servers=False)) as agent:
        params: dict[str, Any] = {"cwd": str(tmp_path), "sessionId": await agent.new_session(tmp_path)}
        for method in ("session/new", "session/load", "session/resume"):
            await agent.request(method, params)
            heard = len(agent.lines)
            await agent.request(method, {**params, "mcpServers": [server, remote]})
            # They are not started, and the user is told so, after the response.
            assert "MCP" in str(await agent.wait_update("notice", since=heard))
