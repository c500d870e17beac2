"""Several clients of one agent: each has its own connection, and nothing of another's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

from support.client import AgentError, AgentProcess
from support.models import Reply
from support.remote import site
from support.stage import PATIENCE, conversation

LONG = "x" * 60_000


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
