"""A session that several clients have open: what one of them does with it is so for the others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest

from support.client import AgentError, AgentProcess
from support.models import Reply
from support.remote import site
from support.stage import PATIENCE

pytestmark = pytest.mark.process


def chosen(agent: AgentProcess, session: str) -> dict[str, Any]:
    """The options that the client's menus show since it was told of others."""
    told = agent.updates(session, "config_option_update")
    return {option["id"]: option["currentValue"] for update in told[-1:] for option in update["configOptions"]}


async def test_an_option_that_one_client_sets_is_told_to_all_that_have_the_session_open(tmp_path: Path) -> None:
    hold = anyio.Event()
    replies = [Reply(["I ", "work."], hold=hold, hold_after=1)]
    async with site(tmp_path, *replies) as it, it.client() as one, it.client() as other:
        session = await it.opened(one)
        await other.resume(session, it.folder)
        await other.set_mode(session, "full-access")
        await one.wait_update("current_mode_update", session, currentModeId="full-access")
        await one.until(lambda: chosen(one, session).get("mode") == "full-access", PATIENCE)
        # Also in the middle of a turn, which goes on.
        turn = await one.start_prompt(session, "Begin")
        await it.server.wait_held(1, PATIENCE)
        await other.set_config_option(session, "thought_level", "low")
        await one.until(lambda: chosen(one, session).get("thought_level") == "low", PATIENCE)
        hold.set()
        assert await turn.result(PATIENCE) == {"stopReason": "end_turn"}
        # Who sets it is told of it once.
        modes = [update["currentModeId"] for update in other.updates(session, "current_mode_update")]
        assert modes == ["full-access"]


@pytest.mark.parametrize("method", ["session/archive", "session/delete", "session/close"])
async def test_a_session_that_is_put_away_ends_for_all_that_have_it_open(tmp_path: Path, method: str) -> None:
    async with site(tmp_path) as it, it.client() as one, it.client() as other, it.client() as guest:
        session = await it.opened(one)
        await other.resume(session, it.folder)
        assert await guest.request(method, {"sessionId": session}) == {}
        for client in (one, other):
            with pytest.raises(AgentError) as error:
                await client.prompt(session, "Go on", PATIENCE)
            assert error.value.code == -32002
