"""The first exchange, and what comes too early."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from support.client import AgentError, start_agent

pytestmark = pytest.mark.process

AGENT_METHODS = [
    "authenticate",
    "logout",
    "providers/list",
    "providers/set",
    "providers/disable",
    "session/new",
    "session/load",
    "session/resume",
    "session/list",
    "session/close",
    "session/delete",
    "session/prompt",
    "session/set_mode",
    "session/set_config_option",
    "session/fork",
    "session/set_title",
    "session/archive",
    "session/unarchive",
    "session/status",
]


async def test_initialize_without_a_valid_version_is_an_error_and_may_be_repeated(tmp_path: Path) -> None:
    wrong: list[Any] = ["1", -1, 1.5, True, 65_536, None]
    async with start_agent(home=tmp_path) as agent:
        for params in (None, {}, *({"protocolVersion": version} for version in wrong)):
            with pytest.raises(AgentError) as error:
                await agent.request("initialize", params)
            assert error.value.code == -32602, params
            assert "protocolVersion" in f"{error.value.message} {error.value.data}"
        await agent.initialize()


async def test_every_request_before_initialize_is_an_error_and_nothing_else_is_sent(tmp_path: Path) -> None:
    async with start_agent(home=tmp_path) as agent:
        for method in AGENT_METHODS:
            with pytest.raises(AgentError, match="initialize") as error:
                await agent.request(method, {"sessionId": "x", "cwd": str(tmp_path), "prompt": []})
            assert error.value.code == -32600
        assert [line.kind for line in agent.lines] == ["error"] * len(AGENT_METHODS)
        await agent.initialize()
        await agent.new_session(tmp_path)


async def test_requests_right_behind_initialize_in_the_same_write_are_answered(tmp_path: Path) -> None:
    async with start_agent(home=tmp_path) as agent:
        requests = [
            {"id": "a", "method": "initialize", "params": {"protocolVersion": 1}},
            {"id": "b", "method": "session/new", "params": {"cwd": str(tmp_path), "mcpServers": []}},
            {"id": "c", "method": "session/list", "params": {}},
        ]
        await agent.send_line(b"\n".join(json.dumps({"jsonrpc": "2.0", **request}).encode() for request in requests))
        assert (await agent.pending("a").result())["protocolVersion"] == 1
        assert (await agent.pending("b").result())["sessionId"]
        assert "sessions" in await agent.pending("c").result()


async def test_an_initialize_that_comes_in_pieces_is_answered(tmp_path: Path) -> None:
    async with start_agent(home=tmp_path) as agent:
        line = json.dumps(
            {"jsonrpc": "2.0", "id": 7, "method": "initialize", "params": {"protocolVersion": 1}}
        ).encode()
        for index in range(0, len(line), 9):
            await agent.send_bytes(line[index : index + 9])
        await agent.send_bytes(b"\r\n")
        answer = await agent.wait_for(lambda line: line.message.get("id") == 7)
        assert answer.message["result"]["protocolVersion"] == 1
        agent.problems.clear()  # the client did not see the request in its pieces
