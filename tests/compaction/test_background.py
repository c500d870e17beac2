"""Summaries that are prepared while the user works: nobody waits for them, and nothing of them is seen before they are
in their place."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest

from acp_agent.compaction.strategies.excerpts import SUMMARY as EXCERPTS
from support.background import LONG, OUT_OF_ROOM, PREPARE, SUMMARY, THRESHOLD, desk, held
from support.client import AgentProcess
from support.compactions import is_summary_request, messages, said, shown_compactions
from support.models import Reply, ToolCall, Usage
from support.stored import damage_texts, log_file_with, wait_logged

HALF_FULL = 9_000
SIZE = 4_000
"""Tokens: a fifth of the window."""
WAIT = {"compaction": {"wait": True}}
TOO_LONG = {"error": {"type": "invalid_request_error", "code": "context_length_exceeded", "message": "too long"}}
STATES = "This model's maximum context length is 6000 tokens. However, your messages resulted in 11000 tokens."
LONG_SUMMARY = "# Goal\n" + "The cart is red. " * 550
REFUSED = Reply(http_status=400, body=TOO_LONG)


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


async def test_a_prepared_summary_that_has_no_room_in_the_window_of_which_a_refusal_told_gives_way_to_excerpts(
    tmp_path: Path,
) -> None:
    refused = {"error": {"type": "invalid_request_error", "code": "context_length_exceeded", "message": STATES}}
    summary, hold = held(LONG_SUMMARY)
    async with desk(tmp_path, summary, config=WAIT) as it:
        await it.filled()
        await it.prompt("Two?", Reply("Second answer.", usage=Usage(PREPARE, 5)))
        await it.server.wait_held()
        it.answers = [Reply(http_status=400, body=refused), Reply("Third answer.")]
        turn = await it.agent.start_prompt(it.session, "Three?")
        await it.agent.wait_update("compaction_update", status="in_progress")
        hold.set()
        assert await turn.result() == {"stopReason": "end_turn"}
        [compaction] = shown_compactions(it.agent)
        assert (compaction.statuses, compaction.text) == (["in_progress", "completed"], EXCERPTS)
        assert "No summary: " in compaction.receipt
        assert (it.asked, it.logged().count("context_swapped")) == (1, 1)
        assert not {"compaction_failed", "summary_dropped"} & {*it.logged()}
        assert not it.server.calls[-1].mentions("The cart is red.")


@pytest.mark.parametrize("config", [{}, WAIT], ids=["at once", "waiting"])
async def test_where_masking_frees_too_little_at_four_fifths_the_same_turn_is_compacted_when_there_is_no_room(
    tmp_path: Path, config: Mapping[str, Any]
) -> None:
    for name, text in {"old.txt": "An old line of the shop.\n" * 500, "new.txt": "A new line.\n"}.items():
        (tmp_path / name).write_text(text)
    old, new = [ToolCall("read", {"path": str(tmp_path / name)}) for name in ("old.txt", "new.txt")]
    summary, hold = held()
    async with desk(tmp_path, summary, config=config) as it:
        read = Reply(tool_calls=[old], usage=Usage(6_000, 20))
        await it.prompt("One?", read, Reply(LONG * 2, usage=Usage(THRESHOLD, 5)))
        it.answers = [Reply("Step one.", tool_calls=[new], usage=Usage(OUT_OF_ROOM, 5)), Reply("Done.")]
        turn = await it.agent.start_prompt(it.session, "Two?")
        if config:
            await it.agent.wait_update("compaction_update", status="in_progress")
            assert len(it.answers) == 1
            hold.set()
        assert await turn.result() == {"stopReason": "end_turn"}
        [compaction] = shown_compactions(it.agent)
        text = SUMMARY if config else EXCERPTS
        assert (compaction.statuses, compaction.text) == (["in_progress", "completed"], text)
        assert it.asked <= 1
        assert "compaction_failed" not in it.logged()


async def test_where_the_record_cannot_be_read_for_excerpts_it_is_logged_and_the_turn_and_a_later_compaction_go_on(
    tmp_path: Path,
) -> None:
    async with desk(tmp_path, Reply(SUMMARY)) as it:
        await it.filled(HALF_FULL)
        damage_texts(tmp_path, "One?", 'One?"')
        await it.prompt("Two?", Reply("Second answer.", usage=Usage(HALF_FULL, 5)))
        assert "Traceback" in await log_file_with(tmp_path, f"the entries of {it.session} were not indexed")
        damage_texts(tmp_path, 'One?""', 'One?"')
        await it.prompt("Three?", Reply("Third answer.", usage=Usage(HALF_FULL, 5)))
        await it.prompt("/compact")
        [compaction] = shown_compactions(it.agent)
        assert (compaction.statuses, compaction.text) == (["in_progress", "completed"], SUMMARY)
        await it.prompt("Four?", Reply("Fourth answer."))
        [carried] = [part for part in said(it.last[0]).split("\n\n") if part.startswith("[#3]")]
        assert carried == "[#3]\n~~~\nOne?\n~~~"


async def test_who_waits_for_it_can_cancel_and_the_summary_is_used_later(tmp_path: Path) -> None:
    summary, hold = held()
    async with desk(tmp_path, summary, config=WAIT) as it:
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


async def test_a_summary_that_fails_while_it_is_waited_for_leaves_its_place_to_one_that_is_asked_for_at_once(
    tmp_path: Path,
) -> None:
    hold = anyio.Event()
    broken = Reply(["# ", "Goal"], hold=hold, hold_after=1, drop_after=1)
    async with desk(tmp_path, broken, Reply(SUMMARY), config=WAIT) as it:
        await it.filled()
        await it.prompt("Two?", Reply("Second answer.", usage=Usage(OUT_OF_ROOM, 5)))
        it.answers = [Reply("Third answer.")]
        turn = await it.agent.start_prompt(it.session, "Three?")
        await it.agent.wait_update("compaction_update", status="in_progress")
        hold.set()
        assert await turn.result() == {"stopReason": "end_turn"}
        [compaction] = shown_compactions(it.agent)
        assert (compaction.statuses, compaction.text) == (["in_progress", "completed"], SUMMARY)


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


async def test_between_two_turns_the_last_answer_takes_its_part_of_the_size_like_all_else(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("A cart.\n")
    step = Reply("", tool_calls=[ToolCall("read", {"path": str(tmp_path / "a.txt")})], usage=Usage(PREPARE, 20))
    async with desk(tmp_path, Reply(SUMMARY)) as it:
        await it.filled()
        # As many steps as the summary takes, and then an answer that is larger than the new context may be.
        await it.prompt("Two?", *[step] * 50, Reply(LONG, usage=Usage(PREPARE, 400)))
        [compaction] = shown_compactions(it.agent)
        assert compaction.text == SUMMARY
        await it.prompt("Three?", Reply("Third answer."))
        said_now = "\n".join(said(message) for message in it.last)
        assert SUMMARY in said_now
        assert len(said_now) / 4 < SIZE
