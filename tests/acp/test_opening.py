"""Opening a session: new, load and resume, what they answer, and in which order things come."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import psutil
import pytest

from support.client import AgentError, AgentProcess, connected_agent
from support.editors import AVANTE, ZED_BETA
from support.replies import Reply
from support.stage import PATIENCE, stage


async def commands_follow(agent: AgentProcess, method: str) -> list[str]:
    """Wait for the commands behind the last response to this method, before which there may be none."""
    responses = [line for line in agent.lines if line.label == f"response {method}"]
    update = await agent.wait_update("available_commands_update", since=responses[-1].index)
    return [command["name"] for command in update["availableCommands"]]


async def test_a_turn_that_is_over_before_the_commands_are_out_tells_once_how_full_the_window_is(
    tmp_path: Path,
) -> None:
    async with stage(tmp_path, Reply("One."), Reply("Two.")) as it:
        await it.prompt("One?")
        recipes = it.home / "state" / "recipes"
        recipes.mkdir(parents=True)
        for number in range(400):  # which take longer to read than a turn
            (recipes / f"own-{number}.md").write_text(f"---\ndescription: Number {number}\n---\n" + "Do it. " * 5_000)
        heard = len(it.agent.lines)
        session = await it.agent.new_session(it.folder)
        await it.agent.prompt(session, "Two?", PATIENCE)
        assert "own-399" in await commands_follow(it.agent, "session/new")
        await it.agent.request("session/list", {})  # behind all that opening it sends
        assert len(it.agent.updates(session, "usage_update", since=heard)) == 1


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
    async with connected_agent(home=tmp_path, capabilities=replace(ZED_BETA, sends_mcp_servers=False)) as agent:
        params: dict[str, Any] = {"cwd": str(tmp_path), "sessionId": await agent.new_session(tmp_path)}
        for method in ("session/new", "session/load", "session/resume"):
            await agent.request(method, params)
            heard = len(agent.lines)
            await agent.request(method, {**params, "mcpServers": [server, remote]})
            # They are not started, and the user is told so, after the response.
            assert "MCP" in str(await agent.wait_update("notice", since=heard))


async def test_an_agent_in_a_minimal_environment_opens_a_session(tmp_path: Path) -> None:
    env = {"HOME": None, "LANG": None, "ACP_AGENT_HOME": None, "PATH": None, "XDG_DATA_HOME": str(tmp_path / "data")}
    async with connected_agent(home=tmp_path, env=env, capabilities=AVANTE) as agent:
        result = await agent.request("session/new", {"cwd": str(tmp_path)})
        assert result["modes"]
        assert agent.stderr == ""
        assert (tmp_path / "data" / "acp-agent" / "sessions.db").exists()


async def test_a_session_that_is_closed_as_soon_as_it_is_loaded_leaves_no_connection(tmp_path: Path) -> None:
    async with stage(tmp_path, script=lambda _: Reply("Yes."), dialect="anthropic") as it:
        process, before = psutil.Process(it.agent.pid), 0
        for number in range(8):
            session = await it.agent.new_session(it.folder)
            await it.agent.prompt(session, "Hello", PATIENCE)
            await it.agent.request("session/close", {"sessionId": session})
            await it.agent.load(session, it.folder)
            await it.agent.request("session/close", {"sessionId": session})
            if number == 1:
                before = process.num_fds()
        assert process.num_fds() <= before + 2
