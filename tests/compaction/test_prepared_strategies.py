"""Results of a package's strategy that are prepared while the user works: with a cut, or with messages in a shorter
form alone."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from acp_agent.compaction.strategies.excerpts import SUMMARY as EXCERPTS
from support.background import LONG, PREPARE, THRESHOLD, WINDOW, Desk, desk
from support.compactions import said, shown_compactions
from support.models import Reply, Usage
from support.plugins import install_strategy
from support.waiting import read_pipe, write_pipe

SINCE = "The basket has a lock. " * 300
CUTS = """\
from pathlib import Path
from anyio import to_thread
from acp_agent.compaction import Draft

class Strategy:
    name = "mine"

    async def draft(self, task):
        await to_thread.run_sync(Path(__file__).with_name("begun").write_text, "", abandon_on_cancel=True)
        await to_thread.run_sync(Path(__file__).with_name("go").read_text, abandon_on_cancel=True)
        cut = task.cut()
        return None if cut is None else Draft(cut, "Headlines of the shop.")
"""
SHORTENS = """\
from dataclasses import replace
from pathlib import Path
from anyio import to_thread
from acp_agent.compaction import Draft
from acp_agent.conversation.events import Rewritten
from acp_agent.conversation.messages import AssistantMessage, Text

class Strategy:
    name = "mine"

    async def draft(self, task):
        await to_thread.run_sync(Path(__file__).with_name("begun").write_text, "", abandon_on_cancel=True)
        await to_thread.run_sync(Path(__file__).with_name("go").read_text, abandon_on_cancel=True)
        long = next(each for each in task.state.entries if isinstance(each.message, AssistantMessage))
        shorter = Rewritten(long.seq, replace(long.message, parts=(Text("The shop, in short."),)))
        return Draft(None, "Headlines of the shop.", rewritten=(shorter,))
"""


@asynccontextmanager
async def prepared(tmp_path: Path, code: str, since: str) -> AsyncGenerator[Desk]:
    """A session in which the package's result is ready, and this answer was given after it was begun."""
    env = WINDOW | install_strategy(tmp_path / "packages", "mine", code)
    for pipe in ("begun", "go"):
        os.mkfifo(tmp_path / "packages" / pipe)
    async with desk(tmp_path, config={"compaction": {"strategy": "mine"}}, env=env) as it:
        await it.filled()
        await it.prompt("Two?", Reply("Second answer.", usage=Usage(PREPARE, 5)))
        await read_pipe(tmp_path / "packages" / "begun")
        await it.prompt("Three?", Reply(since, usage=Usage(THRESHOLD, 5)))
        assert shown_compactions(it.agent) == []
        await write_pipe(tmp_path / "packages" / "go")
        await it.ready()
        yield it
        assert it.asked == 0


@pytest.mark.parametrize("code", [CUTS, SHORTENS], ids=["cuts", "shortens"])
async def test_a_package_s_result_is_prepared_and_used_from_four_fifths_on_with_what_was_said_since(
    tmp_path: Path, code: str
) -> None:
    async with prepared(tmp_path, code, SINCE) as it:
        await it.prompt("Four?", Reply("Fourth answer."))
        [compaction] = shown_compactions(it.agent)
        assert (compaction.statuses, compaction.text) == (["in_progress", "completed"], "Headlines of the shop.")
        assert "prepared in the background" in compaction.receipt
        assert [said(message) for message in it.last[-3:]] == ["Three?", SINCE, "Four?"]
        assert not it.server.calls[-1].mentions(LONG)
        # What was said since is counted: the provider does not count more than was shown right after the swap.
        before, after, counted = [update["used"] for update in it.agent.updates(kind="usage_update")][-3:]
        assert before >= THRESHOLD
        assert after >= counted


async def test_a_package_s_prepared_result_that_is_not_enough_any_more_gives_way_to_excerpts(tmp_path: Path) -> None:
    async with prepared(tmp_path, SHORTENS, SINCE * 5) as it:
        await it.prompt("Four?", Reply("Fourth answer."))
        [compaction] = shown_compactions(it.agent)
        assert (compaction.statuses, compaction.text) == (["in_progress", "completed"], EXCERPTS)
        assert "too little would be gained by the shorter messages" in compaction.receipt
        assert "compaction_failed" not in it.logged()
