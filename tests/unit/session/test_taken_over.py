"""A session that is opened again, closed or changed by another client while it works."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from support.client import AgentError
from support.editors import AVANTE, BARE
from support.memory import stage
from support.replies import Reply, ToolCall
from support.stage import PATIENCE


async def test_loading_a_session_with_a_running_turn_ends_and_replays_the_turn(
    tmp_path: Path,
) -> None:
    call = ToolCall("shell", {"command": "echo begun; sleep 60"})
    replies = [Reply("I look.", tool_calls=[call]), Reply("Again.")]
    async with stage(tmp_path, *replies, mode="full-access", editor=AVANTE) as it:
        running = await it.agent.start_prompt(it.session, "Look")
        await it.agent.wait_for(
            lambda line: b"begun\\n" in line.raw and b"tool_call_update" in line.raw,
            PATIENCE,
        )
        start = len(it.agent.lines)
        await it.agent.load(it.session, it.folder)
        assert await running.result() == {"stopReason": "cancelled"}
        [replayed] = [
            update
            for update in it.agent.updates(since=start)
            if update["sessionUpdate"] == "tool_call"
        ]
        assert (replayed["kind"], replayed["status"]) == ("execute", "failed")
        assert replayed["title"].startswith("echo begun")
        assert await it.prompt("Go on") == {"stopReason": "end_turn"}


@pytest.mark.parametrize("how", ["session/load", "session/resume"])
async def test_a_session_survives_a_cancelled_opening_during_its_turn(
    tmp_path: Path, how: str
) -> None:
    stubborn = ToolCall(
        "shell", {"command": "trap '' TERM; echo begun; while :; do sleep 0.1; done"}
    )
    replies = [Reply(tool_calls=[stubborn]), Reply("Here.")]
    async with stage(tmp_path, *replies, mode="full-access", editor=BARE) as it:
        running = await it.agent.start_prompt(it.session, "Run it")
        await it.agent.wait_for(
            lambda line: b"begun\\n" in line.raw and b"tool_call_update" in line.raw,
            PATIENCE,
        )
        params = {"sessionId": it.session, "cwd": str(it.folder), "mcpServers": []}
        opening = await it.agent.start_request(how, params)
        await opening.cancel()
        with pytest.raises(AgentError) as error:
            await opening.result(PATIENCE)
        assert error.value.code == -32800
        # If the opening was cancelled before it began, the turn is still running.
        await it.agent.cancel(it.session)
        assert await running.result() == {"stopReason": "cancelled"}
        assert await it.prompt("And now?") == {"stopReason": "end_turn"}


async def test_a_session_that_is_loaded_while_it_closes_works(
    tmp_path: Path,
) -> None:
    # The checks of the harness assume that the session is closed after both answers.
    async with stage(
        tmp_path, Reply("Never", hold=anyio.Event()), Reply("Here."), laws=False
    ) as it:
        running = await it.agent.start_prompt(it.session, "Wait")
        await it.held()
        closing = await it.agent.start_request(
            "session/close", {"sessionId": it.session}
        )
        await it.agent.load(it.session, it.folder)
        await closing.result()
        assert await running.result() == {"stopReason": "cancelled"}
        assert await it.prompt("And now?") == {"stopReason": "end_turn"}


async def test_clients_without_notices_get_the_text_in_the_next_turn(
    tmp_path: Path,
) -> None:
    files = {".acp-agent/recipes/broken.md": "---\nnonsense: 1\n---\nText\n"}
    async with stage(tmp_path, Reply("Yes."), Reply("Again."), files=files) as it:
        assert it.agent.updates(kind="notice") == []
        await it.prompt("Hi")
        await it.prompt("And again")
        assert "broken.md" in it.agent.text()
        assert not it.server.calls[-1].mentions("broken.md")
