"""What a person does with sessions beside talking: fork, rename, archive, and ask whether one is open."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio
import pytest

from support.client import AgentError, AgentProcess
from support.models import Reply, ToolCall
from support.stage import conversation, stage
from support.terminal import run_command

ASK = "session/request_permission"
WRITE = ToolCall("write", {"path": "made.txt", "content": "made\n"})


async def fork(agent: AgentProcess, session: str, folder: Path, **meta: Any) -> str:
    """The id of a fork."""
    params: dict[str, Any] = {"sessionId": session, "cwd": str(folder), "mcpServers": []}
    if meta:
        params["_meta"] = {"acp-agent": meta, "somebody-else": [1]}
    return (await agent.request("session/fork", params))["sessionId"]


async def titles(agent: AgentProcess, **params: Any) -> dict[str, str | None]:
    """Title by id, as one page of the list has them; what is archived has a star before it."""
    rows = (await agent.request("session/list", params))["sessions"]
    return {row["sessionId"]: ("*" if row["archived"] else "") + str(row.get("title")) for row in rows}


async def test_a_fork_goes_on_with_history_pins_and_mode_and_asks_anew_for_what_was_allowed(tmp_path: Path) -> None:
    replies = [Reply(tool_calls=[WRITE]), Reply("Made." + " In detail." * 9000), Reply("A summary of it.")]
    replies += [Reply(tool_calls=[ToolCall("write", {"path": "b.txt", "content": "b"})]), Reply("Made again.")]
    async with stage(tmp_path, *replies, config={"remember_permissions": "session"}) as it:
        it.agent.permission_answer = "allow_always"
        await it.prompt("Make the file")
        await it.prompt("/pin Prices are cents.")
        assert await it.prompt("/compact") == {"stopReason": "end_turn"}
        heard = len(it.agent.lines)
        made = await fork(it.agent, it.session, it.folder)
        assert made != it.session
        await it.agent.wait_update("available_commands_update", since=heard, timeout=30)
        assert await it.agent.request("session/delete", {"sessionId": it.session}) == {}
        async with it.restarted() as later:
            heard = len(later.agent.lines)
            await later.agent.load(made, it.folder)
            assert "Made." in later.agent.text(since=heard)
            later.agent.permission_answer = "allow_once"
            assert await later.agent.prompt(made, "Once more", 30) == {"stopReason": "end_turn"}
            request = str(conversation(it.server.calls[-1].body))
            assert "Prices are cents." in request
            assert "A summary of it." in request
            asked = [len([line for line in agent.lines if line.method == ASK]) for agent in (it.agent, later.agent)]
            assert asked == [1, 1]


async def test_a_fork_ends_at_an_entry_or_a_message_while_the_other_session_works(tmp_path: Path) -> None:
    replies = [Reply(tool_calls=[ToolCall("read", {"path": "a.txt"})]), Reply("I have read it."), Reply("Second.")]
    replies += [Reply(["Thi", "rd."], hold=anyio.Event(), hold_after=1), Reply("Forked.")]
    async with stage(tmp_path, *replies) as it:
        await it.prompt("Read it")
        await it.prompt("And now?")
        running = await it.agent.start_prompt(it.session, "Work on")
        await it.held()
        answer = next(each for each in it.agent.updates(kind="agent_message_chunk") if each["content"]["text"])
        at_message = await fork(it.agent, it.session, it.folder, messageId=answer["messageId"])
        heard = len(it.agent.lines)
        await it.agent.load(at_message, it.folder)
        assert it.agent.text(since=heard) == "I have read it."
        first = (await it.agent.request("session/fork", {"sessionId": at_message, "cwd": str(it.folder)}))["sessionId"]
        for point in ({"at": 0}, {"at": 9999}, {"messageId": "msg_none"}, {"at": True}, {"at": 1, "messageId": "x"}):
            with pytest.raises(AgentError) as error:
                await fork(it.agent, it.session, it.folder, **point)
            assert error.value.code == -32602, point
        for params in ({"cwd": "here"}, {"cwd": str(it.folder / "gone")}):
            with pytest.raises(AgentError, match="cwd") as error:
                await it.agent.request("session/fork", {"sessionId": it.session, **params})
            assert error.value.code == -32602
        with pytest.raises(AgentError) as error:
            await fork(it.agent, "sess_none", it.folder)
        assert error.value.code == -32002
        await it.agent.cancel(it.session)
        assert await running.result() == {"stopReason": "cancelled"}
        assert await it.agent.prompt(first, "Go on", 30) == {"stopReason": "end_turn"}
        request = conversation(it.server.calls[-1].body)
        assert [text for role, text in request if role == "user" and text] == ["Read it", "Go on"]
        # In a terminal, from an entry; what it prints is the id alone.
        ran = await run_command(it.home, "sessions", "fork", it.session, "--at", "3")
        assert ran.code == 0
        heard = len(it.agent.lines)
        await it.agent.load(ran.out.strip(), it.folder)
        assert it.agent.text(since=heard) == ""
        assert [update["content"]["text"] for update in it.agent.updates(kind="user_message_chunk", since=heard)] == [
            "Read it"
        ]


async def test_a_fork_at_an_answer_has_what_came_of_its_calls_and_the_end_of_its_turn(tmp_path: Path) -> None:
    looking = Reply("I look.", tool_calls=[ToolCall("read", {"path": "a.txt"})])
    async with stage(tmp_path, looking, Reply("Done."), Reply("Later."), Reply("Forked.")) as it:
        await it.prompt("Read it")
        await it.prompt("And now?")
        ids = {each["content"]["text"]: each["messageId"] for each in it.agent.updates(kind="agent_message_chunk")}
        looked = await fork(it.agent, it.session, it.folder, messageId=ids["I look."])
        ended = await fork(it.agent, it.session, it.folder, messageId=ids["Done."])
        for session in (looked, ended):
            heard = len(it.agent.lines)
            await it.agent.load(session, it.folder)
            [call] = it.agent.updates(session, "tool_call", since=heard)
            assert call["status"] == "completed"
        assert await it.agent.prompt(looked, "Go on") == {"stopReason": "end_turn"}
        request = str(it.server.calls[-1].body)
        assert "three" in request
        assert "interrupted" not in request
        of_ended = "SELECT kind FROM events WHERE session = (SELECT max(id) FROM sessions) ORDER BY seq"
        with closing(sqlite3.connect(it.home / "state" / "sessions.db")) as database:
            kinds = [kind for (kind,) in database.execute(of_ended)]
        assert kinds[kinds.index("session_forked") - 1] == "turn_ended"


async def test_an_undo_in_a_fork_has_what_was_in_files_also_when_the_other_session_is_gone(tmp_path: Path) -> None:
    large = "".join(f"line {number}\n" for number in range(90_000))
    call = ToolCall("edit", {"path": "big.txt", "edits": [{"old_text": "line 7\n", "new_text": "LINE 7\n"}]})
    read = ToolCall("read", {"path": "big.txt"})
    async with stage(
        tmp_path,
        *(Reply(tool_calls=[read]), Reply(tool_calls=[call]), Reply("Done.")),
        mode="full-access",
        files={"big.txt": large},
    ) as it:
        await it.prompt("Change it")
        assert (it.folder / "big.txt").read_text() != large
        assert any(tmp_path.rglob("undo/*/*"))
        made = await fork(it.agent, it.session, it.folder)
        await it.agent.request("session/delete", {"sessionId": it.session})
        assert await it.agent.prompt(made, "/undo", 30) == {"stopReason": "end_turn"}
        assert (it.folder / "big.txt").read_text() == large


async def test_a_session_that_works_is_renamed_by_another_process_and_goes_on(tmp_path: Path) -> None:
    async with stage(tmp_path, Reply(["Wo", "rk."], hold=(hold := anyio.Event()), hold_after=1)) as it:
        running = await it.agent.start_prompt(it.session, "Work")
        await it.held()
        async with it.restarted() as other:
            await other.agent.request("session/set_title", {"sessionId": it.session, "title": "Mine"})
        hold.set()
        assert await running.result() == {"stopReason": "end_turn"}
        assert await titles(it.agent) == {it.session: "Mine"}


async def test_two_processes_that_name_a_closed_session_at_once_both_succeed(tmp_path: Path) -> None:
    async with stage(tmp_path) as it, it.restarted() as other:
        await it.agent.request("session/close", {"sessionId": it.session})
        asked = [
            await one.agent.start_request("session/set_title", {"sessionId": it.session, "title": f"Title {number}"})
            for number in range(30)
            for one in (it, other)
        ]
        given = {(await each.result())["title"] for each in asked}
        assert given == {f"Title {number}" for number in range(30)}
        assert (await titles(it.agent))[it.session] in given
        # It is a person's, which a model's does not replace.
        with closing(sqlite3.connect(it.home / "state" / "sessions.db")) as database:
            events = [data for (data,) in database.execute("SELECT data FROM events WHERE kind = 'title_changed'")]
        assert len(events) == 60
        assert all('"user"' in event for event in events)


async def test_an_archived_session_is_closed_and_hidden_until_it_is_listed_again(tmp_path: Path) -> None:
    async with stage(tmp_path, Reply(["Ha", "lf"], hold=anyio.Event(), hold_after=1), Reply("Whole.")) as it:
        other = await it.agent.new_session(it.folder)
        running = await it.agent.start_prompt(it.session, "Work")
        await it.held()
        for _ in range(2):
            assert await it.agent.request("session/archive", {"sessionId": it.session}) == {}
        assert await running.result() == {"stopReason": "cancelled"}
        status = await it.agent.request("session/status", {"sessionId": it.session})
        assert status == {"status": "saved"}
        assert await titles(it.agent) == {other: "None"}
        assert await titles(it.agent, archived="exclude", cwd=str(it.folder)) == {other: "None"}
        assert await titles(it.agent, archived="only") == {it.session: "*Work"}
        assert await titles(it.agent, archived="include") == {it.session: "*Work", other: "None"}
        with pytest.raises(AgentError, match="archived") as error:
            await titles(it.agent, archived="sometimes")
        assert error.value.code == -32602
        # It can be opened, and stays archived.
        await it.agent.resume(it.session, it.folder)
        assert await it.prompt("Go on") == {"stopReason": "end_turn"}
        assert await titles(it.agent) == {other: "None"}
        assert it.session in (await run_command(it.home, "sessions", "--archived")).out
        assert it.session not in (await run_command(it.home, "sessions")).out
        for _ in range(2):
            assert await it.agent.request("session/unarchive", {"sessionId": it.session}) == {}
        assert await titles(it.agent) == {it.session: "Work", other: "None"}
        assert (await run_command(it.home, "sessions", "archive", other, it.session)).code == 0
        assert await titles(it.agent) == {}
        assert (await run_command(it.home, "sessions", "unarchive", other)).code == 0
        assert await titles(it.agent) == {other: "None"}
        for method in ("session/archive", "session/unarchive"):
            with pytest.raises(AgentError) as error:
                await it.agent.request(method, {"sessionId": "sess_none"})
            assert error.value.code == -32002
