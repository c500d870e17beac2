"""Requests that name one session, sent in one go, are handled in the order of the wire, whatever opens or closes it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from support.client import AgentError, connected_agent
from support.replies import Reply
from support.stage import PATIENCE, Stage, stage
from support.wire import Pending

OPENINGS = ["session/load", "session/resume"]
CLOSED = r"is closed\. Open it with session/resume"


async def at_once(it: Stage, *requests: tuple[str, dict[str, Any]]) -> list[Pending]:
    """Send requests and notifications of the stage's session in one write; the requests' ids are 0, 1, 2 … as text."""
    lines: list[str] = []
    ids: list[str] = []
    for method, params in requests:
        message = {"jsonrpc": "2.0", "method": method, "params": {"sessionId": it.session, **params}}
        if method not in ("session/cancel", "$/cancel_request"):
            message["id"] = str(len(ids))
            ids.append(message["id"])
        lines.append(json.dumps(message))
    await it.agent.send_line("\n".join(lines).encode())
    return [it.agent.pending(id) for id in ids]


def opening(it: Stage, method: str) -> tuple[str, dict[str, Any]]:
    return method, {"cwd": str(it.folder), "mcpServers": []}


def prompt(text: str) -> tuple[str, dict[str, Any]]:
    return "session/prompt", {"prompt": [{"type": "text", "text": text}]}


@pytest.mark.parametrize("was_open", [True, False], ids=["open", "closed"])
@pytest.mark.parametrize("how", OPENINGS)
async def test_a_close_right_behind_an_opening_closes_what_was_opened(
    tmp_path: Path, how: str, *, was_open: bool
) -> None:
    async with stage(tmp_path, Reply("Hello.")) as it:
        await it.prompt("Hi")
        if not was_open:
            await it.agent.request("session/close", {"sessionId": it.session})
        opened, closed = await at_once(it, opening(it, how), ("session/close", {}))
        assert "modes" in await opened.result()
        assert await closed.result() == {}
        with pytest.raises(AgentError, match=CLOSED) as error:
            await it.prompt("Are you there?")
        assert error.value.code == -32002
        assert error.value.message == error.value.data["details"]


@pytest.mark.parametrize("how", OPENINGS)
async def test_what_is_sent_right_behind_an_opening_finds_the_session_open(tmp_path: Path, how: str) -> None:
    async with stage(tmp_path, Reply("Hello.")) as it:
        await it.agent.request("session/close", {"sessionId": it.session})
        option = {"configId": "thought_level", "value": "high"}
        requests = [("session/set_mode", {"modeId": "plan"}), ("session/set_config_option", option), prompt("Hi")]
        opened, mode, configured, prompted = await at_once(it, opening(it, how), *requests)
        assert (await opened.result())["modes"]["currentModeId"] == "ask"
        assert await mode.result() == {}
        values = {option["id"]: option["currentValue"] for option in (await configured.result())["configOptions"]}
        assert (values["mode"], values["thought_level"]) == ("plan", "high")
        assert await prompted.result(PATIENCE) == {"stopReason": "end_turn"}


async def test_a_cancel_behind_a_prompt_behind_an_opening_ends_that_prompt(tmp_path: Path) -> None:
    async with stage(tmp_path, Reply(hang=True)) as it:
        await it.agent.request("session/close", {"sessionId": it.session})
        opened, prompted = await at_once(it, opening(it, "session/load"), prompt("Hi"), ("session/cancel", {}))
        await opened.result()
        assert await prompted.result(PATIENCE) == {"stopReason": "cancelled"}


async def test_settings_right_before_an_opening_hold_in_what_is_opened(tmp_path: Path) -> None:
    async with stage(tmp_path) as it:
        modes = ["accept-edits", "ask"] * 10 + ["plan"]
        settings = [("session/set_mode", {"modeId": mode}) for mode in modes]
        *changed, opened = await at_once(it, *settings, opening(it, "session/resume"))
        assert [await change.result() for change in changed] == [{}] * len(modes)
        assert (await opened.result())["modes"]["currentModeId"] == "plan"


async def test_a_delete_right_behind_an_opening_deletes_the_session(tmp_path: Path) -> None:
    async with stage(tmp_path) as it:
        opened, deleted, prompted = await at_once(
            it, opening(it, "session/load"), ("session/delete", {}), prompt("Are you there?")
        )
        await opened.result()
        assert await deleted.result() == {}
        with pytest.raises(AgentError, match="There is no session") as error:
            await prompted.result()
        assert error.value.code == -32002
        assert (await it.agent.request("session/list", {}))["sessions"] == []


async def test_what_waits_for_its_turn_can_be_taken_back_and_those_behind_it_go_on(tmp_path: Path) -> None:
    async with stage(tmp_path, Reply("Hello.")) as it:
        requests = [opening(it, "session/load"), ("session/close", {}), prompt("Hi")]
        opened, closed, prompted = await at_once(it, *requests, ("$/cancel_request", {"requestId": "1"}))
        await opened.result()
        with pytest.raises(AgentError) as error:
            await closed.result()
        assert error.value.code == -32800
        assert await prompted.result(PATIENCE) == {"stopReason": "end_turn"}


async def test_a_session_that_nobody_has_opened_yet_is_called_closed_and_one_that_is_not_there_is_not(
    tmp_path: Path,
) -> None:
    async with connected_agent(home=tmp_path) as agent:
        session = await agent.new_session(tmp_path)
    async with connected_agent(home=tmp_path) as agent:
        for method in ("session/prompt", "session/close", "session/set_mode"):
            params: dict[str, Any] = {"prompt": [], "modeId": "plan"}
            with pytest.raises(AgentError, match=CLOSED) as error:
                await agent.request(method, {"sessionId": session, **params})
            assert error.value.code == -32002
            with pytest.raises(AgentError, match="There is no session 'sess_unknown'") as error:
                await agent.request(method, {"sessionId": "sess_unknown", **params})
            assert error.value.code == -32002


@pytest.mark.parametrize("how", OPENINGS)
async def test_a_session_whose_opening_was_taken_back_tells_its_commands_when_it_is_used(
    tmp_path: Path, how: str
) -> None:
    # The harness takes a session for unknown whose opening failed.
    async with stage(tmp_path, laws=False) as it, it.restarted() as later:
        await later.agent.request("session/list", {})  # the sessions are there, so that the opening begins at once
        opened, mode = await at_once(
            later, opening(it, how), ("$/cancel_request", {"requestId": "0"}), ("session/set_mode", {"modeId": "plan"})
        )
        with pytest.raises(AgentError) as error:
            await opened.result()
        assert error.value.code == -32800
        assert await mode.result() == {}
        await later.agent.wait_update("available_commands_update")


async def test_a_list_right_behind_archivings_has_none_of_what_they_hide(tmp_path: Path) -> None:
    async with stage(tmp_path, Reply(["Hel"], hang=True)) as it:
        others = [await it.agent.new_session(it.folder) for _ in range(5)]
        turn = await it.agent.start_prompt(it.session, "Hi")
        await it.held()  # so that its closing takes a while
        hidden = [("session/archive", {"sessionId": session}) for session in [*others[:4], it.session]]
        *archived, listed, back, again = await at_once(
            it, *hidden, ("session/list", {}), ("session/unarchive", {"sessionId": it.session}), ("session/list", {})
        )
        assert [session["sessionId"] for session in (await listed.result())["sessions"]] == [others[4]]
        shown = [session["sessionId"] for session in (await again.result())["sessions"]]
        assert sorted(shown) == sorted([others[4], it.session])
        assert [await each.result() for each in (*archived, back)] == [{}] * 6
        assert await turn.result() == {"stopReason": "cancelled"}


async def test_a_list_right_behind_deletions_has_none_of_what_they_delete(tmp_path: Path) -> None:
    async with stage(tmp_path, Reply(["Hel"], hang=True)) as it:
        others = [await it.agent.new_session(it.folder) for _ in range(5)]
        turn = await it.agent.start_prompt(it.session, "Hi")
        await it.held()  # so that its deletion takes a while
        deletions = [("session/delete", {"sessionId": session}) for session in [*others[:4], it.session]]
        *deleted, listed, _ = await at_once(
            it, *deletions, ("session/list", {}), ("session/delete", {"sessionId": "x"})
        )
        assert [session["sessionId"] for session in (await listed.result())["sessions"]] == [others[4]]
        assert [await each.result() for each in deleted] == [{}] * 5
        assert await turn.result() == {"stopReason": "cancelled"}
