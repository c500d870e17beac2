"""`/compact preview` and `/compact status`: what they show, and that they change
nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from support.compactions import both_editors, shown_compactions
from support.editors import Editor
from support.layers import layers, summarising
from support.memory import stage
from support.models import Reply, ToolCall, Usage
from support.stage import Stage

AT_ONCE: Mapping[str, Any] = {"compaction": {"prepare": False}}
SMALL = {"ACP_AGENT_CONTEXT_WINDOW": "30000"}
PROSE = "The cart adds up what the lines cost. " * 60
SUMMARY = "## Goal and requirements\nThe shop."


def answers(number: int) -> Reply:
    return Reply(f"Answer {number}. {PROSE * 2}")


async def answer_to(it: Stage, prompt: str) -> str:
    begun = len(it.agent.lines)
    assert await it.prompt(prompt) == {"stopReason": "end_turn"}
    return it.agent.text(since=begun)


async def test_a_preview_states_what_the_compaction_then_does(tmp_path: Path) -> None:
    replies = [
        Reply(tool_calls=[ToolCall("read", {"path": "a.txt"})]),
        *(answers(number) for number in range(9)),
    ]
    script = summarising([SUMMARY], lambda number: replies[number])
    async with stage(tmp_path, script=script, env=SMALL, config=AT_ONCE) as it:
        await it.prompt("Never rename a.txt. Read it.")
        for number in range(5):
            await it.prompt(f"Question {number}.")
        said = await answer_to(it, "/compact preview")
        assert "Nothing was changed." in said
        numbers = re.search(
            r"Replaced: (\d+) messages.*Kept unchanged: (\d+) messages?,",
            said,
            re.DOTALL,
        )
        assert numbers is not None
        after = re.search(r"Afterwards: about ([\d,]+) tokens; ([\d,]+) saved", said)
        assert after is not None
        assert int(after[2].replace(",", "")) > 0
        await it.prompt("/compact")
        [compaction] = [
            one for one in shown_compactions(it.agent) if one.text == SUMMARY
        ]
        assert (
            f"{numbers[1]} messages replaced · {numbers[2]} kept" in compaction.receipt
        )
        await it.prompt("Go on.")
        there = layers(it.server.calls[-1].body)
        quoted = said.partition("would read without a summary:")[2]
        unquoted = "\n".join(
            line.removeprefix(">").removeprefix(" ") for line in quoted.splitlines()
        )
        assert there["carried_over"].strip() in unquoted
        assert "Never rename a.txt." in there["carried_over"]
        assert "<recorded_excerpts>" in unquoted
        assert "recorded_excerpts" in there


@both_editors
async def test_a_receipt_states_size_messages_seconds_cost_and_cache_on_replay_too(
    tmp_path: Path, editor: Editor
) -> None:
    summary = Reply(SUMMARY, usage=Usage(input=500, output=100, cache_read=1_500))
    prices = {"input": 1000, "output": 1000, "cached_input": 1000}
    config = {**AT_ONCE, "models": {"anthropic/claude-test": {"prices": prices}}}
    async with stage(
        tmp_path,
        script=summarising([summary], answers),
        editor=editor,
        config=config,
        dialect="anthropic",
    ) as it:
        await it.prompt("What is in the cart?")
        await it.prompt("/compact")
        [shown] = shown_compactions(it.agent)
        size = r"[\d,]+ → [\d,]+ tokens · 2 messages replaced · 0 kept"
        took = r"(\d+\.\d|under 0\.1) s · \$2\.10"
        assert shown.text == SUMMARY
        assert re.fullmatch(
            f"{size} · {took} · 75% of the prompt cached", shown.receipt.splitlines()[0]
        )
        async with it.restarted() as later:
            await later.agent.load(it.session, it.folder)
            [replayed] = shown_compactions(later.agent)
            assert (replayed.text, replayed.receipt) == (shown.text, shown.receipt)
            assert replayed.statuses == ["completed"]


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("prevew", "preview"),
        ("Preview", "preview"),
        ("prev", "preview"),
        ("stauts", "status"),
        ("status.", "status"),
        ("udno", "undo"),
        ("undo!", "undo"),
    ],
)
async def test_a_misspelt_subcommand_of_compact_does_nothing_and_is_named(
    tmp_path: Path, typed: str, meant: str
) -> None:
    async with stage(tmp_path, script=summarising([SUMMARY], answers)) as it:
        await it.prompt("What is in the cart?")
        asked = len(it.server.calls)
        since = len(it.agent.lines)
        assert await it.prompt(f"/compact {typed}") == {"stopReason": "end_turn"}
        said = it.agent.text(since=since)
        assert f"Did you mean `/compact {meant}`? Nothing was changed." in said
        assert f"`/compact keep {typed}`" in said
        assert len(it.server.calls) == asked
        assert not shown_compactions(it.agent)


@pytest.mark.parametrize("words", ["tests", "start", "review the previous status"])
async def test_instructions_that_only_resemble_a_subcommand_compact(
    tmp_path: Path, words: str
) -> None:
    async with stage(
        tmp_path, script=summarising([SUMMARY], answers), config=AT_ONCE
    ) as it:
        await it.prompt("What is in the cart?")
        await it.prompt(f"/compact {words}")
        [shown] = shown_compactions(it.agent)
        assert shown.statuses[-1] == "completed"
