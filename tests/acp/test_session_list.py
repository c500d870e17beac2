"""The list of sessions, and their end: list, close, delete."""

from __future__ import annotations

from pathlib import Path

import anyio

from support.client import AgentProcess, connected_agent
from support.replies import Reply, ToolCall
from support.stage import stage
from support.terminal import run_command


async def test_a_closed_session_can_be_loaded_again_and_shows_what_had_been_said(tmp_path: Path) -> None:
    async with stage(tmp_path, Reply(["Half ", "an answer"], hold=anyio.Event(), hold_after=1), Reply("Whole.")) as it:
        running = await it.agent.start_prompt(it.session, "Work")
        await it.update("agent_message_chunk")
        await it.agent.request("session/close", {"sessionId": it.session})
        await running.result()
        heard = len(it.agent.lines)
        await it.agent.load(it.session, it.folder)
        assert it.agent.text(since=heard) == "Half "
        assert await it.prompt("Go on") == {"stopReason": "end_turn"}


async def test_a_session_is_deleted_while_its_command_runs_and_nothing_is_left(tmp_path: Path) -> None:
    call = ToolCall("shell", {"command": "echo begun; sleep 600"})
    async with stage(tmp_path, Reply(tool_calls=[call]), mode="full-access", dialect="anthropic") as it:
        running = await it.agent.start_prompt(it.session, "Work")
        await it.agent.until(lambda: any("begun" in t.output for t in it.agent.desk.terminals.values()))
        await it.agent.request("session/delete", {"sessionId": it.session})
        assert await running.result() == {"stopReason": "cancelled"}
        assert all(terminal.released for terminal in it.agent.desk.terminals.values())
        assert (await it.agent.request("session/list", {}))["sessions"] == []


async def test_sessions_of_processes_that_run_at_a_time_all_stand_in_the_list(tmp_path: Path) -> None:
    async with connected_agent(home=tmp_path) as first, connected_agent(home=tmp_path) as second:
        made = [await agent.new_session(tmp_path) for agent in (first, second) for _ in range(3)]
        for number, session in enumerate(made):
            await first.request("session/set_title", {"sessionId": session, "title": f"Cart {number}"})
        for agent in (first, second):
            rows = (await agent.request("session/list", {}))["sessions"]
            assert {row["sessionId"] for row in rows} == set(made)


async def test_a_session_that_was_never_prompted_is_listed_while_it_is_open_and_can_be_opened_again(
    tmp_path: Path,
) -> None:
    async def listed(agent: AgentProcess) -> set[str]:
        return {row["sessionId"] for row in (await agent.request("session/list", {}))["sessions"]}

    async with stage(tmp_path, Reply("Yes."), Reply("Yes.")) as it:
        await it.prompt("Hello")
        empty = await it.agent.new_session(it.folder)
        await it.agent.set_mode(empty, "plan")
        assert await listed(it.agent) == {it.session, empty}
        async with it.restarted() as second:
            assert await listed(second.agent) == {it.session}
            await second.agent.load(empty, it.folder)
            assert await listed(second.agent) == {it.session, empty}
        await it.agent.request("session/close", {"sessionId": empty})
        assert await listed(it.agent) == {it.session}
        assert (await run_command(tmp_path / "home", "sessions")).out.count("sess_") == 1
        await it.agent.load(empty, it.folder)
        assert await it.agent.prompt(empty, "And now?") == {"stopReason": "end_turn"}
        await it.agent.request("session/close", {"sessionId": empty})
        assert await listed(it.agent) == {it.session, empty}
