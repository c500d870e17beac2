"""An invented name in a summary with `verify: mark`, in requests and in the editor."""

from __future__ import annotations

from pathlib import Path

from support.compactions import both_editors, shown_compactions
from support.editors import Editor
from support.layers import layers
from support.memory import stage
from support.models import Reply, ToolCall

SUMMARY = """\
## Goal and requirements
The user asked for the bug in `a.txt`. It has three lines [#3]. It is in `src/ghost.py`{0}, at 4711{0} lines, see \
https://ghost.example/plan{0}. It says "drop the whole database"{0}.
"""
OTHERS = (
    "Decisions",
    "Files",
    "Commands and tests",
    "Errors and fixes",
    "Current state",
    "Open work",
)
INVENTED = (
    "src/ghost.py",
    "4711",
    "https://ghost.example/plan",
    "drop the whole database",
)


def summary(mark: str = "") -> str:
    return "\n\n".join(
        [SUMMARY.format(mark).strip(), *(f"## {title}\nNone." for title in OTHERS)]
    )


@both_editors
async def test_an_invented_name_is_marked_in_the_context_and_listed_in_the_receipt(
    tmp_path: Path, editor: Editor
) -> None:
    read = Reply("I look.", tool_calls=[ToolCall("read", {"path": "a.txt"})])
    said = Reply(f"Three lines. {'The cart adds up what the lines cost. ' * 60}")
    async with stage(
        tmp_path, read, said, Reply(summary()), Reply("Going on."), editor=editor
    ) as it:
        await it.prompt("Find the bug in a.txt.")
        await it.prompt("/compact")
        [compaction] = shown_compactions(it.agent)
        assert compaction.statuses[-1] == "completed"
        told = compaction.receipt.splitlines()[1]
        assert (
            told
            == f"Not found in the conversation: {', '.join(f'`{piece}`' for piece in INVENTED)}"
        )
        await it.prompt("Go on.")
        # The last word carries the whole text, since what streamed had no marks.
        sent = layers(it.server.calls[-1].body)["conversation_summary"].partition(
            "\n\n"
        )[2]
        assert compaction.text == sent == summary(" [unverified]")
