"""The end of the process where there is no wire, or while something is still being
loaded in the background.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from acp_agent.processes import close_watchdog, run_group
from support.client import ROOT, connected_agent
from support.processes import descendants, outlive
from support.slow_modules import begun, hanging


@pytest.mark.process
async def test_an_interrupt_while_the_agent_is_still_being_loaded_ends_it_without_a_word(
    tmp_path: Path,
) -> None:
    slow = hanging(tmp_path, "acp_agent.app")
    env = {"PYTHONPATH": f"{slow}{os.pathsep}{ROOT}"}
    async with connected_agent(home=tmp_path / "home", env=env) as agent:
        await begun(slow)
        agent.process.send_signal(signal.SIGINT)
        assert await agent.wait_exit() == 0
        assert agent.stderr == ""


async def test_the_watchdog_ends_before_the_process_that_it_watches(
    tmp_path: Path,
) -> None:
    await run_group(["true"], tmp_path, timeout=5, on_data=lambda *_: None)
    watchdogs = {
        process
        for process in descendants(os.getpid())
        if "acp-agent-watchdog" in process.command
    }
    assert watchdogs
    close_watchdog()
    assert await outlive(watchdogs, 5) == set()
