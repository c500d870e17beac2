"""A session where the file of stored keys cannot be read, and where nobody is told of a session that was made."""

from __future__ import annotations

import json
from pathlib import Path

import anyio
import pytest

from support.client import AgentError, AgentProcess
from support.http_server import Exchange, http_server
from support.memory import agent_in_memory, second_agent


async def taken_back(agent: AgentProcess, folder: Path, probed: list[anyio.Event], forked: str = "") -> set[str]:
    """Begin a session and take it back while it is made, until that was in time.

    :param forked: the session that it goes on from.

    :returns: the sessions that were told of.
    """
    told: set[str] = set()
    for _ in range(10):
        probed[0] = anyio.Event()
        params = {"cwd": str(folder), "mcpServers": [], **({"sessionId": forked} if forked else {})}
        pending = await agent.start_request("session/fork" if forked else "session/new", params)
        with anyio.fail_after(5):
            await probed[0].wait()  # the session is made; what may be chosen in it is not known yet
        await pending.cancel()
        try:
            told.add((await pending.result())["sessionId"])
        except AgentError as error:
            if error.code != -32800:
                raise
            return told
    raise AssertionError("it was never in time")


@pytest.mark.parametrize("version", [1, 2])
async def test_a_session_that_nobody_was_told_of_is_not_left_behind(tmp_path: Path, version: int) -> None:
    probed = [anyio.Event()]

    async def slow(exchange: Exchange) -> None:
        probed[0].set()
        await anyio.sleep_forever()

    async with http_server(slow) as url:
        config = {"providers": {"slow": {"kind": "openai-chat", "base_url": f"{url}/v1"}}}
        (tmp_path / "state").mkdir(mode=0o700)
        (tmp_path / "state" / "config.yaml").write_text(json.dumps(config))
        if version == 1:
            async with agent_in_memory(home=tmp_path) as agent:
                told = await taken_back(agent, tmp_path, probed)
                made = await agent.new_session(tmp_path)
                told |= {made, *await taken_back(agent, tmp_path, probed, made)}
                listed = await agent.request("session/list", {})
        else:
            async with second_agent(home=tmp_path) as editor:
                told = await taken_back(editor.agent, tmp_path, probed)
                listed = await editor.agent.request("session/list", {})
    assert {each["sessionId"] for each in listed["sessions"]} == told
