"""The hooks of a recipe's turn run, and a ready summary is swapped in, after an answer.
They do not after a turn that the user or a limit ended.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from support.background import SUMMARY
from support.compactions import shown_compactions
from support.editors import ZED_BETA
from support.memory import stage
from support.models import Reply, ToolCall

FINISH = "---\nhooks:\n  turn_end: {handler: compact}\n---\nFinish.\n"
WRITES = [
    ToolCall("write", {"path": name, "content": "1"}) for name in ("b.txt", "c.txt")
]


@pytest.mark.parametrize(
    ("last", "stop"),
    [
        (Reply("Done."), "end_turn"),
        (Reply("Let me write.", tool_calls=WRITES), "cancelled"),
        (Reply("Cut", stop="max_tokens"), "max_tokens"),
        (Reply("No.", stop="refusal"), "refusal"),
        (
            Reply("On and on.", tool_calls=[ToolCall("read", {"path": "a.txt"})]),
            "max_turn_requests",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_a_hook_compacts_after_an_answer_and_after_no_other_end_of_a_turn(
    tmp_path: Path, last: Reply, stop: str
) -> None:
    files = {"a.txt": "one\n", ".acp-agent/recipes/fin.md": FINISH}
    config = {"max_turn_requests": 1}
    replies = [
        Reply("The cart adds prices. " * 900),
        Reply("Yes."),
        last,
        Reply(SUMMARY if stop == "end_turn" else ""),
    ]
    async with stage(
        tmp_path, *replies, files=files, editor=ZED_BETA, config=config, trusted=True
    ) as it:
        await it.prompt("One?")
        await it.prompt("Two?")
        it.agent.permission_answer = "cancelled"
        assert await it.prompt("/fin") == {"stopReason": stop}
        compactions = [
            compaction.statuses for compaction in shown_compactions(it.agent)
        ]
        assert compactions == (
            [["in_progress", "completed"]] if stop == "end_turn" else []
        )
        assert len(it.server.calls) == (4 if stop == "end_turn" else 3)
