"""Several clients of one agent that serves: each has its own connection, and nothing of another one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from support.client import AgentError
from support.models import Reply, ToolCall
from support.remote import site
from support.stage import PATIENCE, conversation

pytestmark = pytest.mark.process


async def test_turns_of_two_clients_run_at_once_and_neither_sees_anything_of_the_other(tmp_path: Path) -> None:
    both = anyio.Event()

    def answer(body: dict[str, Any]) -> Reply:
        asked = conversation(body)[-1][1]
        return Reply([f"You said {asked}", ", I heard."], hold=both, hold_after=1)

    async with site(tmp_path, script=answer) as it, it.client("ws") as one, it.client("ws") as other:
        first, second = await it.opened(one), await it.opened(other)
        turns = [await one.start_prompt(first, "apple"), await other.start_prompt(second, "pear")]
        await it.server.wait_held(2, PATIENCE)
        both.set()
        for turn in turns:
            assert await turn.result(PATIENCE) == {"stopReason": "end_turn"}
        assert (one.text(), other.text()) == ("You said apple, I heard.", "You said pear, I heard.")
        # Both see both in the list, since both are the user's.
        for agent in (one, other):
            listed = await agent.request("session/list", {})
            assert {entry["sessionId"] for entry in listed["sessions"]} == {first, second}
        # A session that is open elsewhere is not open here.
        with pytest.raises(AgentError) as refused:
            await one.prompt(second, "Hello")
        assert second in refused.value.message


async def test_a_session_that_is_open_on_two_connections_goes_on_as_between_two_processes(tmp_path: Path) -> None:
    replies = [Reply("One."), Reply("Two."), Reply("Three.")]
    async with site(tmp_path, *replies) as it, it.client() as one, it.client() as other:
        session = await it.opened(one)
        await one.prompt(session, "First", PATIENCE)
        await other.load(session, it.folder)
        assert other.text() == "One."
        await other.prompt(session, "Second", PATIENCE)
        seen = len(one.lines)
        await one.prompt(session, "Third", PATIENCE)
        assert one.text(since=seen) == "Three."
        assert "Three." not in other.text()
        said = [text for role, text in conversation(it.server.calls[2].body) if role in ("user", "assistant")]
        assert said[-5:] == ["First", "One.", "Second", "Two.", "Third"]


async def test_where_one_editor_sends_a_provider_s_requests_is_nothing_to_another(tmp_path: Path) -> None:
    async with site(tmp_path) as it, it.client() as one, it.client() as other:
        before = await other.request("providers/list", {})
        await one.request("providers/disable", {"providerId": "openai"})
        assert await other.request("providers/list", {}) == before
        assert await one.request("providers/list", {}) != before


async def test_a_client_that_vanishes_ends_its_turn_and_its_commands_and_the_session_can_be_gone_on_with(
    tmp_path: Path,
) -> None:
    sleep = ToolCall("shell", {"command": "echo begun; sleep 600; :"})
    replies = [Reply("I wait.", tool_calls=[sleep]), Reply("Still here."), Reply("Gone on.")]
    async with site(tmp_path, *replies) as it, it.client(laws=False) as stays:
        kept = await it.opened(stays)
        async with it.client(laws=False) as vanishes:
            session = await it.opened(vanishes, "full-access")
            await vanishes.start_prompt(session, "Wait")
            await vanishes.wait_for(lambda line: "begun" in str(line.update.get("content")), PATIENCE)
            vanishes.kill()
            await vanishes.wait_exit()
            vanishes.problems.clear()
            with anyio.fail_after(PATIENCE):
                while (await stays.request("session/status", {"sessionId": session}))["status"] == "open":  # noqa: ASYNC110 - nobody tells it
                    await anyio.sleep(0.02)
        assert await stays.prompt(kept, "Are you there?", PATIENCE) == {"stopReason": "end_turn"}
        async with it.client() as back:
            await back.load(session, it.folder)
            assert back.text() == "I wait."
            assert await back.prompt(session, "Go on", PATIENCE) == {"stopReason": "end_turn"}


async def test_without_the_token_nobody_is_connected_and_with_it_a_session_is_as_without_one(tmp_path: Path) -> None:
    async with site(tmp_path, Reply("Hello."), token="a-token-of-the-tests") as it:
        for headers in ({}, {"Authorization": "Bearer wrong"}):
            with pytest.raises(InvalidStatus) as refused:
                async with connect(it.served.url("ws"), additional_headers=headers):
                    pass
            assert refused.value.response.status_code == 401
        async with it.client(env={"TOKEN": "a-token-of-the-tests"}) as agent:
            assert await agent.prompt(await it.opened(agent), "Hi", PATIENCE) == {"stopReason": "end_turn"}
            assert agent.text() == "Hello."
