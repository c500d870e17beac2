"""A summary that waits or is being written, and another process that changes the conversation meanwhile."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from support.background import OTHER, SUMMARY, held, live, prepared
from support.client import AgentError
from support.compactions import messages, said, shown_compactions
from support.editors import ZED_BETA
from support.memory import agent_in_memory, desk
from support.models import Reply, Usage
from support.terminal import run_command


@pytest.mark.parametrize(("who", "state"), [("a terminal", "ready")])
async def test_what_another_process_compacted_meanwhile_is_gone_on_with(tmp_path: Path, who: str, state: str) -> None:
    summary, hold = held(usage=Usage(500, 50))
    async with desk(tmp_path, summary, Reply(OTHER)) as it:
        await prepared(it, hold, state)
        if who == "a terminal":
            ran = await run_command(tmp_path, "compact", "-c", it.session, env=it.env)
            assert ran.code == 0, ran.err
        else:
            async with agent_in_memory(home=tmp_path, env=it.env, capabilities=ZED_BETA) as other:
                await other.resume(it.session, tmp_path)
                await other.prompt(it.session, "/compact")
                assert [shown.statuses for shown in shown_compactions(other)] == [["in_progress", "completed"]]
        it.summaries = [held()[0]]
        await it.prompt("Three?", Reply("Third answer."))
        # One swap, the other process's: the summary of what it has replaced is used nowhere.
        assert it.logged().count("context_swapped") == 1
        assert shown_compactions(it.agent) == []
        assert OTHER in said(messages(live(it))[0])
        assert not it.server.calls[-1].mentions(SUMMARY)
        assert it.logged().count("summary_dropped") == (state == "ready")
        if state == "running":
            await it.server.wait_aborted()


async def test_a_turn_that_another_process_compacts_under_ends_once_and_its_summary_is_not_spliced(
    tmp_path: Path,
) -> None:
    summary, hold = held()
    async with desk(tmp_path, summary, Reply(OTHER)) as it:
        await it.filled()
        pause = anyio.Event()
        it.answers = [Reply(["Second ", "answer."], hold=pause, hold_after=1)]
        turn = await it.agent.start_prompt(it.session, "Two?")
        await it.server.wait_held(2)
        hold.set()
        await it.server.wait_finished(2)
        ran = await run_command(tmp_path, "compact", "-c", it.session, env=it.env)
        assert ran.code == 0, ran.err
        pause.set()
        with pytest.raises(AgentError, match="Another process has worked on this session"):
            await turn.result()
        it.summaries = [held()[0]]
        await it.prompt("Three?", Reply("Third answer."))
        assert it.logged().count("context_swapped") == 1
        assert shown_compactions(it.agent) == []
        assert OTHER in said(messages(live(it))[0])
