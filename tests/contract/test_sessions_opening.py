"""Opening a session: new, load and resume, what they answer, and in which order things come."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.client import AgentError, AgentProcess, connected_agent
from support.editors import BARE, CODECOMPANION, TOAD, ZED_BETA, Editor
from support.models import model_server
from support.replies import Reply
from support.stage import stage

EDITORS = {"beta": ZED_BETA, "codecompanion": CODECOMPANION, "toad": TOAD}
META = {"_meta": {"claudeCode": {"options": [1, None]}, "terminal-auth": True, "": {}}}


async def commands_follow(agent: AgentProcess, method: str) -> list[str]:
    """Wait for the commands behind the last response to this method, before which there may be none."""
    responses = [line for line in agent.lines if line.label == f"response {method}"]
    update = await agent.wait_update("available_commands_update", since=responses[-1].index)
    return [command["name"] for command in update["availableCommands"]]


@pytest.mark.parametrize("editor", EDITORS.values(), ids=EDITORS)
async def test_the_commands_come_after_the_response_of_new_load_and_resume(tmp_path: Path, editor: Editor) -> None:
    async with connected_agent(home=tmp_path, capabilities=editor) as agent:
        session = await agent.new_session(tmp_path)
        assert "compact" in await commands_follow(agent, "session/new")
        opened = len(agent.lines)
        await agent.load(session, tmp_path)
        assert "compact" in await commands_follow(agent, "session/load")
        await agent.resume(session, tmp_path)
        assert "compact" in await commands_follow(agent, "session/resume")
        labels = agent.methods_between(0)
        assert labels[:3] == ["response initialize", "response session/new", "available_commands_update"]
        assert agent.methods_between(opened) == [
            "response session/load",
            "available_commands_update",
            "response session/resume",
            "available_commands_update",
        ]


async def test_load_replays_before_its_response_and_resume_replays_nothing(tmp_path: Path) -> None:
    async with stage(tmp_path, Reply("Hello.", thinking="Greet.")) as it:
        await it.prompt("Say hello")
        async with it.restarted() as later:
            agent = later.agent
            assert isinstance(await agent.load(it.session, it.folder), dict)
            labels = [label for label in agent.methods_between(1) if label.endswith("_chunk") or "load" in label]
            assert labels == [
                "user_message_chunk",
                "agent_thought_chunk",
                "agent_message_chunk",
                "response session/load",
            ]
            assert (agent.text("user_message_chunk"), agent.text()) == ("Say hello", "Hello.")
            heard = len(agent.lines)
            assert isinstance(await agent.resume(it.session, it.folder), dict)
            await commands_follow(agent, "session/resume")
            assert not [label for label in agent.methods_between(heard) if label.endswith("_chunk")]


async def test_a_message_has_the_same_id_live_and_in_every_replay(tmp_path: Path) -> None:
    async with stage(tmp_path, Reply(["Hel", "lo"], hold_after=1), Reply("Again.")) as it:
        await it.prompt("First")
        await it.prompt("Second")
        live = it.agent.texts()
        assert list(live.values()) == ["Hello", "Again."]
        async with it.restarted() as later:
            for _ in range(2):
                heard = len(later.agent.lines)
                await later.agent.load(it.session, it.folder)
                assert later.agent.texts(since=heard) == live


async def test_an_unknown_session_is_resource_not_found_and_a_new_one_can_be_made(tmp_path: Path) -> None:
    async with connected_agent(home=tmp_path) as agent:
        for method in ("session/load", "session/resume"):
            with pytest.raises(AgentError, match="sess_unknown") as error:
                await agent.request(method, {"sessionId": "sess_unknown", "cwd": str(tmp_path), "mcpServers": []})
            assert error.value.code == -32002
            assert error.value.data == {"sessionId": "sess_unknown"}
        await agent.new_session(tmp_path)


@pytest.mark.process
async def test_an_empty_session_survives_a_kill_right_after_the_response(tmp_path: Path) -> None:
    async with connected_agent(home=tmp_path) as agent:
        session = await agent.new_session(tmp_path)
        agent.kill()
        await agent.wait_exit()
        agent.problems.clear()
    async with model_server([Reply("Hello.")]) as server, connected_agent(home=tmp_path, env=server.env()) as agent:
        await agent.resume(session, tmp_path)
        # It is in no list before its first prompt.
        assert (await agent.request("session/list", {}))["sessions"] == []
        assert await agent.prompt(session, "Hi") == {"stopReason": "end_turn"}
        listed = (await agent.request("session/list", {}))["sessions"]
        assert [(row["sessionId"], row["cwd"]) for row in listed] == [(session, str(tmp_path))]
        # The id stays what the editor was told.
        assert {line.params["sessionId"] for line in agent.lines if line.update} == {session}


async def test_unknown_meta_and_unknown_members_are_ignored_on_every_request(tmp_path: Path) -> None:
    more = {**META, "unknownMember": {"x": 1}}
    async with stage(tmp_path, Reply("Hello.")) as it:
        agent, of_session = it.agent, {"sessionId": it.session, **more}
        opening = {"cwd": str(it.folder), "mcpServers": [], **more}
        await agent.initialize(**more)
        await agent.request("authenticate", {"methodId": "api-key", **more})
        await agent.request("session/new", opening)
        await agent.request("session/load", {**of_session, **opening})
        await agent.request("session/resume", {**of_session, **opening})
        await agent.request("session/list", more)
        await agent.request("session/set_mode", {**of_session, "modeId": "plan"})
        await agent.request("session/set_config_option", {**of_session, "configId": "mode", "value": "ask"})
        text = {"type": "text", "text": "Hi", "annotations": None, **more}
        await agent.request("session/prompt", {**of_session, "prompt": [text]})
        await agent.notify("session/cancel", of_session)
        await agent.request("session/close", of_session)
        await agent.request("session/delete", of_session)


async def test_a_session_is_refused_in_a_relative_missing_or_absent_directory(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    async with connected_agent(home=tmp_path / "home") as agent:
        for cwd in ("project", ".", "", str(tmp_path / "gone"), str(file), 7, None):
            with pytest.raises(AgentError, match="cwd") as error:
                await agent.request("session/new", {"cwd": cwd, "mcpServers": []})
            assert error.value.code == -32602
        with pytest.raises(AgentError, match="cwd") as error:
            await agent.request("session/new", {"mcpServers": []})
        assert error.value.code == -32602
        assert (await agent.request("session/list", {}))["sessions"] == []
        session = await agent.new_session(tmp_path)
        for method in ("session/load", "session/resume"):
            with pytest.raises(AgentError, match="absolute") as error:
                await agent.request(method, {"sessionId": session, "cwd": "project", "mcpServers": []})
            assert error.value.code == -32602


async def test_additional_directories_belong_to_the_session_and_stand_in_the_list(tmp_path: Path) -> None:
    more = tmp_path / "more"
    more.mkdir()
    async with connected_agent(home=tmp_path / "home", capabilities=BARE) as agent:
        session = await agent.new_session(tmp_path, additionalDirectories=[str(more)])
        await agent.request("session/set_title", {"sessionId": session, "title": "A session"})
        [row] = (await agent.request("session/list", {}))["sessions"]
        assert (row["sessionId"], row["additionalDirectories"]) == (session, [str(more)])
        with pytest.raises(AgentError, match="absolute") as error:
            await agent.new_session(tmp_path, additionalDirectories=["more"])
        assert error.value.code == -32602


async def test_two_sessions_of_one_process_do_not_mix(tmp_path: Path) -> None:
    async with stage(
        tmp_path, script=lambda body: Reply(f"You said: {body['messages'][-1]['content']!r}"), dialect="anthropic"
    ) as it:
        other = await it.agent.new_session(it.folder)
        assert other != it.session
        first = await it.agent.start_prompt(it.session, "apple")
        second = await it.agent.start_prompt(other, "banana")
        assert (await first.result(), await second.result()) == ({"stopReason": "end_turn"},) * 2
        assert "apple" in it.agent.text(session_id=it.session)
        assert "apple" not in it.agent.text(session_id=other)
        assert "banana" in it.agent.text(session_id=other)
