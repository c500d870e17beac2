"""Several clients of one agent: each has its own connection, and nothing of another's."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

from support.client import AgentError, AgentProcess, connected_agent
from support.editors import ZED_BETA
from support.models import Reply, ToolCall
from support.questions import accepted
from support.remote import serving, site
from support.second import SecondEditor, second_agent
from support.stage import PATIENCE, conversation, results
from support.terminal import run_command

LONG = "x" * 60_000
ASK = ToolCall("ask_user", {"questions": [{"question": "Which?", "options": [{"label": "One"}, {"label": "Two"}]}]})


async def test_a_title_that_one_client_gives_is_told_to_all_that_have_the_session_open(tmp_path: Path) -> None:
    async with site(tmp_path, Reply("One.")) as it, it.client() as one, it.client() as other:
        session = await it.opened(one)
        await one.prompt(session, "First", PATIENCE)
        # By one that does not have it open, and by one that does.
        for number in (1, 2):
            title = f"Cart {number}"
            assert await other.request("session/set_title", {"sessionId": session, "title": title})
            await one.wait_update("session_info_update", session, title=title)
            await other.load(session, it.folder)
        await one.request("session/set_title", {"sessionId": session, "title": "Basket"})
        await other.wait_update("session_info_update", session, title="Basket")
        told = [update["title"] for update in one.updates(session, "session_info_update") if "title" in update]
        assert told[-3:] == ["Cart 1", "Cart 2", "Basket"]


async def test_a_question_is_answered_on_the_connection_that_it_was_asked_on_and_on_no_other(tmp_path: Path) -> None:
    async with site(tmp_path, Reply(tool_calls=[ASK]), Reply("Done.")) as it:
        editor: dict[str, Any] = {"capabilities": ZED_BETA}
        async with it.client(**editor) as one, it.client(validate=False, laws=False, **editor) as other:
            answered = anyio.Event()

            async def later(params: Mapping[str, Any]) -> Any:
                await answered.wait()
                return accepted(answer_1="Two")

            one.handlers["elicitation/create"] = later
            session = await it.opened(one)
            turn = await one.start_prompt(session, "Ask")
            asked = await one.wait_for(lambda line: line.method == "elicitation/create", PATIENCE)
            wrong = {"jsonrpc": "2.0", "id": asked.message["id"], "result": accepted(answer_1="One")}
            await other.send_line(json.dumps(wrong).encode())
            assert await other.request("session/list", {})
            answered.set()
            assert await turn.result(PATIENCE) == {"stopReason": "end_turn"}
        [result] = results(it.server.calls[1].body)
        assert result.text.endswith("→ Two")


async def test_a_session_of_another_client_is_known_to_be_open_and_ends_where_it_is_put_away(tmp_path: Path) -> None:
    async def status(of: AgentProcess, session: str) -> str:
        return (await of.request("session/status", {"sessionId": session}))["status"]

    holds = [anyio.Event() for _ in range(3)]
    replies = [Reply(["Begun", "."], hold=hold, hold_after=1) for hold in holds]
    async with site(tmp_path, *replies) as it, it.client() as one, it.client() as other:
        for count, method in enumerate(("session/archive", "session/close", "session/delete"), 1):
            session = await it.opened(one)
            turn = await one.start_prompt(session, "Begin")
            await it.server.wait_held(count, PATIENCE)
            assert (await status(one, session), await status(other, session)) == ("open", "open")
            assert await other.request(method, {"sessionId": session}) == {}
            assert await turn.result(PATIENCE) == {"stopReason": "cancelled"}
            if method != "session/delete":
                assert (await status(one, session), await status(other, session)) == ("saved", "saved")
            with pytest.raises(AgentError) as error:
                await one.prompt(session, "Go on", PATIENCE)
            assert error.value.code == -32002
        # Who has it open as well closes no more than that.
        session = await it.opened(one)
        await other.load(session, it.folder)
        await other.request("session/close", {"sessionId": session})
        assert await status(other, session) == "open"
        await one.request("session/close", {"sessionId": session})
        assert await status(other, session) == "saved"
        # One that is gone has nothing open.
        async with it.client() as guest:
            session = await it.opened(guest)
            assert await status(one, session) == "open"
        with anyio.fail_after(5):
            while await status(one, session) == "open":  # noqa: ASYNC110 - nobody tells it
                await anyio.sleep(0.02)


async def test_a_client_that_does_not_read_stops_its_own_turns_alone(tmp_path: Path) -> None:
    def answer(body: dict[str, Any]) -> Reply:
        flood = conversation(body)[-1][1] == "Flood"
        return Reply([LONG * 4] * 150) if flood else Reply("Quick.")

    async with site(tmp_path, script=answer) as it, it.client() as slow, it.client() as quick:
        sessions = await it.opened(slow), await it.opened(quick)
        slow.stop_reading()
        turn = await slow.start_prompt(sessions[0], "Flood")
        with pytest.raises(TimeoutError):  # more is said than all that is between the model and the editor can hold
            await it.server.wait_finished(timeout=2)
        assert await quick.prompt(sessions[1], "Hello", PATIENCE) == {"stopReason": "end_turn"}
        await slow.cancel(sessions[0])
        slow.go_on_reading()
        assert await turn.result(PATIENCE) == {"stopReason": "cancelled"}


async def test_a_client_that_does_not_read_keeps_the_agent_from_ending_no_longer_than_others(tmp_path: Path) -> None:
    async with site(tmp_path, Reply([LONG * 4] * 150)) as it, it.client(laws=False) as slow:
        session = await it.opened(slow)
        slow.stop_reading()
        await slow.start_prompt(session, "Flood")
        with pytest.raises(TimeoutError):
            await it.server.wait_finished(timeout=3)
        it.served.terminate()
        with anyio.fail_after(8):
            await anyio.to_thread.run_sync(it.served.process.wait, abandon_on_cancel=True)
        slow.go_on_reading()
        await slow.wait_exit(8)
        slow.problems.clear()


async def test_sigterm_ends_the_turns_of_all_clients_and_the_history_is_kept(tmp_path: Path) -> None:
    sleep = ToolCall("shell", {"command": "echo begun; sleep 600; :"})
    replies = [Reply("Here.", tool_calls=[sleep]), Reply("There.", tool_calls=[sleep])]
    async with site(tmp_path, *replies) as it:
        gone: dict[str, Any] = {"laws": False}
        async with it.client(**gone) as one, it.client(**gone) as other:
            sessions = await it.opened(one, "full-access"), await it.opened(other, "full-access")
            for agent, session in zip((one, other), sessions, strict=True):
                await agent.start_prompt(session, "Wait")
                await agent.wait_for(lambda line: "begun" in str(line.update.get("content")), PATIENCE)
            it.served.terminate()
            for agent in (one, other):
                await agent.wait_exit(8)
                agent.problems.clear()
    assert (await run_command(it.home, "sessions")).out.count("sess_") == 2
    async with serving(it.home) as again, connected_agent(home=tmp_path / "editor", argv=again.argv()) as agent:
        texts = set()
        for session in sessions:
            await agent.load(session, it.folder)
            texts.add(agent.text(session_id=session))
        assert texts == {"Here.", "There."}


async def test_each_connection_is_recorded_by_itself(tmp_path: Path) -> None:
    env = {"ACP_AGENT_WIRE": "1"}
    async with site(tmp_path, env=env) as it, it.client() as one, it.client() as other:
        sessions = [await it.opened(one), await it.opened(other)]
    recordings = sorted((it.home / "state" / "wire").iterdir())
    assert len(recordings) == 2
    for session in sessions:
        [recorded] = [path.read_text() for path in recordings if session in path.read_text()]
        assert '"initialize"' in recorded
        shown = (await run_command(it.home, "wire", session)).out
        assert "→ session/new" in shown


async def test_a_session_s_state_is_who_asks_s_own_and_for_others_that_of_who_opened_it_last(tmp_path: Path) -> None:
    async def state(of: SecondEditor) -> str:
        return (await of.agent.request("session/status", {"sessionId": session}))["state"]["state"]

    hold = anyio.Event()
    async with site(tmp_path, Reply(["Work", "ing."], hold=hold, hold_after=1)) as it:
        argv, home = it.served.argv(), tmp_path / "editor"
        async with (
            second_agent(home=home, argv=argv) as first,
            second_agent(home=home, argv=argv) as other,
            second_agent(home=home, argv=argv) as guest,
        ):
            session = await first.open(it.folder)
            await other.resume(session, it.folder)
            await other.say(session, "Work")
            await it.server.wait_held(1, PATIENCE)
            assert [await state(each) for each in (first, other, guest)] == ["idle", "running", "running"]
            await first.resume(session, it.folder)
            assert [await state(each) for each in (first, other, guest)] == ["idle", "running", "idle"]
            await first.agent.request("session/close", {"sessionId": session})
            assert await state(guest) == "running"
            hold.set()
            await other.idle(session)
