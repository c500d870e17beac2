"""What providers count, where no count can be so high."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from acp_agent.llm.provider import Answered
from support.adapters import DIALECTS, collect, playing, request
from support.memory import stage
from support.models import Reply, Usage

COUNTS = pytest.mark.parametrize(
    "count", [float("1e400"), float("nan"), 1e300, 10**400, -(10**400)], ids=str
)


@pytest.mark.parametrize("dialect", DIALECTS)
@COUNTS
async def test_a_count_that_is_out_of_range_counts_as_absent(
    dialect: str, count: Any
) -> None:
    async with playing(
        dialect, Reply("Yes.", usage=Usage(count, count, count, count))
    ) as (provider, _):
        answered = (await collect(provider, request()))[-1]
    assert isinstance(answered, Answered)
    assert 0 <= answered.usage.total_tokens < 100


@COUNTS
async def test_a_count_that_is_out_of_range_ends_no_turn(
    tmp_path: Path, count: Any
) -> None:
    async with stage(
        tmp_path, Reply("Yes.", usage=Usage(count, count, count)), Reply("Again.")
    ) as it:
        assert await it.prompt("One?") == {"stopReason": "end_turn"}
        assert await it.prompt("Two?") == {"stopReason": "end_turn"}
        assert it.agent.text() == "Yes.\nAgain."
