"""What has begun in an editor ends there, also where it does not read for a while and the user cancels meanwhile."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio.to_thread
import pytest

from support.client import connected_agent
from support.compactions import is_summary_request, shown_compactions
from support.editors import BARE, ZED_BETA
from support.memory import stage
from support.replies import Reply, ToolCall
from support.stage import PATIENCE, Stage
from support.stored import wait_logged

FLOOD = [ToolCall("read", {"path": f"{number}{'x' * 4_000}"}) for number in range(400)]
"""Their announcements are more than the queue to an editor takes."""


@asynccontextmanager
async def flooded(it: Stage, answers: int) -> AsyncGenerator[None]:
    """An editor that does not read, so that what another session says of its calls fills the queue; it goes on reading
    at the end.

    :param answers: how many are in the log once the other session's is.
    """
    other = await it.agent.new_session(it.folder)
    it.agent.stop_reading()
    flood = await it.agent.start_prompt(other, "Flood")
    await wait_logged(it.home, "assistant_answered", answers, PATIENCE)
    yield
    await it.agent.cancel(other)
    it.agent.go_on_reading()
    assert await flood.result(PATIENCE) == {"stopReason": "cancelled"}


async def test_calls_that_were_cancelled_end_however_long_the_editor_does_not_read(tmp_path: Path) -> None:
    async with stage(tmp_path, Reply("All.", tool_calls=FLOOD), editor=BARE) as it:
        running = await it.agent.start_prompt(it.session, "Work")
        await it.update("agent_message_chunk")
        it.agent.stop_reading()
        await wait_logged(it.home, "assistant_answered")
        await it.agent.cancel(it.session)
        following = await it.agent.start_prompt(it.session, "/pin")
        await wait_logged(it.home, "turn_ended")
        # Nobody gives up: the next turn begins behind the last word of this one.
        with pytest.raises(TimeoutError):
            await wait_logged(it.home, "user_prompted", 2, timeout=3)
        it.agent.go_on_reading()
        assert await running.result(PATIENCE) == {"stopReason": "cancelled"}
        calls = it.calls()
        assert {call["status"] for call in calls} == {"failed"}
        assert len(calls) == len(FLOOD)
        assert await following.result(PATIENCE) == {"stopReason": "end_turn"}


async def test_a_call_whose_result_is_kept_is_shown_as_ended_though_it_was_cancelled_meanwhile(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "gate")
    shell = ToolCall("shell", {"command": f"cat {tmp_path / 'gate'} >/dev/null"})
    replies = [Reply(tool_calls=[shell]), Reply(tool_calls=FLOOD)]
    async with stage(tmp_path, *replies, editor=BARE, mode="full-access") as it:
        running = await it.agent.start_prompt(it.session, "Run it")
        await it.update("tool_call_update", status="in_progress")
        async with flooded(it, answers=2):
            await anyio.to_thread.run_sync((tmp_path / "gate").write_text, "through")
            await wait_logged(it.home, "tool_returned")
            await it.agent.cancel(it.session)
        await running.result(PATIENCE)
        [call] = [call for call in it.calls() if call["kind"] == "execute"]
        assert call["status"] == "completed"


async def test_a_compaction_that_was_cancelled_before_it_could_be_shown_begins_before_it_ends(tmp_path: Path) -> None:
    def answer(body: dict[str, Any]) -> Reply:
        if is_summary_request(body):
            return Reply("# Goal\nA cart.")
        return Reply(tool_calls=FLOOD) if "Flood" in str(body["messages"]) else Reply("The cart adds prices. " * 200)

    async with stage(tmp_path, script=answer, editor=ZED_BETA, dialect="anthropic") as it:
        for text in ("One?", "/compact", "Two?", "Three?"):
            await it.prompt(text)
        third = await it.agent.new_session(it.folder)
        async with flooded(it, answers=4):
            running = await it.agent.start_prompt(it.session, "/compact")
            await wait_logged(it.home, "user_prompted", 6)
            # By the time that yet another session has kept a prompt, the compaction waits for room in the queue.
            await it.agent.start_prompt(third, "/pin")
            await wait_logged(it.home, "user_prompted", 7)
            await it.agent.cancel(it.session)
        assert await running.result(PATIENCE) == {"stopReason": "cancelled"}
        # On a busy machine the cancel may come before the compaction has anything to show.
        shown = [compaction.statuses for compaction in shown_compactions(it.agent)][1:]
        assert shown in ([["in_progress", "cancelled"]], [])


@pytest.mark.parametrize("how", ["a signal", "the end of its input"])
async def test_an_agent_ends_though_its_editor_does_not_read(tmp_path: Path, how: str) -> None:
    async with stage(tmp_path, Reply("All.", tool_calls=FLOOD), editor=BARE, laws=False, connect=connected_agent) as it:
        await it.agent.start_prompt(it.session, "Work")
        await it.update("agent_message_chunk")
        it.agent.stop_reading()
        await wait_logged(it.home, "assistant_answered")
        if how == "a signal":
            it.agent.terminate()
        else:
            await it.agent.close_stdin()
        await wait_logged(it.home, "turn_ended")
        it.agent.go_on_reading()
        assert await it.agent.wait_exit() == 0
        it.agent.problems.clear()  # the line on which the editor stopped to read
