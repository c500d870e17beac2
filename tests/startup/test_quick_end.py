"""The end of the process while something is still being loaded in the background."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from support.client import ROOT, connected_agent

ENDLESS = """
import pathlib, sys, threading

class Endless:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            pathlib.Path(__file__).with_name("began").write_text("yes")
            threading.Event().wait()

sys.meta_path.insert(0, Endless())
"""
MODULES = {"recipes": "yaml", "the params of a prompt": "pydantic.alias_generators", "an SDK": "anthropic"}


@pytest.mark.parametrize("module", MODULES.values(), ids=MODULES)
async def test_the_end_does_not_wait_for_a_module_that_is_being_loaded(tmp_path: Path, module: str) -> None:
    """The module takes for ever, as on a disk that does not answer."""
    slow = tmp_path / "slow"
    slow.mkdir()
    (slow / "sitecustomize.py").write_text(ENDLESS.format(module=module))
    os.mkfifo(slow / "began")
    env = {"PYTHONPATH": f"{slow}{os.pathsep}{ROOT}", "ANTHROPIC_API_KEY": "key"}
    async with connected_agent(home=tmp_path / "home", env=env) as agent:
        await agent.new_session(tmp_path)
        with anyio.fail_after(20):
            await anyio.to_thread.run_sync((slow / "began").read_text, abandon_on_cancel=True)
        await agent.close_stdin()
        assert await agent.wait_exit() == 0


async def test_an_interrupt_while_the_agent_is_still_being_loaded_ends_it_without_a_word(tmp_path: Path) -> None:
    slow = tmp_path / "slow"
    slow.mkdir()
    (slow / "sitecustomize.py").write_text(ENDLESS.format(module="acp_agent.app"))
    os.mkfifo(slow / "began")
    env = {"PYTHONPATH": f"{slow}{os.pathsep}{ROOT}"}
    async with connected_agent(home=tmp_path / "home", env=env) as agent:
        with anyio.fail_after(20):
            await anyio.to_thread.run_sync((slow / "began").read_text, abandon_on_cancel=True)
        agent.process.send_signal(signal.SIGINT)
        assert await agent.wait_exit() == 0
        assert agent.stderr == ""
