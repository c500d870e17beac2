"""Duties of messages as such: which are answered, what is in an error, and whose answer is one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.client import AgentError, connected_agent
from support.stage import PATIENCE


async def test_what_is_somebodys_own_is_answered_as_unknown_or_ignored(tmp_path: Path) -> None:
    async with connected_agent(home=tmp_path, laws=False) as agent:
        heard = len(agent.lines)
        await agent.notify("_zed.dev/file_opened", {"path": "/a"})
        await agent.notify("_zed.dev/odd", [1])
        await agent.notify("session/cancel", ["nobody"])
        for id, params in ("named", "{}"), ("by position", "[1]"):
            line = f'{{"jsonrpc":"2.0","id":"{id}","method":"_zed.dev/workspace/buffers","params":{params}}}'
            await agent.send_line(line.encode())
            with pytest.raises(AgentError) as error:
                await agent.pending(id).result()
            assert error.value.code == -32601
        assert await agent.request("session/list", {}) == {"sessions": []}
        assert [line.kind for line in agent.lines[heard:]].count("error") == 2
        assert not [line for line in agent.lines[heard:] if line.kind == "notification" and line.received]


async def test_an_error_is_an_integer_and_a_line(tmp_path: Path) -> None:
    broken: list[tuple[str, Any]] = [
        ("session/new", {"cwd": "relative", "mcpServers": []}),
        ("session/new", {}),
        ("session/load", {"sessionId": "nobody", "cwd": str(tmp_path), "mcpServers": []}),
        ("session/prompt", {"sessionId": "nobody", "prompt": []}),
        ("session/list", {"cursor": "x"}),
        ("authenticate", {"methodId": "a\nb"}),
        ("no\nsuch", {}),
    ]
    async with connected_agent(home=tmp_path, laws=False, validate=False) as agent:
        for method, params in broken:
            with pytest.raises(AgentError):
                await agent.request(method, params)
        session = await agent.new_session(tmp_path)
        with pytest.raises(AgentError):
            await agent.prompt(session, "Nobody can be asked", PATIENCE)
        errors = [line.message["error"] for line in agent.lines if line.kind == "error" and line.received]
        assert len(errors) == len(broken) + 1
        for error in errors:
            assert type(error["code"]) is int
            assert 0 < len(error["message"]) <= 400, error
            assert len(error["message"].splitlines()) == 1, error
