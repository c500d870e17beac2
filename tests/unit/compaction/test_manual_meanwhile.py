"""`/compact` while a summary is being prepared or is ready: that summary is used, and
no second one is paid for.
"""

from __future__ import annotations

from pathlib import Path

import anyio

from support.background import PREPARE, SUMMARY, Desk
from support.compactions import both_editors, said, shown_compactions
from support.editors import ZED_BETA, Editor
from support.memory import desk
from support.models import Reply, Usage


async def writing(it: Desk) -> None:
    """Run a turn after which a summary is being written and pauses."""
    await it.filled()
    await it.prompt("Two?", Reply("Second answer.", usage=Usage(PREPARE + 50, 5)))
    await it.server.wait_held()


async def test_a_ready_summary_is_used_at_once(
    tmp_path: Path,
) -> None:
    async with desk(tmp_path, Reply(SUMMARY, usage=Usage(500, 50))) as it:
        await it.filled()
        await it.prompt("Two?", Reply("Second answer."))
        await it.ready()
        begun = len(it.agent.lines)
        await it.prompt("/compact")
        [compaction] = shown_compactions(it.agent)
        assert (compaction.statuses, compaction.text) == (
            ["in_progress", "completed"],
            SUMMARY,
        )
        assert it.agent.methods_between(begun)[-2:] == [
            "usage_update",
            "response session/prompt",
        ]
        assert it.asked == 1
        await it.prompt("Three?", Reply("Third answer."))
        assert [said(message).splitlines()[-1] for message in it.last] == [
            "Two?",
            "Second answer.",
            "Three?",
        ]
        assert SUMMARY in said(it.last[0])
        assert "summary_dropped" not in it.logged()
        assert len(shown_compactions(it.agent)) == 1


@both_editors
async def test_a_running_summary_is_continued_and_shown_from_its_beginning(
    tmp_path: Path, editor: Editor
) -> None:
    first = "# Goal\nA "
    second = "cart that "
    rest = "adds prices. " * 100
    hold = anyio.Event()
    summary = Reply([first, second, rest], hold=hold, hold_after=1)
    async with desk(tmp_path, summary, editor=editor) as it:
        await writing(it)
        assert shown_compactions(it.agent) == []
        turn = await it.agent.start_prompt(it.session, "/compact")
        await it.agent.until(lambda: shown_compactions(it.agent), what="the beginning")
        if editor is ZED_BETA:
            await it.agent.wait_update(
                "compaction_summary_chunk", content={"type": "text", "text": first}
            )
        assert not turn.done
        hold.set()
        assert await turn.result() == {"stopReason": "end_turn"}
        [compaction] = shown_compactions(it.agent)
        assert {*compaction.statuses[:-1]} == {"in_progress"}
        assert compaction.statuses[-1] == "completed"
        assert compaction.text == f"{first}{second}{rest}".strip()
        streamed = [
            line.update
            for line in compaction.lines
            if line.update_kind == "compaction_summary_chunk"
        ]
        if editor is ZED_BETA:
            assert (
                "".join(update["content"]["text"] for update in streamed)
                == f"{first}{second}{rest}"
            )
        assert it.asked == 1
