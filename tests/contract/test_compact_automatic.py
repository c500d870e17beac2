"""Summaries that are prepared while the user works, and compactions that nobody asked for."""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest

from support.background import LONG, SUMMARY, THRESHOLD, desk, held
from support.client import AgentProcess
from support.compactions import is_summary_request, messages, said, shown_compactions
from support.dialogues import check_legal
from support.models import Reply, ToolCall, Usage

ROOMY = 10_000
"""Tokens: less than seven tenths of the 15,000 that are usable."""


async def test_a_turn_does_not_wait_for_a_summary_and_the_next_one_past_four_fifths_begins_with_it(
    tmp_path: Path,
) -> None:
    summary, hold = held()
    async with desk(tmp_path, summary) as it:
        await it.filled()
        assert it.asked == 0
        await it.prompt("Two?", Reply("Second answer.", usage=Usage(THRESHOLD, 5)))
        await it.server.wait_held()
        # Neither what is being written nor what waits is seen.
        assert shown_compactions(it.agent) == []
        hold.set()
        await it.server.wait_finished(3)
        assert shown_compactions(it.agent) == []
        await it.ready()
        begun = len(it.agent.lines)
        await it.prompt("Three?", Reply("Third answer."))

        [compaction] = shown_compactions(it.agent)
        assert compaction.statuses == ["in_progress", "completed"]
        assert compaction.text == SUMMARY
        labels = it.agent.methods_between(begun)
        assert labels.index("compaction_update") < labels.index("usage_update") < labels.index("agent_message_chunk")
        assert SUMMARY in said(it.last[0])
        assert not it.server.calls[-1].mentions(LONG)
        # What came after the summary was begun stands behind it, word for word.
        assert [said(message).splitlines()[-1] for message in it.last[-3:]] == ["Two?", "Second answer.", "Three?"]
        assert it.asked == 1


async def test_below_seven_tenths_of_the_window_no_summary_is_prepared(tmp_path: Path) -> None:
    async with desk(tmp_path) as it:
        await it.filled(ROOMY)
        await it.prompt("Two?", Reply("Second answer.", usage=Usage(ROOMY, 5)))
        await it.prompt("Three?", Reply("Third answer.", usage=Usage(ROOMY, 5)))
        assert (it.asked, shown_compactions(it.agent)) == (0, [])
        assert it.server.calls[-1].mentions(LONG)


async def test_where_automatic_compaction_is_off_nothing_is_prepared_or_compacted(tmp_path: Path) -> None:
    async with desk(tmp_path, Reply(SUMMARY), config={"compaction": {"auto": False}}) as it:
        await it.filled(THRESHOLD)
        for prompt in ("Two?", "Three?"):
            await it.prompt(prompt, Reply("An answer.", usage=Usage(THRESHOLD, 5)))
        assert (it.asked, shown_compactions(it.agent)) == (0, [])
        assert it.server.calls[-1].mentions(LONG)
        # By hand it is done all the same.
        await it.prompt("/compact")
        assert shown_compactions(it.agent)[0].statuses[-1] == "completed"


async def test_within_a_turn_steps_go_on_and_the_splice_waits_for_all_results_of_a_batch(tmp_path: Path) -> None:
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text(f"{name}\n")
    reads = [ToolCall("read", {"path": str(tmp_path / name)}) for name in ("a.txt", "b.txt")]
    summary, hold = held()

    def answer(body: Mapping[str, Any]) -> Reply:
        if is_summary_request(body):
            return summary
        return Reply("Done.") if SUMMARY in said(messages(body)[0]) else it.answers.pop(0)

    async with desk(tmp_path, script=answer) as it:
        await it.filled()
        it.answers = [
            Reply("Step one.", tool_calls=reads, usage=Usage(THRESHOLD, 20)),
            Reply(
                "Step two.", tool_calls=[ToolCall("shell", {"command": "true"}), reads[0]], usage=Usage(THRESHOLD, 20)
            ),
            # Until the summary has been checked, which ends a moment after its last word.
            *[Reply("Step three.", tool_calls=[reads[1]], usage=Usage(THRESHOLD, 20))] * 50,
        ]
        it.agent.permission_hold = anyio.Event()
        turn = await it.agent.start_prompt(it.session, "Two?")
        await it.agent.wait_for(lambda line: line.method == "session/request_permission", 20)
        # Two steps were made past the threshold, while the summary is still being written.
        assert len(it.answers) == 50
        assert shown_compactions(it.agent) == []
        hold.set()
        await it.server.wait_finished(4)
        it.agent.permission_hold.set()
        assert await turn.result() == {"stopReason": "end_turn"}

        [compaction] = shown_compactions(it.agent)
        assert compaction.statuses == ["in_progress", "completed"]
        assert SUMMARY in said(it.last[0])
        assert it.server.calls[-1].mentions("Two?")
        check_legal(it.server.calls[-1].body)
        assert it.asked == 1


ENDINGS: dict[str, Callable[[AgentProcess, str], Any]] = {
    "closed": lambda agent, session: agent.request("session/close", {"sessionId": session}),
    "deleted": lambda agent, session: agent.request("session/delete", {"sessionId": session}),
    "end of input": lambda agent, session: agent.close_stdin(),
}


@pytest.mark.process
@pytest.mark.parametrize("ending", [*ENDINGS, "SIGTERM"])
async def test_an_ending_session_leaves_no_request_behind(tmp_path: Path, ending: str) -> None:
    summary, _ = held()
    async with desk(tmp_path, summary) as it:
        await it.filled()
        await it.prompt("Two?", Reply("Second answer."))
        await it.server.wait_held()
        if ending == "SIGTERM":
            it.agent.process.send_signal(signal.SIGTERM)
        else:
            await ENDINGS[ending](it.agent, it.session)
        await it.server.wait_aborted()
        if ending in ("end of input", "SIGTERM"):
            assert await it.agent.wait_exit(5) == 0
        assert shown_compactions(it.agent) == []
