"""`/compact preview` and `/compact status`: what they say, and that nothing changes by asking."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from support.client import AgentError
from support.compactions import both_editors, shown_compactions
from support.editors import Editor
from support.layers import layers, summarising
from support.models import Reply, ToolCall, Usage
from support.stage import Stage, stage

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


async def test_a_preview_says_what_the_compaction_then_does(tmp_path: Path) -> None:
    replies = [Reply(tool_calls=[ToolCall("read", {"path": "a.txt"})]), *(answers(number) for number in range(9))]
    script = summarising([SUMMARY], lambda number: replies[number])
    async with stage(tmp_path, script=script, env=SMALL, config=AT_ONCE) as it:
        await it.prompt("Never rename a.txt. Read it.")
        for number in range(5):
            await it.prompt(f"Question {number}.")
        said = await answer_to(it, "/compact preview")
        assert "Nothing was changed." in said
        numbers = re.search(r"Replaced: (\d+) messages.*Kept as they are: (\d+) messages?,", said, re.DOTALL)
        assert numbers is not None
        after = re.search(r"Afterwards: about ([\d,]+) tokens; ([\d,]+) saved", said)
        assert after is not None
        assert int(after[2].replace(",", "")) > 0
        await it.prompt("/compact")
        [compaction] = [one for one in shown_compactions(it.agent) if one.text == SUMMARY]
        assert f"{numbers[1]} messages replaced · {numbers[2]} kept" in compaction.receipt
        await it.prompt("Go on.")
        there = layers(it.server.calls[-1].body)
        quoted = said.partition("would read without a summary:")[2]
        unquoted = "\n".join(line.removeprefix(">").removeprefix(" ") for line in quoted.splitlines())
        assert there["carried_over"].strip() in unquoted
        assert "Never rename a.txt." in there["carried_over"]
        assert "<recorded_excerpts>" in unquoted
        assert "recorded_excerpts" in there


async def test_a_preview_of_masking_counts_the_results_that_would_give_way(tmp_path: Path) -> None:
    big = ToolCall("shell", {"command": "seq 100000 103000"})
    replies = [Reply(tool_calls=[big]), *(answers(number) for number in range(6))]
    config = {"compaction": {"prepare": False, "strategy": "mask"}}
    script = summarising([], lambda number: replies[number])
    env = {"ACP_AGENT_CONTEXT_WINDOW": "40000"}
    async with stage(tmp_path, script=script, env=env, config=config, mode="full-access") as it:
        for _ in range(3):
            await it.prompt(f"Go on. {PROSE * 6}")
        said = await answer_to(it, "/compact preview")
        assert "summary" not in said
        await it.prompt("/compact")
        [compaction] = shown_compactions(it.agent)
        assert compaction.text in said
        assert compaction.receipt.partition(" · ")[0] in said
        assert "1 shortened" in compaction.receipt


async def test_the_status_lists_compactions_that_held_that_failed_and_that_were_undone(tmp_path: Path) -> None:
    script = summarising([SUMMARY, Reply(http_status=400), SUMMARY], answers)
    async with stage(tmp_path, script=script, config=AT_ONCE, dialect="anthropic") as it:
        said = await answer_to(it, "/compact status")
        assert "Window: 200,000 tokens" in said
        assert "Compactions so far: none" in said
        assert "at 80% of the usable window" in said
        await it.prompt("What is in the cart?")
        await it.prompt("/compact")
        await it.prompt("And now?")
        with pytest.raises(AgentError):
            await it.prompt("/compact")
        await it.prompt("/compact")
        await it.prompt("/compact undo")
        said = await answer_to(it, "/compact status")
        history = said.partition("Compactions so far:")[2].strip().splitlines()
        first, failed, second, undone = (line for line in history if line.lstrip().startswith("- #"))
        assert "manual, summary: " in first
        assert " → " in first
        assert "2 messages replaced" in first
        assert "manual, failed: " in failed
        assert "history is unchanged" in failed
        assert "manual, summary (undone): " in second
        assert undone.endswith(f"undo of {second.split()[1]}")


@both_editors
async def test_a_receipt_tells_size_messages_seconds_cost_and_the_share_of_the_cache_and_is_replayed(
    tmp_path: Path, editor: Editor
) -> None:
    summary = Reply(SUMMARY, usage=Usage(input=500, output=100, cache_read=1_500))
    prices = {"input": 1000, "output": 1000, "cached_input": 1000}
    config = {**AT_ONCE, "models": {"anthropic/claude-test": {"prices": prices}}}
    async with stage(
        tmp_path, script=summarising([summary], answers), editor=editor, config=config, dialect="anthropic"
    ) as it:
        await it.prompt("What is in the cart?")
        await it.prompt("/compact")
        [shown] = shown_compactions(it.agent)
        size, took = r"[\d,]+ → [\d,]+ tokens · 2 messages replaced · 0 kept", r"(\d+\.\d|under 0\.1) s · \$2\.10"
        assert shown.text == SUMMARY
        assert re.fullmatch(f"{size} · {took} · 75% of the prompt cached", shown.receipt.splitlines()[0])
        async with it.restarted() as later:
            await later.agent.load(it.session, it.folder)
            [replayed] = shown_compactions(later.agent)
            assert (replayed.text, replayed.receipt) == (shown.text, shown.receipt)
            assert replayed.statuses == ["completed"]
