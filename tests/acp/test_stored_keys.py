"""A session where the file of stored keys cannot be read, and where nobody is told of a session that was made."""

from __future__ import annotations

import json
from pathlib import Path

import anyio
import pytest

from support.client import AgentError, AgentProcess, connected_agent
from support.http_server import Exchange, http_server
from support.models import Reply, model_server
from support.second import second_agent
from support.stage import PATIENCE
from support.terminal import run_command

KEYLESS = {"OPENAI_API_KEY": None}


def broken_keys(home: Path) -> None:
    """What `acp-agent login` has stored, spoiled."""
    (home / "state").mkdir(mode=0o700, exist_ok=True)
    (home / "state" / "keys.json").write_text("{nope")


async def test_a_key_of_the_environment_is_used_though_the_stored_ones_cannot_be_read(tmp_path: Path) -> None:
    broken_keys(tmp_path)
    async with (
        model_server([Reply("One."), Reply("Two."), Reply("Three.")], "openai") as server,
        connected_agent(home=tmp_path, env=server.env()) as agent,
    ):
        session = await agent.new_session(tmp_path)
        assert await agent.prompt(session, "Hello", PATIENCE) == {"stopReason": "end_turn"}
        await agent.load(session, tmp_path)
        assert await agent.prompt(session, "Again", PATIENCE) == {"stopReason": "end_turn"}
        await agent.resume(session, tmp_path)
        assert await agent.prompt(session, "Once more", PATIENCE) == {"stopReason": "end_turn"}


async def test_version_2_opens_a_session_though_the_stored_keys_cannot_be_read(tmp_path: Path) -> None:
    broken_keys(tmp_path)
    async with (
        model_server([Reply("One.")], "openai") as server,
        second_agent(home=tmp_path, env=server.env()) as editor,
    ):
        session = await editor.open(tmp_path)
        await editor.say(session, "Hello")
        assert (await editor.idle(session))["stopReason"] == "end_turn"


@pytest.mark.parametrize("model", ["", "openai/gpt-test"])
async def test_a_prompt_that_needs_a_stored_key_says_that_it_cannot_be_read(tmp_path: Path, model: str) -> None:
    broken_keys(tmp_path)
    async with (
        model_server([], "openai") as server,
        connected_agent(home=tmp_path, env=server.env() | KEYLESS | {"ACP_AGENT_MODEL": model}) as agent,
    ):
        session = await agent.new_session(tmp_path)
        with pytest.raises(AgentError, match=r"keys\.json.*cannot be understood.*acp-agent login"):
            await agent.prompt(session, "Hello", PATIENCE)


async def test_a_server_that_wants_no_key_is_asked_though_the_stored_ones_cannot_be_read(tmp_path: Path) -> None:
    broken_keys(tmp_path)
    async with model_server([Reply("Hi.")], "ollama") as server:
        server.write_config(tmp_path)
        async with connected_agent(home=tmp_path, env=server.env()) as agent:
            session = await agent.new_session(tmp_path)
            assert await agent.prompt(session, "Hello", PATIENCE) == {"stopReason": "end_turn"}


async def test_the_doctor_says_what_is_wrong_with_the_stored_keys(tmp_path: Path) -> None:
    broken_keys(tmp_path)
    async with model_server([], "openai") as server:
        ran = await run_command(tmp_path, "doctor", "--offline", env=server.env())
    assert "keys.json: cannot be understood" in ran.out
    assert "failed inside" not in ran.out


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
            async with connected_agent(home=tmp_path) as agent:
                told = await taken_back(agent, tmp_path, probed)
                made = await agent.new_session(tmp_path)
                told |= {made, *await taken_back(agent, tmp_path, probed, made)}
                listed = await agent.request("session/list", {})
        else:
            async with second_agent(home=tmp_path) as editor:
                told = await taken_back(editor.agent, tmp_path, probed)
                listed = await editor.agent.request("session/list", {})
    assert {each["sessionId"] for each in listed["sessions"]} == told
