"""What a person does with sessions beside talking: fork, rename and fork them, and ask whether one is open."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.client import AgentError, AgentProcess
from support.models import Reply
from support.stage import conversation, stage


async def titles(agent: AgentProcess, **params: Any) -> dict[str, str | None]:
    """Title by id, as one page of the list has them; what is archived has a star before it."""
    rows = (await agent.request("session/list", params))["sessions"]
    return {row["sessionId"]: ("*" if row["archived"] else "") + str(row.get("title")) for row in rows}


async def test_a_title_that_a_person_gave_stays_in_an_open_session_and_in_a_closed_one(tmp_path: Path) -> None:
    async with stage(tmp_path, Reply("Yes."), Reply("Summary."), Reply("Yes.")) as it:
        renamed = await it.agent.request("session/set_title", {"sessionId": it.session, "title": "  My\n cart \x07"})
        assert renamed == {"title": "My cart"}
        assert (await it.update("session_info_update"))["title"] == "My cart"
        await it.prompt("Mend the cart, please")
        await it.prompt("/compact")
        await it.agent.request("session/close", {"sessionId": it.session})
        assert await titles(it.agent) == {it.session: "My cart"}
        long = "word " * 99
        kept = (await it.agent.request("session/set_title", {"sessionId": it.session, "title": long}))["title"]
        assert long.startswith(kept.rstrip("…"))
        assert 150 < len(kept) <= 200
        heard = len(it.agent.lines)
        await it.agent.resume(it.session, it.folder)
        assert (await it.agent.wait_update("session_info_update", since=heard, timeout=30))["title"] == kept
        await it.prompt("Something else")
        assert await titles(it.agent) == {it.session: kept}
        for title, code in (("", -32602), (" \t\x00", -32602), (None, -32602), ("x", -32002)):
            session = "sess_none" if code == -32002 else it.session
            with pytest.raises(AgentError) as error:
                await it.agent.request("session/set_title", {"sessionId": session, "title": title})
            assert error.value.code == code


@pytest.mark.process
async def test_the_status_says_whether_a_session_is_open_here_and_opens_none(tmp_path: Path) -> None:
    async with stage(tmp_path) as it:

        async def status(agent: AgentProcess) -> str:
            return (await agent.request("session/status", {"sessionId": it.session}))["status"]

        assert await status(it.agent) == "open"
        async with it.restarted() as later:
            assert [await status(later.agent) for _ in range(2)] == ["saved", "saved"]
            await later.agent.resume(it.session, it.folder)
            assert await status(later.agent) == "open"
            await later.agent.request("session/close", {"sessionId": it.session})
            assert await status(later.agent) == "saved"
        with pytest.raises(AgentError) as error:
            await it.agent.request("session/status", {"sessionId": "sess_none"})
        assert error.value.code == -32002
        assert error.value.data["sessionId"] == "sess_none"


async def test_a_fork_goes_on_with_the_history_and_the_other_session_knows_nothing_of_it(tmp_path: Path) -> None:
    async with stage(tmp_path, Reply("A cart."), Reply("In the fork."), Reply("In the first.")) as it:
        await it.prompt("What is this?")
        params = {"sessionId": it.session, "cwd": str(it.folder), "mcpServers": []}
        made = (await it.agent.request("session/fork", params))["sessionId"]
        assert made != it.session
        assert await it.agent.prompt(made, "Go on here", 30) == {"stopReason": "end_turn"}
        assert [text for _, text in conversation(it.server.calls[1].body)] == ["What is this?", "A cart.", "Go on here"]
        await it.prompt("Go on there")
        assert [text for _, text in conversation(it.server.calls[2].body)] == [
            "What is this?",
            "A cart.",
            "Go on there",
        ]
        async with it.restarted() as later:
            await later.agent.load(made, it.folder)
            assert list(later.agent.texts().values()) == ["A cart.", "In the fork."]
