"""Turns continue if a compaction is impossible."""

from __future__ import annotations

from pathlib import Path

from support.background import LONG, THRESHOLD
from support.compactions import shown_compactions
from support.memory import desk
from support.models import Reply, Usage
from support.stored import damage_texts


async def test_if_the_log_is_unreadable_turns_continue_and_compact_says_why(
    tmp_path: Path,
) -> None:
    async with desk(tmp_path, config={"compaction": {"prepare": False}}) as it:
        await it.filled(THRESHOLD)
        damage_texts(tmp_path, "One?", 'One?"')
        await it.prompt("Two?", Reply("Second answer.", usage=Usage(THRESHOLD, 5)))
        assert LONG in str(it.last)
        assert shown_compactions(it.agent) == []
        await it.prompt("/compact")
        assert "The log of this session cannot be read" in it.agent.text()
