"""The list of sessions, and their end: list, close, delete."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest

from support.client import AgentError, AgentProcess, connected_agent
from support.replies import Reply
from support.stage import stage

MANY = 120


async def rows_of(agent: AgentProcess, **params: Any) -> list[dict[str, Any]]:
    """Every page of the list."""
    rows: list[dict[str, Any]] = []
    cursor: str | None = None
    while True:
        page = await agent.request("session/list", {**params, **({"cursor": cursor} if cursor else {})})
        assert page["sessions"] or cursor is None
        rows += page["sessions"]
        cursor = page.get("nextCursor")
        if cursor is None:
            return rows


async def test_a_long_list_comes_in_pages_with_every_session_once_the_newest_first(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    async with connected_agent(home=tmp_path / "home") as agent:

        async def named(session: str) -> str:
            """Give a session a title; one that was never used is not in the list."""
            await agent.request("session/set_title", {"sessionId": session, "title": "A session"})
            return session

        await named(await agent.new_session(other))
        handles = [
            await agent.start_request("session/new", {"cwd": str(tmp_path), "mcpServers": []}) for _ in range(MANY)
        ]
        made = [await named((await handle.result())["sessionId"]) for handle in handles]
        await agent.new_session(other)
        newest = await named(await agent.new_session(other))
        first = await agent.request("session/list", {})
        assert len(first["sessions"]) < MANY
        rows = await rows_of(agent)
        assert len(rows) == MANY + 2
        assert {row["sessionId"] for row in rows} > set(made)
        assert rows[0]["sessionId"] == newest
        assert [row["updatedAt"] for row in rows] == sorted((row["updatedAt"] for row in rows), reverse=True)
        assert {row["sessionId"] for row in await rows_of(agent, cwd=str(tmp_path))} == set(made)
        assert await rows_of(agent, cwd=str(tmp_path / "nowhere")) == []
        for cursor in ("", "x", "bm9uZQ==", "é" * 10):
            with pytest.raises(AgentError, match="cursor") as error:
                await agent.request("session/list", {"cursor": cursor})
            assert error.value.code == -32602


async def test_the_title_is_the_first_prompt_and_is_shown_in_the_update_and_the_list(tmp_path: Path) -> None:
    async with stage(tmp_path, Reply("Yes."), Reply("Yes.")) as it:
        await it.prompt("Mend the\n  cart, please")
        await it.prompt("Something else")
        titles = [update["title"] for update in it.agent.updates(kind="session_info_update")]
        assert titles == ["Mend the cart, please"]
        [row] = (await it.agent.request("session/list", {}))["sessions"]
        assert row["title"] == titles[0]


async def test_deleting_an_unknown_session_succeeds_and_closing_one_is_resource_not_found(tmp_path: Path) -> None:
    async with connected_agent(home=tmp_path) as agent:
        assert await agent.request("session/delete", {"sessionId": "sess_unknown"}) == {}
        with pytest.raises(AgentError, match="sess_unknown") as error:
            await agent.request("session/close", {"sessionId": "sess_unknown"})
        assert error.value.code == -32002


@pytest.mark.process
async def test_a_deleted_session_is_gone_for_good_also_for_another_process(tmp_path: Path) -> None:
    async with stage(tmp_path, Reply("Yes.")) as it:
        await it.prompt("Hello")
        async with it.restarted() as second:
            await second.agent.resume(it.session, it.folder)
            assert await it.agent.request("session/delete", {"sessionId": it.session}) == {}
            with pytest.raises(AgentError) as error:
                await second.prompt("Are you there?")
            assert error.value.code == -32002
            for agent in (it.agent, second.agent):
                assert (await agent.request("session/list", {}))["sessions"] == []
            with pytest.raises(AgentError) as error:
                await it.agent.load(it.session, it.folder)
            assert error.value.code == -32002
        assert len(it.server.calls) == 1


@pytest.mark.parametrize("method", ["session/close", "session/delete"])
async def test_the_end_of_a_session_cancels_the_turn_and_every_waiting_prompt_first(
    tmp_path: Path, method: str
) -> None:
    async with stage(tmp_path, Reply(["Let me ", "see"], hold=anyio.Event(), hold_after=1)) as it:
        running = await it.agent.start_prompt(it.session, "Work")
        waiting = [await it.agent.start_prompt(it.session, "More") for _ in range(3)]
        await it.held()
        end = await it.agent.start_request(method, {"sessionId": it.session})
        assert await end.result() == {}
        for prompt in (running, *waiting):
            assert await prompt.result() == {"stopReason": "cancelled"}
        assert running.answer is not None
        assert end.answer is not None
        assert running.answer.index < end.answer.index
        await it.server.wait_aborted()
        for later in ("session/prompt", "session/set_mode"):
            with pytest.raises(AgentError) as error:
                await it.agent.request(later, {"sessionId": it.session, "prompt": [], "modeId": "plan"})
            assert error.value.code == -32002
        rows = (await it.agent.request("session/list", {}))["sessions"]
        assert [row["sessionId"] for row in rows] == ([it.session] if method == "session/close" else [])


async def test_a_request_to_an_unknown_session_is_resource_not_found(tmp_path: Path) -> None:
    requests: dict[str, dict[str, Any]] = {
        "session/prompt": {"prompt": [{"type": "text", "text": "Hi"}]},
        "session/set_mode": {"modeId": "plan"},
        "session/set_config_option": {"configId": "mode", "value": "plan"},
        "session/close": {},
    }
    async with connected_agent(home=tmp_path) as agent:
        for _ in range(2):  # before the first session of the process, and after
            for method, params in requests.items():
                with pytest.raises(AgentError, match="sess_unknown") as error:
                    await agent.request(method, {"sessionId": "sess_unknown", **params})
                assert error.value.code == -32002
            await agent.new_session(tmp_path)
        # A notification is never answered, not even with an error.
        heard = len(agent.lines)
        await agent.notify("session/cancel", {"sessionId": "sess_unknown"})
        await agent.request("session/list", {})
        assert [line.label for line in agent.lines[heard:] if line.kind != "notification"] == ["response session/list"]
