"""Duties of an agent that no other test has for its own: each story proves several of
those in duties.yaml.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.client import AgentError
from support.memory import agent_in_memory, second_agent, stage
from support.replies import Reply, ToolCall
from support.stage import PATIENCE


async def test_what_the_agent_takes_beyond_the_protocol_is_told_in_the_meta_of_the_capability(
    tmp_path: Path,
) -> None:
    async with stage(tmp_path, Reply("Hello.")) as it:
        capabilities = it.agent.initialized["agentCapabilities"]
        [told] = [each for each in capabilities["sessionCapabilities"].values() if each]
        assert told is capabilities["sessionCapabilities"]["fork"]
        assert told == {"_meta": {"acp-agent": {"at": True, "messageId": True}}}
        await it.prompt("Hello")
        said = it.agent.updates(kind="agent_message_chunk")[-1]["messageId"]
        for point in ({"at": 2}, {"messageId": said}):
            params = {
                "sessionId": it.session,
                "cwd": str(it.folder),
                "_meta": {"acp-agent": point},
            }
            assert (await it.agent.request("session/fork", params))[
                "sessionId"
            ] != it.session
    async with second_agent(home=tmp_path / "second") as agent:
        assert agent.initialized["capabilities"]["session"]["fork"] == told


async def test_a_list_of_one_directory_has_its_sessions_alone_and_a_path_that_is_not_absolute_is_refused(
    tmp_path: Path,
) -> None:
    folders = [tmp_path / "shop", tmp_path / "shop" / "inner", tmp_path / "shop2"]
    async with stage(tmp_path, *(Reply("Hello."),) * 3) as it:
        agent = it.agent
        made: dict[str, str] = {}
        for folder in folders:
            folder.mkdir()
            made[str(folder)] = await agent.new_session(folder)
            await agent.prompt(made[str(folder)], "Hello", PATIENCE)
        for folder, session in made.items():
            listed = await agent.request("session/list", {"cwd": folder})
            assert [row["sessionId"] for row in listed["sessions"]] == [session]
            assert [row["cwd"] for row in listed["sessions"]] == [folder]
        with pytest.raises(AgentError) as error:
            await agent.request("session/list", {"cwd": "shop"})
        assert error.value.code == -32602


async def test_every_setting_has_a_value_from_the_start_and_all_are_told_whatever_is_set(
    tmp_path: Path,
) -> None:
    async with stage(tmp_path) as it:
        opened = it.agent.opened[it.session]["configOptions"]
        ids = [option["id"] for option in opened]
        assert ids == ["mode", "model", "thought_level", "auto_compaction"]
        chosen: dict[str, Any] = {}
        for option in opened:
            values = [choice["value"] for choice in option.get("options", [])] or [
                True,
                False,
            ]
            assert option["currentValue"] in values
            value = values[-1]
            kind = {"type": "boolean"} if isinstance(value, bool) else {}
            params = {
                "sessionId": it.session,
                "configId": option["id"],
                "value": value,
                **kind,
            }
            answer = await it.agent.request("session/set_config_option", params)
            chosen[option["id"]] = value
            current = {
                each["id"]: each["currentValue"] for each in answer["configOptions"]
            }
            assert [*current] == ids
            assert chosen.items() <= current.items()
        # The one without a category can be set like the others.
        assert [option.get("category") for option in opened][-1] is None


async def test_every_session_has_an_id_of_its_own(tmp_path: Path) -> None:
    ids: list[str] = []
    for _ in range(2):
        async with agent_in_memory(home=tmp_path) as agent:
            ids += [await agent.new_session(tmp_path) for _ in range(10)]
    assert len(set(ids)) == 20


async def test_a_terminal_whose_command_was_killed_is_shown_before_and_released_after(
    tmp_path: Path,
) -> None:
    late = ToolCall("shell", {"command": "echo begun; sleep 600", "timeout": 0.3})
    cancelled = ToolCall("shell", {"command": "sleep 600"})
    replies = (Reply(tool_calls=[late]), Reply(tool_calls=[cancelled]))
    async with stage(tmp_path, *replies, mode="full-access") as it:
        turn = await it.agent.start_prompt(it.session, "Work")
        await it.agent.wait_for(
            lambda line: (
                line.method == "terminal/wait_for_exit"
                and line.params.get("terminalId") == "term-2"
            ),
            PATIENCE,
        )
        await it.agent.cancel(it.session)
        assert await turn.result(PATIENCE) == {"stopReason": "cancelled"}
        first, second = it.agent.desk.terminals.values()
        assert first.killed
        for terminal in (first, second):
            [released] = [
                line.index
                for line in it.agent.lines
                if line.method == "terminal/release"
                and line.params.get("terminalId") == terminal.id
            ]
            shown = [
                line.index
                for line in it.agent.lines
                if terminal.id in str(line.update.get("content"))
            ]
            assert shown
            assert shown[0] < released
