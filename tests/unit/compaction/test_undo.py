"""`/compact undo`: what the model is sent afterwards is what it would have been sent without the compaction."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from support.compactions import bare, is_summary_request, shown_compactions
from support.layers import summarising, whole_text
from support.memory import stage
from support.models import Reply, ToolCall, Usage
from support.stage import Stage

AT_ONCE: Mapping[str, Any] = {"compaction": {"prepare": False, "wait": True}}
SMALL = {"ACP_AGENT_CONTEXT_WINDOW": "30000"}
PROSE = "The cart adds up what the lines cost. " * 60
SUMMARY = "## Goal and requirements\nThe shop."


def answers(number: int) -> Reply:
    return Reply(f"Answer {number}. {PROSE}")


def live(it: Stage) -> dict[str, Any]:
    """The newest request that asked for no summary, without what moves from call to call."""
    return bare(next(call.body for call in reversed(it.server.calls) if not is_summary_request(call.body)))


def summarised(it: Stage) -> dict[str, Any]:
    """What the newest summary request was about: the request as it was, without the recipe's message."""
    asked = bare(next(call.body for call in reversed(it.server.calls) if is_summary_request(call.body)))
    return {**asked, "messages": asked["messages"][:-1]}


def turn(prompt: str, answer: object = None) -> list[dict[str, Any]]:
    said = [{"role": "user", "content": [{"type": "text", "text": prompt}]}]
    if answer is not None:
        said.append({"role": "assistant", "content": [{"type": "text", "text": answer}]})
    return said


async def test_an_automatic_compaction_within_a_turn_is_undone_with_its_prompt_in_its_place(tmp_path: Path) -> None:
    read = ToolCall("read", {"path": "a.txt"}, id="call_1")
    replies = [
        Reply(PROSE * 8, usage=Usage(9_000, 4000)),
        Reply("Step.", tool_calls=[read], usage=Usage(21_000, 10)),
        Reply("Done.", usage=Usage(3_000, 10)),
        Reply("Fine."),
    ]
    script = summarising([SUMMARY], lambda number: replies[number])
    async with stage(tmp_path, script=script, env=SMALL, config=AT_ONCE) as it:
        await it.prompt("What is here?")
        await it.prompt("Find the bug.")
        assert len([call for call in it.server.calls if is_summary_request(call.body)]) == 1
        before = summarised(it)["messages"]
        assert whole_text(it.server.calls[-1].body).count("Find the bug.") == 1
        await it.prompt("/compact undo")
        await it.prompt("Go on.")
        after = live(it)["messages"]
        # The results stood in one message with the recipe's text in the summary request.
        assert after[:3] == before[:3]
        assert [block["type"] for block in after[3]["content"]] == ["text", "tool_use"]
        assert after[4]["content"][0]["type"] == "tool_result"
        assert "three" in str(after[4])
        assert after[5:] == [*turn("x", "Done.")[1:], *turn("Go on.")]


@pytest.mark.parametrize("prepare", [0.7, False], ids=["prepared", "at once"])
async def test_what_was_undone_is_not_compacted_by_itself_again_at_once(tmp_path: Path, prepare: float | bool) -> None:
    # 22,500 tokens are usable: after the undo, more than four fifths of them are filled.
    replies = [
        Reply(PROSE * 12, usage=Usage(9_000, 7_000)),
        Reply("Short.", usage=Usage(19_000, 10)),
        *[answers(0)] * 3,
    ]
    script = summarising([SUMMARY], lambda number: replies[number])
    config = {"compaction": {"prepare": prepare}}
    async with stage(tmp_path, script=script, env=SMALL, config=config) as it:
        await it.prompt("What is here?")
        await it.prompt("/compact")
        await it.prompt("/compact undo")
        await it.prompt("Go on.")
        await it.prompt("And on.")
        assert len([call for call in it.server.calls if is_summary_request(call.body)]) == 1
        assert len(shown_compactions(it.agent)) == 1
        assert PROSE * 12 in whole_text(it.server.calls[-1].body)
