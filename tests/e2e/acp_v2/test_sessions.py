"""Sessions in version 2: resumed with and without their conversation, listed, closed and deleted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.client import AgentError
from support.memory import second_agent


async def test_a_replay_cannot_begin_anywhere_but_at_the_start(tmp_path: Path) -> None:
    async with second_agent(home=tmp_path) as it:
        session = await it.open(tmp_path)
        cursors: list[Any] = [{"type": "message", "messageId": "m"}, {"type": "_mine"}, {}, "start", 5]
        for cursor in cursors:
            with pytest.raises(AgentError) as error:
                await it.resume(session, tmp_path, replayFrom=cursor)
            assert error.value.code == -32602, cursor
        await it.resume(session, tmp_path, replayFrom=None)


async def test_mcp_servers_come_with_their_transport_and_others_are_refused(tmp_path: Path) -> None:
    async with second_agent(home=tmp_path) as it:
        gone = {"type": "stdio", "name": "gone", "command": str(tmp_path / "gone")}
        session = await it.open(tmp_path, mcpServers=[gone])
        notice = await it.agent.wait_update("notice", session, timeout=10)
        assert "gone" in notice["title"]
        for type in ("sse", "_pigeon"):
            with pytest.raises(AgentError, match=type) as error:
                await it.open(tmp_path, mcpServers=[{"type": type, "name": "x", "url": "http://localhost/"}])
            assert error.value.code == -32602
        for wrong in ({"name": "x", "command": "/x"}, {"type": "stdio", "name": "x"}):
            with pytest.raises(AgentError) as error:
                await it.open(tmp_path, mcpServers=[wrong])
            assert error.value.code == -32602
