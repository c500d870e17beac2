"""Summaries that are prepared while the user works: nobody waits for them, and nothing of them is seen before they are
in their place."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from support.background import LONG, OUT_OF_ROOM, PREPARE, SUMMARY, desk, held
from support.client import AgentProcess
from support.compactions import is_summary_request, messages, said, shown_compactions
from support.models import Reply, ToolCall, Usage
from support.stored import wait_logged


async def test_the_summary_request_is_the_request_that_was_live_when_it_began(tmp_path: Path) -> None:
    async with desk(tmp_path, Reply(SUMMARY)) as it:
        await it.filled()
        await it.prompt("Two?", Reply("Second answer."))
        await it.server.wait_finished(3)
        [summary] = [call.body for call in it.server.calls if is_summary_request(call.body)]
        live = it.server.calls[0].body
        assert (summary["instructions"], summary["tools"]) == (live["instructions"], live["tools"])
        assert [said(message) for message in messages(summary)][:2] == ["One?", LONG]
        assert said(messages(summary)[2]).startswith("Two?")


async def test_where_there_is_no_room_the_turn_waits_for_the_summary_that_is_being_written(tmp_path: Path) -> None:
    summary, hold = held()
    async with desk(tmp_path, summary) as it:
        await it.filled()
        await it.prompt("Two?", Reply("Second answer.", usage=Usage(OUT_OF_ROOM, 5)))
        it.answers = [Reply("Third answer.")]
        turn = await it.agent.start_prompt(it.session, "Three?")
        await it.agent.wait_update("compaction_update", status="in_progress")
        assert len(it.answers) == 1
        hold.set()
        assert await turn.result() == {"stopReason": "end_turn"}
        [compaction] = shown_compactions(it.agent)
        assert (compaction.statuses, compaction.text) == (["in_progress", "completed"], SUMMARY)
        assert it.asked == 1
        assert SUMMARY in said(it.last[0])


async def test_who_waits_for_it_can_cancel_and_the_summary_is_used_later(tmp_path: Path) -> None:
    summary, hold = held()
    async with desk(tmp_path, summary) as it:
        await it.filled()
        await it.prompt("Two?", Reply("Second answer.", usage=Usage(OUT_OF_ROOM, 5)))
        turn = await it.agent.start_prompt(it.session, "Three?")
        await it.agent.wait_update("compaction_update", status="in_progress")
        await it.agent.cancel(it.session)
        assert await turn.result() == {"stopReason": "cancelled"}
        assert shown_compactions(it.agent)[0].statuses == ["in_progress", "cancelled"]
        hold.set()
        await it.ready()
        await it.prompt("Four?", Reply("Fourth answer."))
        assert shown_compactions(it.agent)[1].statuses == ["in_progress", "completed"]
        assert it.asked == 1
        assert [said(message) for message in it.last][-1].splitlines()[-1] == "Four?"


async def test_a_summary_that_fails_unseen_leaves_its_place_to_one_that_is_asked_for_at_once(tmp_path: Path) -> None:
    hold = anyio.Event()
    broken = Reply(["# ", "Goal"], hold=hold, hold_after=1, drop_after=1)
    async with desk(tmp_path, broken, Reply(SUMMARY)) as it:
        await it.filled()
        await it.prompt("Two?", Reply("Second answer.", usage=Usage(OUT_OF_ROOM, 5)))
        it.answers = [Reply("Third answer.")]
        turn = await it.agent.start_prompt(it.session, "Three?")
        await it.agent.wait_update("compaction_update", status="in_progress")
        hold.set()
        assert await turn.result() == {"stopReason": "end_turn"}
        [compaction] = shown_compactions(it.agent)
        assert (compaction.statuses, compaction.text) == (["in_progress", "completed"], SUMMARY)


async def test_a_refused_request_waits_for_the_summary_that_is_being_written(tmp_path: Path) -> None:
    refused = {"error": {"type": "invalid_request_error", "code": "context_length_exceeded", "message": "too long"}}
    summary, hold = held()
    async with desk(tmp_path, summary) as it:
        await it.filled()
        await it.prompt("Two?", Reply("Second answer.", usage=Usage(PREPARE + 100, 5)))
        await it.server.wait_held()
        it.answers = [Reply(http_status=400, body=refused), Reply("Third answer.")]
        turn = await it.agent.start_prompt(it.session, "Three?")
        await it.agent.wait_update("compaction_update", status="in_progress")
        hold.set()
        assert await turn.result() == {"stopReason": "end_turn"}
        [compaction] = shown_compactions(it.agent)
        assert (compaction.statuses, compaction.text) == (["in_progress", "completed"], SUMMARY)
        assert it.asked == 1
        assert [said(message).splitlines()[-1] for message in it.last][-1] == "Three?"


async def test_where_the_summary_that_was_waited_for_leaves_too_much_a_refused_request_is_made_shorter_still(
    tmp_path: Path,
) -> None:
    refused = {"error": {"type": "invalid_request_error", "code": "context_length_exceeded", "message": "too long"}}
    summary, hold = held()
    async with desk(tmp_path, summary, *[Reply("# Goal\nA shorter one.")] * 6) as it:
        await it.filled()
        # Far more than the summary was prepared for.
        await it.prompt("Two?", Reply(LONG + LONG, usage=Usage(PREPARE + 50, 100)))
        await it.server.wait_held()
        it.answers = [Reply(http_status=400, body=refused), Reply("Third answer.")]
        turn = await it.agent.start_prompt(it.session, "Three?")
        await it.agent.wait_update("compaction_update", status="in_progress")
        hold.set()
        assert await turn.result() == {"stopReason": "end_turn"}
        assert [shown.statuses for shown in shown_compactions(it.agent)] == [["in_progress", "completed"]] * 2
        assert not it.server.calls[-1].mentions(LONG + LONG)
        assert [said(message).splitlines()[-1] for message in it.last][-1] == "Three?"


async def test_failures_are_silent_but_the_third_ends_it_and_their_cost_is_logged(tmp_path: Path) -> None:
    cut_off = Reply("# Goal\nTo be", stop="max_tokens", usage=Usage(100, 10))
    async with desk(tmp_path, *[cut_off] * 3, Reply(SUMMARY)) as it:
        await it.filled()
        for number in range(1, 6):
            await it.prompt(f"Prompt {number}?", Reply("Answer.", usage=Usage(PREPARE, 5)))
            await wait_logged(tmp_path, "summary_dropped", min(number, 3))
        assert it.asked == 3
        assert shown_compactions(it.agent) == []
        assert "compaction_failed" not in it.logged()
        [notice] = it.agent.updates(kind="notice")
        assert "3 times in a row" in str(notice)
        await it.prompt("/compact")
        assert shown_compactions(it.agent)[0].statuses == ["in_progress", "completed"]


@pytest.mark.parametrize("how", ["by hand", "refusal"])
async def test_a_summary_that_waits_is_dropped_when_its_source_changes_and_its_cost_counts(
    tmp_path: Path, how: str
) -> None:
    summary, hold = held(usage=Usage(500, 50))
    async with desk(tmp_path, summary, Reply("# Goal\nBy hand.")) as it:
        await it.filled()
        if how == "by hand":
            await it.prompt("Two?", Reply("Second answer."))
            hold.set()
            await it.ready()
            await it.prompt("/compact Mind the prices.")
            shown = 1
        else:
            refusal = anyio.Event()
            it.answers = [Reply(["I ", "cannot."], hold=refusal, hold_after=1, stop="refusal")]
            turn = await it.agent.start_prompt(it.session, "Two?")
            await it.server.wait_held(2)
            hold.set()
            await it.server.wait_finished(2)
            refusal.set()
            assert await turn.result() == {"stopReason": "refusal"}
            shown = 0
        assert len(shown_compactions(it.agent)) == shown
        assert it.logged().count("summary_dropped") == 1
        it.summaries = [held()[0]]
        await it.prompt("Three?", Reply("Third answer."))
        assert len(shown_compactions(it.agent)) == shown
        assert not it.server.calls[-1].mentions(SUMMARY)


ENDINGS: dict[str, Callable[[AgentProcess, str], Any]] = {
    "closed": lambda agent, session: agent.request("session/close", {"sessionId": session}),
    "deleted": lambda agent, session: agent.request("session/delete", {"sessionId": session}),
    "end of input": lambda agent, session: agent.close_stdin(),
}


@pytest.mark.parametrize("ending", ["closed", "end of input"])
async def test_a_summary_that_waited_for_a_turn_that_never_came_is_paid_for(tmp_path: Path, ending: str) -> None:
    summary, hold = held(usage=Usage(500, 50))
    async with desk(tmp_path, summary) as it:
        await it.filled()
        await it.prompt("Two?", Reply("Second answer."))
        hold.set()
        await it.ready()
        await ENDINGS[ending](it.agent, it.session)
        if ending == "closed":
            await it.agent.load(it.session, tmp_path)
            it.summaries = [held()[0]]
            await it.prompt("Three?", Reply("Third answer."))
        else:
            assert await it.agent.wait_exit(5) == 0
        assert it.logged().count("summary_dropped") == 1
        assert shown_compactions(it.agent) == []


async def test_a_prompt_that_was_running_when_it_was_written_is_still_there_when_it_is_spliced(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a\n")
    read = ToolCall("read", {"path": str(tmp_path / "a.txt")})
    order = "Fix the cart, and keep the tests green."
    summary, hold = held()
    async with desk(tmp_path, summary) as it:
        await it.prompt(
            order,
            Reply(LONG, tool_calls=[read], usage=Usage(7_000, 400)),
            Reply("Step two.", tool_calls=[read], usage=Usage(PREPARE, 20)),
            Reply("Fixed.", usage=Usage(PREPARE + 500, 5)),
        )
        await it.server.wait_held()
        hold.set()
        await it.ready()
        await it.prompt("Three?", Reply("Third answer."))
        assert shown_compactions(it.agent)[0].statuses == ["in_progress", "completed"]
        assert it.server.calls[-1].mentions(order)
        assert json.dumps(it.last).count(order) == 1
