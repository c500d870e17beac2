"""The end of an agent that is killed, and of what it had started."""

from __future__ import annotations

import pytest
import os
import signal
from dataclasses import replace
from pathlib import Path

from support.client import AgentProcess
from support.editors import ZED
from support.processes import outlive
from support.replies import Reply, ToolCall
from support.stage import PATIENCE, stage

pytestmark = pytest.mark.process

NO_TERMINAL = replace(ZED, terminal=False)

# A child and a grandchild in the background, and one that ignores the polite signal.
FAMILY = "trap '' TERM; (sleep 600; :) & sh -c 'sleep 600; :' & echo begun; sleep 600; :"


def shell(command: str, **more: object) -> ToolCall:
    return ToolCall("shell", {"command": command, **more})


async def begun(agent: AgentProcess) -> None:
    """Wait until the local command has printed that it began."""
    await agent.wait_for(lambda line: "begun" in str(line.update.get("content")), PATIENCE)


async def test_the_whole_process_group_of_a_command_ends_with_an_agent_that_is_killed(tmp_path: Path) -> None:
    replies = [Reply(tool_calls=[shell("exit 0")]), Reply(tool_calls=[shell(FAMILY), shell(FAMILY)])]
    async with stage(tmp_path, *replies, mode="full-access", editor=NO_TERMINAL) as it:
        await it.agent.start_prompt(it.session, "Work")
        await begun(it.agent)
        family = it.agent.children()
        assert len(family) >= 3
        # As agentic.nvim does it: both at once, to the agent's group.
        os.kill(it.agent.pid, signal.SIGTERM)
        it.agent.kill()
        await it.agent.wait_exit()
        it.agent.problems.clear()
        assert await outlive(family, seconds=5) == set()
