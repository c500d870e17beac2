"""Summaries that are prepared while the user works: nobody waits for them, and nothing of them is seen before they are
in their place."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest

from acp_agent.compaction.strategies.excerpts import SUMMARY as EXCERPTS
from support.background import LONG, OUT_OF_ROOM, PREPARE, SUMMARY, THRESHOLD, held
from support.compactions import is_summary_request, said, shown_compactions
from support.memory import desk
from support.models import Reply, ToolCall, Usage
from support.stored import wait_logged

WAIT = {"compaction": {"wait": True}}
TOO_LONG = {"error": {"type": "invalid_request_error", "code": "context_length_exceeded", "message": "too long"}}
REFUSED = Reply(http_status=400, body=TOO_LONG)


@pytest.mark.parametrize("how", ["nearly full", "refused"])
async def test_where_there_is_no_room_excerpts_are_taken_at_once_and_what_was_being_written_is_dropped_and_paid_for(
    tmp_path: Path, how: str
) -> None:
    summary, _ = held()

    def answer(body: Mapping[str, Any]) -> Reply:
        if is_summary_request(body):
            return Reply(tool_calls=[ToolCall("read", {"path": "a.txt"})], usage=Usage(500, 50))
        return summary if "No tools may run now." in str(body) else it.answers.pop(0)

    async with desk(tmp_path, script=answer) as it:
        await it.filled()
        await it.prompt("Two?", Reply("Second answer.", usage=Usage(PREPARE if how == "refused" else OUT_OF_ROOM, 5)))
        await it.server.wait_held()
        await it.prompt("Three?", *([REFUSED] if how == "refused" else []), Reply("Third answer."))
        await it.server.wait_aborted()
        [compaction] = shown_compactions(it.agent)
        assert (compaction.statuses, compaction.text) == (["in_progress", "completed"], EXCERPTS)
        assert it.logged().count("summary_dropped") == 1
        assert it.asked == 1
        assert "<recorded_excerpts>" in said(it.last[0])
        assert said(it.last[-1]).endswith("Three?")


@pytest.mark.parametrize("how", ["nearly full", "refused"])
async def test_whoever_would_rather_wait_gets_the_summary_that_is_being_written(tmp_path: Path, how: str) -> None:
    summary, hold = held()
    async with desk(tmp_path, summary, config=WAIT) as it:
        await it.filled()
        await it.prompt("Two?", Reply("Second answer.", usage=Usage(PREPARE if how == "refused" else OUT_OF_ROOM, 5)))
        await it.server.wait_held()
        it.answers = [*([REFUSED] if how == "refused" else []), Reply("Third answer.")]
        turn = await it.agent.start_prompt(it.session, "Three?")
        await it.agent.wait_update("compaction_update", status="in_progress")
        assert len(it.answers) == 1
        hold.set()
        assert await turn.result() == {"stopReason": "end_turn"}
        [compaction] = shown_compactions(it.agent)
        assert (compaction.statuses, compaction.text) == (["in_progress", "completed"], SUMMARY)
        assert it.asked == 1
        assert SUMMARY in said(it.last[0])


REFUSE_SUMMARIES = """\
from acp_agent.hooks import *

@hook("turn_end")
async def check(event, services):
    return Outcome.block("It names no prices.") if "# Goal" in event.response else None
"""


@pytest.mark.parametrize(
    ("summary", "why"),
    [
        (Reply("# Goal\nTo be", stop="max_tokens", usage=Usage(500, 50)), "cut off before its end"),
        (Reply(SUMMARY, usage=Usage(500, 50)), "A hook refused the summary. It names no prices."),
    ],
    ids=["cut off", "refused by a hook"],
)
async def test_where_no_summary_came_of_it_excerpts_are_taken_at_four_fifths_and_the_receipt_says_why(
    tmp_path: Path, summary: Reply, why: str
) -> None:
    hooks = tmp_path / "state" / "hooks"
    hooks.mkdir(parents=True)
    hooks.parent.chmod(0o700)
    if "hook" in why:
        (hooks / "own.py").write_text(REFUSE_SUMMARIES)
    async with desk(tmp_path, summary) as it:
        await it.filled()
        await it.prompt("Two?", Reply("Second answer.", usage=Usage(THRESHOLD, 5)))
        if "hook" not in why:
            await wait_logged(tmp_path, "summary_dropped")
        elif not it.logged().count("summary_dropped"):  # it may have been in time for the end of that turn
            await it.ready()
        await it.prompt("Three?", Reply("Third answer."))
        [compaction] = shown_compactions(it.agent)
        assert (compaction.statuses, compaction.text) == (["in_progress", "completed"], EXCERPTS)
        assert why in compaction.receipt
        assert (it.asked, it.logged().count("summary_dropped")) == (1, 1)
        assert "compaction_failed" not in it.logged()
        assert "<recorded_excerpts>" in said(it.last[0])


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
        it.summaries = [held()[0]]
        await it.prompt("Three?", Reply("Third answer."))
        assert len(shown_compactions(it.agent)) == shown
        assert it.logged().count("summary_dropped") == 1
        assert not it.server.calls[-1].mentions(SUMMARY)


async def test_a_prompt_that_was_running_when_it_was_written_is_still_there_when_it_is_spliced(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a\n")
    read = ToolCall("read", {"path": str(tmp_path / "a.txt")})
    order = "Fix the cart, and the tests of it as well."
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
