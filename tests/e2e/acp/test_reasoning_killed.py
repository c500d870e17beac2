"""An agent that is killed in mid-turn: what its log holds makes a next request that is
taken whole.
"""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from support.client import connected_agent
from support.models import BEFORE_HEADERS, DialectName, Reply
from support.reasoning import LOOK, Thinking, both_providers, compaction, thinking

pytestmark = pytest.mark.process

HELD = {"before the answer": BEFORE_HEADERS, "in its call": 3}


@both_providers
@pytest.mark.parametrize("moment", HELD)
async def test_a_session_goes_on_with_its_reasoning_after_a_kill_in_an_answer(
    tmp_path: Path, dialect: DialectName, moment: str
) -> None:
    async with thinking(tmp_path, dialect, connect=connected_agent) as it:
        await it.loop(calls=1)
        hold = anyio.Event()
        cut = Reply(
            ["I ", "look."], tool_calls=[LOOK], hold=hold, hold_after=HELD[moment]
        )
        it.model.first = [Reply("I look.", tool_calls=[LOOK]), cut]
        await it.stage.agent.start_prompt(it.stage.session, "Look twice")
        await it.stage.held()
        await kill(it)
        hold.set()
        async with it.restarted() as later:
            await later.loop(calls=1)
            assert later.kept() >= 4


@both_providers
async def test_a_session_goes_on_with_its_reasoning_after_a_kill_in_a_compaction_and_behind_one(
    tmp_path: Path, dialect: DialectName
) -> None:
    config = compaction(strategy="native")
    async with thinking(
        tmp_path, dialect, connect=connected_agent, config=config
    ) as it:
        await it.grow()
        hold = anyio.Event()
        it.model.native = Reply("A shop.", hold=hold, hold_after=BEFORE_HEADERS)
        await it.stage.agent.start_prompt(it.stage.session, "/compact")
        await it.stage.held()
        await kill(it)
        hold.set()
        it.model.native = None
        async with it.restarted() as later:
            await later.loop(calls=1)
            assert later.kept() >= 12
            await later.say("/compact")
            await later.loop(calls=1)
            kept = later.kept()
            await kill(later)
            async with later.restarted() as latest:
                await latest.loop(calls=1)
                assert latest.kept() == kept + 2


async def kill(it: Thinking) -> None:
    it.stage.agent.kill()
    await it.stage.agent.wait_exit()
    it.stage.agent.problems.clear()
