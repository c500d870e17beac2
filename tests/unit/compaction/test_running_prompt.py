"""The prompt of the running turn gives way last: only where the request could not be sent otherwise, and only as far as
the window demands."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from acp_agent.compaction.strategies.excerpts import SUMMARY as EXCERPTS
from support.compactions import shown_compactions
from support.dialogues import check_legal, pieces, system_of, texts
from support.editors import ZED_BETA
from support.memory import stage
from support.replies import Reply, Usage
from support.stage import Stage

TOO_LONG = {"type": "error", "error": {"type": "invalid_request_error", "message": "prompt is too long"}}


def tokens(body: Mapping[str, Any]) -> int:
    """As the model server counts a request."""
    text = sum(len(piece.text) for piece in pieces(body)) + len(system_of(body)) + len(json.dumps(body["tools"]))
    return text // 4


def pasted(lines: int) -> str:
    return "PASTE " + "".join(f"line {number} of it.\n" for number in range(lines)) + "What is this?"


@asynccontextmanager
async def talked(tmp_path: Path, window: int, **compaction: Any) -> AsyncGenerator[Stage, None]:
    """A session of three long answers with a model that takes no more than its window and writes no summary."""

    def answer(body: Mapping[str, Any]) -> Reply:
        used = tokens(body) if "tools" in body else 0
        if used > window:
            return Reply(http_status=400, body=TOO_LONG)
        long = texts(body)[-1].startswith("Question")
        return Reply("Well, it is so. " * 600 if long else "It is a paste.", usage=Usage(used, 2_400 if long else 5))

    async with stage(
        tmp_path,
        script=answer,
        editor=ZED_BETA,
        config={"compaction": {"prepare": False, **compaction}},
        env={"ACP_AGENT_CONTEXT_WINDOW": str(window)},
        dialect="anthropic",
    ) as it:
        for turn in range(1, 4):
            assert await it.prompt(f"Question {turn}?") == {"stopReason": "end_turn"}
        yield it


@pytest.mark.parametrize(
    ("window", "lines", "strategy"),
    [(20_000, 2_300, "summary"), (40_000, 4_900, "excerpts")],
    ids=["where it has to fit", "at the threshold"],
)
async def test_a_long_prompt_stays_word_for_word_where_the_request_fits_with_it(
    tmp_path: Path, window: int, lines: int, strategy: str
) -> None:
    async with talked(tmp_path, window, strategy=strategy) as it:
        prompt = pasted(lines)
        assert await it.prompt(prompt) == {"stopReason": "end_turn"}
        [shown] = shown_compactions(it.agent)
        assert (shown.statuses, shown.text) == (["in_progress", "completed"], EXCERPTS)
        last = it.server.calls[-1].body
        check_legal(last)
        assert texts(last)[-1] == prompt
        assert "shortened" not in shown.receipt
        assert len(last["messages"]) < len(it.server.calls[2].body["messages"])


async def test_a_prompt_that_is_larger_than_the_window_is_shortened_no_further_than_it_takes(tmp_path: Path) -> None:
    async with talked(tmp_path, 20_000) as it:
        prompt = pasted(4_300)
        assert len(prompt) // 4 + 2_000 > 20_000 - 2_048
        assert await it.prompt(prompt) == {"stopReason": "end_turn"}
        last = it.server.calls[-1].body
        check_legal(last)
        shorter = texts(last)[-1]
        assert shorter.startswith("PASTE line 0 of it.\n")
        assert shorter.endswith("What is this?")
        assert "characters" in shorter
        # A quarter of so small a window is left for the answer, and no more is given up.
        assert 20_000 * 0.70 < tokens(last) <= 20_000 * 0.75
