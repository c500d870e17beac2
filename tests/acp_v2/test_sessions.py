"""Sessions in version 2: resumed with and without their conversation, listed, closed and deleted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.client import AgentError
from support.models import Reply, model_server
from support.second import second_agent


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


async def test_the_models_of_several_providers_are_grouped_by_them(tmp_path: Path) -> None:
    async with model_server([]) as server:
        env = {**server.env("openai"), "ANTHROPIC_API_KEY": "a-key"}
        async with second_agent(home=tmp_path, env=env) as it:
            opened = await it.agent.request("session/new", {"cwd": str(tmp_path)})
            [model] = [option for option in opened["configOptions"] if option["configId"] == "model"]
            assert {group["groupId"] for group in model["options"]} == {"openai", "anthropic"}
            for group in model["options"]:
                assert all(value["value"].startswith(f"{group['groupId']}/") for value in group["options"])
            chosen = next(group["options"][0]["value"] for group in model["options"] if group["groupId"] == "anthropic")
            params = {"sessionId": opened["sessionId"], "configId": "model", "type": "id", "value": chosen}
            changed = await it.agent.request("session/set_config_option", params)
            assert [each["currentValue"] for each in changed["configOptions"] if each["configId"] == "model"] == [
                chosen
            ]


@pytest.mark.parametrize("replay", [True, False])
async def test_hooks_know_a_session_that_was_replayed_from_one_that_went_on(tmp_path: Path, replay: bool) -> None:
    hooks = tmp_path / "state" / "hooks"
    hooks.mkdir(parents=True, mode=0o700)
    (hooks / "rule.yaml").write_text("on: session_start\nwhen: {source: load}\nthen: {context: IT WAS REPLAYED}\n")
    async with (
        model_server([Reply("One."), Reply("Two.")]) as server,
        second_agent(home=tmp_path, env=server.env("openai")) as it,
    ):
        session = await it.open(tmp_path)
        await it.answer(session, "First")
        await it.agent.request("session/close", {"sessionId": session})
        await it.resume(session, tmp_path, replay=replay)
        await it.answer(session, "Second")
        assert "IT WAS REPLAYED" not in str(server.calls[0].body)
        assert ("IT WAS REPLAYED" in str(server.calls[1].body)) is replay
