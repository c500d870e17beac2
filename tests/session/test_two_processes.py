"""Two agents on one session: whoever comes second is not lost, and whoever was first learns of it."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import anyio
import pytest

from support.client import AgentError, AgentProcess, connected_agent
from support.compactions import messages, said, shown_compactions
from support.editors import ZED_BETA
from support.models import Reply, ToolCall, model_server
from support.second import second_agent
from support.stored import wait_logged

LONG = "The cart adds prices. " * 60


def titles(agent: AgentProcess, session: str, since: int = 0) -> list[str]:
    """The titles that it was told of."""
    told = agent.updates(session, "session_info_update", since=since)
    return [update["title"] for update in told if "title" in update]


async def test_an_idle_agent_goes_on_from_where_another_one_left_the_session(tmp_path: Path) -> None:
    script = [Reply(f"One. {LONG}"), Reply("# Goal\nCount."), Reply("Two."), Reply("Three.")]
    async with (
        model_server(script, "openai") as server,
        connected_agent(home=tmp_path, env=server.env(), capabilities=ZED_BETA) as first,
        connected_agent(home=tmp_path, env=server.env(), capabilities=ZED_BETA) as second,
    ):
        session = await first.new_session(tmp_path)
        await first.prompt(session, "One?")
        await second.resume(session, tmp_path)
        await second.prompt(session, "/compact")
        await second.prompt(session, "Two?")
        assert await first.prompt(session, "Three?") == {"stopReason": "end_turn"}
        summary, answer, question = messages(server.calls[3].body)
        assert "# Goal\nCount." in said(summary)
        assert said(summary).endswith("Two?")
        assert (said(answer), said(question)) == ("Two.", "Three?")


async def test_an_editor_is_told_of_settings_that_another_process_changed_before_its_next_turn_uses_them(
    tmp_path: Path,
) -> None:
    tasks = [{"content": "Look", "status": "completed"}]
    script = [Reply("One."), Reply(tool_calls=[ToolCall("plan", {"entries": tasks})]), Reply("Planned.")]
    script += [Reply(tool_calls=[ToolCall("shell", {"command": "touch made"})]), Reply("Done."), Reply("Again.")]
    async with (
        model_server(script, "openai") as server,
        connected_agent(home=tmp_path, env=server.env(), capabilities=ZED_BETA) as first,
        connected_agent(home=tmp_path, env=server.env(), capabilities=ZED_BETA) as second,
    ):
        session = await first.new_session(tmp_path)
        await first.prompt(session, "One?")
        await second.resume(session, tmp_path)
        await second.prompt(session, "Plan it")
        await second.set_mode(session, "full-access")
        await second.set_config_option(session, "thought_level", "low")
        await second.request("session/set_title", {"sessionId": session, "title": "Mine"})
        assert len(titles(first, session)) == 1
        heard = len(first.lines)
        assert await first.prompt(session, "Go on") == {"stopReason": "end_turn"}
        kinds = [line.update_kind for line in first.lines[heard:]]
        [mode] = first.updates(session, "current_mode_update", since=heard)
        assert mode["currentModeId"] == "full-access"
        assert kinds.index("current_mode_update") < kinds.index("tool_call")
        options = first.updates(session, "config_option_update", since=heard)[0]["configOptions"]
        current = {option["id"]: option["currentValue"] for option in options}
        assert (current["mode"], current["thought_level"]) == ("full-access", "low")
        assert titles(first, session, heard) == ["Mine"]
        [plan] = first.updates(session, "plan", since=heard)
        assert plan["entries"][0]["content"] == "Look"
        assert not first.desk.permissions
        # What it has been told, it is not told again.
        heard = len(first.lines)
        await first.prompt(session, "Once more")
        assert not titles(first, session, heard)
        told = {"current_mode_update", "config_option_update", "plan"}
        assert not told & {line.update_kind for line in first.lines[heard:]}


async def test_a_plan_that_another_process_made_waits_for_a_turn_since_editors_drop_it_outside_of_one(
    tmp_path: Path,
) -> None:
    tasks = [{"content": "Look", "status": "completed"}]
    plan = ToolCall("plan", {"entries": tasks})
    async with (
        model_server([Reply(tool_calls=[plan]), Reply("Planned."), Reply("One.")], "openai") as server,
        connected_agent(home=tmp_path, env=server.env(), capabilities=ZED_BETA) as first,
        connected_agent(home=tmp_path, env=server.env(), capabilities=ZED_BETA) as second,
    ):
        session = await first.new_session(tmp_path)
        await second.resume(session, tmp_path)
        await second.prompt(session, "Plan it")
        await second.set_mode(session, "plan")
        await first.set_config_option(session, "thought_level", "low")
        assert first.updates(session, "current_mode_update")[-1]["currentModeId"] == "plan"
        assert not first.updates(session, "plan")
        heard = len(first.lines)
        await first.prompt(session, "Go on")
        [shown] = first.updates(session, "plan", since=heard)
        assert shown["entries"][0]["content"] == "Look"


async def test_an_editor_of_version_2_is_told_of_what_another_process_changed_also_while_a_turn_runs(
    tmp_path: Path,
) -> None:
    hold = anyio.Event()
    replies = [Reply("One."), Reply(["I ", "work."], hold=hold, hold_after=1)]
    async with (
        model_server(replies) as server,
        second_agent(home=tmp_path, env=server.env("openai")) as first,
        connected_agent(home=tmp_path, env=server.env("openai"), capabilities=ZED_BETA) as second,
    ):
        session = await first.open(tmp_path)
        await first.answer(session, "One?")
        await second.resume(session, tmp_path)
        await second.set_mode(session, "full-access")
        heard = len(first.agent.lines)
        await first.say(session, "Go on")
        await server.wait_held()
        await second.request("session/set_title", {"sessionId": session, "title": "Theirs"})
        hold.set()
        await first.idle(session, since=heard)
        [told] = first.agent.updates(session, "config_option_update", since=heard)
        current = {option["configId"]: option.get("currentValue") for option in told["configOptions"]}
        assert current["mode"] == "full-access"
        assert titles(first.agent, session, heard) == ["Theirs"]


async def test_a_call_ends_once_whose_question_is_cancelled_in_a_turn_that_another_agent_overtook(
    tmp_path: Path,
) -> None:
    touch = ToolCall("shell", {"command": "touch made"})
    async with (
        model_server([Reply("I do.", tool_calls=[touch]), Reply("Two.")], "openai") as server,
        connected_agent(home=tmp_path, env=server.env(), capabilities=ZED_BETA) as first,
        connected_agent(home=tmp_path, env=server.env(), capabilities=ZED_BETA) as second,
    ):
        session = await first.new_session(tmp_path)
        first.permission_answer, first.permission_hold = "cancelled", anyio.Event()
        overtaken = await first.start_prompt(session, "One?")
        await first.wait_for(lambda line: line.method == "session/request_permission")
        await second.resume(session, tmp_path)
        await second.prompt(session, "Two?")
        for method, wanted in {
            "session/set_mode": {"modeId": "plan"},
            "session/set_config_option": {"configId": "mode", "value": "plan"},
            "session/set_title": {"title": "Mine"},
        }.items():
            with pytest.raises(AgentError, match="Cancel it and choose again; nothing was set"):
                await first.request(method, {"sessionId": session, **wanted})
        assert (await second.request("session/list", {}))["sessions"][0]["title"] == "One?"
        first.permission_hold.set()
        with pytest.raises(AgentError, match="Another process has worked on this session"):
            await overtaken.result()
        assert [update["status"] for update in first.updates(session, "tool_call_update")] == ["failed"]
        assert len(first.updates(session, "tool_call")) == 1


@pytest.mark.parametrize("over", [True, False])
async def test_a_prompt_that_waits_behind_an_overtaken_turn_is_kept_where_the_other_one_s_is_over(
    tmp_path: Path, over: bool
) -> None:
    holds = [anyio.Event(), anyio.Event()]
    script = [Reply(["It ", "is lost."], hold=holds[0], hold_after=1), Reply(["Tw", "o."], hold=holds[1], hold_after=1)]
    async with (
        model_server(script, "openai") as server,
        connected_agent(home=tmp_path, env=server.env(), capabilities=ZED_BETA) as first,
        connected_agent(home=tmp_path, env=server.env(), capabilities=ZED_BETA) as second,
    ):
        session = await first.new_session(tmp_path)
        await first.start_prompt(session, "One?")
        await server.wait_held()
        waiting = await first.start_prompt(session, "Later")
        await second.resume(session, tmp_path)
        taken_over = await second.start_prompt(session, "Two?")
        await server.wait_held(2)
        if over:
            holds[1].set()
            await taken_over.result()
        await first.request("session/close", {"sessionId": session})
        assert await waiting.result() == {"stopReason": "cancelled"}
        # In the middle of the other one's turn it would end that.
        holds[1].set()
        assert await taken_over.result() == {"stopReason": "end_turn"}
        heard = len(first.lines)
        await first.load(session, tmp_path)
        shown = [update["content"]["text"] for update in first.updates(session, "user_message_chunk", since=heard)]
        assert shown == (["One?", "Two?", "Later"] if over else ["One?", "Two?"])


@pytest.mark.parametrize("working", [False, True])
async def test_a_mode_that_is_chosen_holds_also_where_another_process_has_changed_it_and_the_menu_shows_it_still(
    tmp_path: Path, working: bool
) -> None:
    hold = anyio.Event()
    touch = ToolCall("shell", {"command": "touch made"})
    script = [Reply(["I ", "work."], tool_calls=[touch], hold=hold, hold_after=1), Reply("Done.")]
    async with (
        model_server(script, "openai") as server,
        connected_agent(home=tmp_path, env=server.env(), capabilities=ZED_BETA) as first,
        connected_agent(home=tmp_path, env=server.env(), capabilities=ZED_BETA) as second,
    ):
        session = await first.new_session(tmp_path)
        turn = await first.start_prompt(session, "Go on") if working else None
        if working:
            await server.wait_held()
        await second.resume(session, tmp_path)
        await second.set_mode(session, "full-access")
        assert not first.updates(session, "current_mode_update")
        await first.set_mode(session, "ask")
        hold.set()
        await (await first.start_prompt(session, "Go on") if turn is None else turn).result()
        assert [permission["toolCall"]["title"] for permission in first.desk.permissions] == ["touch made"]
        modes = [update["currentModeId"] for update in first.updates(session, "current_mode_update")]
        assert modes == ["full-access", "ask"]


async def test_a_turn_that_another_agent_overtook_ends_with_a_clear_error_and_nothing_is_lost(tmp_path: Path) -> None:
    hold = anyio.Event()
    script = [Reply(["It is ", "lost."], hold=hold, hold_after=1), Reply("Two."), Reply("Three.")]
    async with (
        model_server(script, "openai") as server,
        connected_agent(home=tmp_path, env=server.env(), capabilities=ZED_BETA) as first,
        connected_agent(home=tmp_path, env=server.env(), capabilities=ZED_BETA) as second,
    ):
        session = await first.new_session(tmp_path)
        overtaken = await first.start_prompt(session, "One?")
        await wait_logged(tmp_path, "partial_answer")
        await second.resume(session, tmp_path)
        await second.prompt(session, "Two?")
        hold.set()
        with pytest.raises(AgentError, match="Another process has worked on this session"):
            await overtaken.result()
        assert await first.prompt(session, "Three?") == {"stopReason": "end_turn"}
        texts = [said(message) for message in messages(server.calls[2].body)]
        assert texts == ["One?", "It is ", "Two?", "Two.", "Three?"]


async def test_a_compaction_that_another_agent_overtook_ends_once_and_changes_nothing(tmp_path: Path) -> None:
    hold = anyio.Event()
    script = [Reply(LONG), Reply(["# Goal", "\nCount."], hold=hold, hold_after=1), Reply("Two."), Reply("Three.")]
    async with (
        model_server(script, "openai") as server,
        connected_agent(home=tmp_path, env=server.env(), capabilities=ZED_BETA) as first,
        connected_agent(home=tmp_path, env=server.env(), capabilities=ZED_BETA) as second,
    ):
        session = await first.new_session(tmp_path)
        await first.prompt(session, "One?")
        overtaken = await first.start_prompt(session, "/compact")
        await server.wait_held()
        await second.resume(session, tmp_path)
        await second.prompt(session, "Two?")
        hold.set()
        with pytest.raises(AgentError, match="Another process has worked on this session"):
            await overtaken.result()
        [compaction] = shown_compactions(first)
        assert compaction.statuses == ["in_progress", "failed"]
        assert await first.prompt(session, "Three?") == {"stopReason": "end_turn"}
        assert [said(message) for message in messages(server.calls[3].body)] == ["One?", LONG, "Two?", "Two.", "Three?"]


async def test_a_call_of_an_overtaken_turn_does_not_run_and_does_not_stay_open_in_the_editor(tmp_path: Path) -> None:
    call = ToolCall("write", {"path": str(tmp_path / "new.txt"), "content": "x"})
    async with (
        model_server([Reply("I write.", tool_calls=[call]), Reply("Two."), Reply("Three.")], "openai") as server,
        connected_agent(home=tmp_path, env=server.env(), capabilities=ZED_BETA) as first,
        connected_agent(home=tmp_path, env=server.env(), capabilities=ZED_BETA) as second,
    ):
        session = await first.new_session(tmp_path)
        first.permission_hold = anyio.Event()
        overtaken = await first.start_prompt(session, "One?")
        await first.until(lambda: first.desk.permissions)
        await second.resume(session, tmp_path)
        await second.prompt(session, "Two?")
        first.permission_hold.set()
        with pytest.raises(AgentError, match="Another process has worked on this session"):
            await overtaken.result()
        assert not (tmp_path / "new.txt").exists()
        [announced] = first.updates(kind="tool_call")
        assert first.tool(announced["toolCallId"])["status"] == "failed"
        assert await first.prompt(session, "Three?") == {"stopReason": "end_turn"}


async def test_the_end_does_not_wait_long_for_a_process_that_has_locked_the_store_and_says_so_in_the_log(
    tmp_path: Path,
) -> None:
    async with (
        model_server([Reply(["It is ", "lost."], hold=anyio.Event(), hold_after=1)], "openai") as server,
        connected_agent(home=tmp_path, env=server.env(), capabilities=ZED_BETA) as agent,
    ):
        session = await agent.new_session(tmp_path)
        await agent.start_prompt(session, "One?")
        await wait_logged(tmp_path, "partial_answer")
        with closing(sqlite3.connect(tmp_path / "state" / "sessions.db", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            await agent.close_stdin()
            assert await agent.wait_exit(4) == 0
        assert "is locked by another process" in (tmp_path / "state" / "logs" / "acp-agent.log").read_text()
