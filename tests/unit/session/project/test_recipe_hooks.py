"""When the hooks of a recipe's turn run, and when a summary that waits is put in its place: behind an answer, and not
behind what the user or a limit ended."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.background import PREPARE, SUMMARY, held
from support.compactions import shown_compactions
from support.editors import ZED_BETA
from support.memory import desk, stage
from support.models import Reply, ToolCall, Usage

FINISH = "---\nhooks:\n  turn_end: {handler: compact}\n---\nFinish.\n"
WRITES = [ToolCall("write", {"path": name, "content": "1"}) for name in ("b.txt", "c.txt")]


@pytest.mark.parametrize(
    ("last", "stop"),
    [
        (Reply("Done."), "end_turn"),
        (Reply("Let me write.", tool_calls=WRITES), "cancelled"),
        (Reply("Cut", stop="max_tokens"), "max_tokens"),
        (Reply("No.", stop="refusal"), "refusal"),
        (Reply("On and on.", tool_calls=[ToolCall("read", {"path": "a.txt"})]), "max_turn_requests"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_a_hook_compacts_behind_the_answer_and_behind_no_other_end_of_a_turn(
    tmp_path: Path, last: Reply, stop: str
) -> None:
    files = {"a.txt": "one\n", ".acp-agent/recipes/fin.md": FINISH}
    config = {"max_turn_requests": 1}
    replies = [Reply("The cart adds prices. " * 900), Reply("Yes."), last, Reply(SUMMARY if stop == "end_turn" else "")]
    async with stage(tmp_path, *replies, files=files, editor=ZED_BETA, config=config, trusted=True) as it:
        await it.prompt("One?")
        await it.prompt("Two?")
        it.agent.permission_answer = "cancelled"
        assert await it.prompt("/fin") == {"stopReason": stop}
        compactions = [compaction.statuses for compaction in shown_compactions(it.agent)]
        assert compactions == ([["in_progress", "completed"]] if stop == "end_turn" else [])
        assert len(it.server.calls) == (4 if stop == "end_turn" else 3)


async def test_a_summary_that_waits_takes_no_part_in_a_turn_that_the_user_ended(tmp_path: Path) -> None:
    summary, hold = held()
    async with desk(tmp_path, summary) as it:
        await it.filled()
        # With so little in use, what waits is not taken when the next turn opens.
        await it.prompt("Two?", Reply("Second answer.", usage=Usage(5_000, 5)))
        hold.set()
        await it.ready()
        read = ToolCall("read", {"path": str(tmp_path / "a.txt")})
        it.answers = [
            Reply("Step.", tool_calls=[read], usage=Usage(PREPARE, 5)),
            Reply("Step.", tool_calls=[ToolCall("shell", {"command": "true"})] * 2, usage=Usage(PREPARE, 5)),
        ]
        it.agent.permission_answer = "cancelled"
        turn = await it.agent.start_prompt(it.session, "Three?")
        assert await turn.result() == {"stopReason": "cancelled"}
        assert "context_swapped" not in it.logged()
        await it.prompt("Four?", Reply("Fourth answer."))
        [compaction] = shown_compactions(it.agent)
        assert compaction.statuses == ["in_progress", "completed"]
        calls = [block["id"] for message in it.last for block in message["content"] if block["type"] == "tool_use"]
        closed = [b["tool_use_id"] for message in it.last for b in message["content"] if b["type"] == "tool_result"]
        assert calls == closed
        assert len(calls) == 3
