"""Sessions in version 2: resumed with and without their conversation, listed, closed and deleted."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from support.client import AgentError, connected_agent
from support.models import Reply, ToolCall, model_server
from support.second import second_agent

SUMMARY = "## Goal\nThe greeting was said. The price of every article is counted in whole cents."


@pytest.mark.process
async def test_a_conversation_is_replayed_as_it_was_shown_and_shows_nothing_twice(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n")
    edit = ToolCall("edit", {"path": "a.txt", "edits": [{"old_text": "one", "new_text": "two"}]})
    tasks = [{"content": "Look", "status": "completed"}]
    calls = [ToolCall("read", {"path": "a.txt"}), edit, ToolCall("shell", {"command": "echo hello"})]
    replies = [
        Reply("I look.", thinking="Where?", tool_calls=[ToolCall("plan", {"entries": tasks})]),
        Reply(tool_calls=calls),
        Reply("Done. " * 400),
        Reply(SUMMARY),
        Reply("Two."),
    ]
    async with model_server(replies) as server:
        env = server.env("openai")
        async with second_agent(home=tmp_path, env=env) as it:
            session = await it.open(tmp_path)
            await it.answer(session, "Go on")
            await it.answer(session, "/compact")
            live, shown = it.messages(), it.calls()
            [done] = [each for each in it.agent.updates(kind="compaction_update") if each["status"] == "completed"]
            it.agent.kill()
            it.agent.problems.clear()
            await it.agent.wait_exit()
            it.agent.problems.clear()

        async with second_agent(home=tmp_path, env=env) as it:
            since = len(it.agent.lines)
            opened = await it.resume(session, tmp_path, replay=True)
            assert {option["configId"] for option in opened["configOptions"]} >= {"mode", "model"}
            # all of it came before the answer, and the state last
            before = [line.update_kind for line in it.agent.lines[since:]]
            before = before[: before.index("")]
            assert before[-1] == "state_update"
            assert it.states(session) == ["idle"]
            assert it.messages() == live
            assert set(it.calls()) == set(shown)
            for id, call in it.calls().items():
                assert (call["name"], call["status"]) == (shown[id]["name"], shown[id]["status"])
            [patch] = [call["content"] for call in it.calls().values() if call["name"] == "edit"]
            assert patch == next(call["content"] for call in shown.values() if call["name"] == "edit")
            [again] = it.agent.updates(kind="compaction_update")
            assert (again["compactionId"], again["summary"]) == (done["compactionId"], done["summary"])
            assert it.agent.updates(kind="plan_update")[-1]["plan"]["entries"][0]["content"] == "Look"
            assert not it.terminals()

            # who has it on the screen, has it there once after another replay
            await it.resume(session, tmp_path, replay=True)
            assert it.messages() == live
            await it.answer(session, "What is in it?")
            assert it.text()[-1] == "Two."


async def test_a_session_is_resumed_without_its_conversation(tmp_path: Path) -> None:
    replies = [Reply("Hi."), Reply("Yes.")]
    async with model_server(replies) as server, second_agent(home=tmp_path, env=server.env("openai")) as it:
        session = await it.open(tmp_path)
        await it.answer(session, "Hello")
        since = len(it.agent.lines)
        await it.resume(session, tmp_path, additionalDirectories=[str(tmp_path)])
        await it.agent.wait_update("usage_update", session, since=since)
        assert it.messages(since=since) == {}
        assert it.states(session, since=since) == ["idle"]
        kinds = {line.update_kind for line in it.agent.lines[since:]} - {""}
        assert kinds == {"state_update", "available_commands_update", "session_info_update", "usage_update"}
        await it.answer(session, "Still there?")
        assert "Hello" in str(server.calls[-1].body)


async def test_a_session_of_one_version_is_opened_in_the_other(tmp_path: Path) -> None:
    async with model_server([Reply("One."), Reply("Two.")]) as server:
        env = server.env("openai")
        async with connected_agent(home=tmp_path, env=env) as agent:
            session = await agent.new_session(tmp_path)
            await agent.prompt(session, "First")
        async with second_agent(home=tmp_path, env=env) as it:
            await it.resume(session, tmp_path, replay=True)
            assert (it.text("user_message"), it.text()) == (["First"], ["One."])
            await it.answer(session, "Second")
        async with connected_agent(home=tmp_path, env=env) as agent:
            await agent.load(session, tmp_path)
            assert list(agent.texts().values()) == ["One.", "Two."]


async def test_closing_ends_the_work_before_it_is_answered_and_may_be_done_twice(tmp_path: Path) -> None:
    never = anyio.Event()
    replies = [Reply(["One", "."], hold=never, hold_after=1)]
    async with model_server(replies) as server, second_agent(home=tmp_path, env=server.env("openai")) as it:
        session = await it.open(tmp_path)
        await it.say(session, "Hello")
        await it.agent.wait_update("agent_message_chunk")
        assert await it.agent.request("session/close", {"sessionId": session}) == {}
        *_, last, answer = it.agent.lines
        assert (last.update.get("state"), last.update.get("stopReason")) == ("idle", "cancelled")
        assert answer.label == "response session/close"
        for known in (session, "sess_none"):
            assert await it.agent.request("session/close", {"sessionId": known}) == {}
        with pytest.raises(AgentError) as error:
            await it.say(session, "Hello?")
        assert (error.value.code, error.value.data["sessionId"]) == (-32002, session)
        assert it.agent.lines[-1].kind == "error"


async def test_sessions_are_listed_and_deleted(tmp_path: Path) -> None:
    async with model_server([Reply("Hi.")]) as server, second_agent(home=tmp_path, env=server.env("openai")) as it:
        session = await it.open(tmp_path)
        await it.answer(session, "Hello")
        [row] = (await it.agent.request("session/list", {"cwd": str(tmp_path)}))["sessions"]
        assert (row["sessionId"], row["title"]) == (session, "Hello")
        await it.agent.request("session/delete", {"sessionId": session})
        assert await it.agent.request("session/list", {}) == {"sessions": []}
        with pytest.raises(AgentError) as error:
            await it.resume(session, tmp_path)
        assert (error.value.code, error.value.data["sessionId"]) == (-32002, session)
