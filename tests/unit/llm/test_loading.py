"""What is imported before an SDK is needed, and that its import leaves the garbage collector as it was."""

from __future__ import annotations

import subprocess
import sys

from support.checkout import REPOSITORY

PREWARM = """
import gc, sys
from pathlib import Path
import anyio, anyio.to_thread
from acp_agent.config.settings import Settings
from acp_agent.llm.registry import Registry

async def main(name):
    keys = {"ANTHROPIC_API_KEY": "k", "OPENAI_API_KEY": "k", "GEMINI_API_KEY": "k"}
    registry = Registry(Settings(home=Path("/nowhere")), keys)
    await anyio.to_thread.run_sync(registry.load, name)
    before = set(sys.modules)
    await registry.learn_window(name)
    print(*before)
    print(gc.isenabled(), gc.get_freeze_count())
    await registry.aclose()

anyio.run(main, sys.argv[1])
"""


def test_before_a_prompt_all_is_loaded_that_is_small_and_no_sdk_whose_objects_are_never_collected() -> None:
    env = {"HTTPS_PROXY": "http://127.0.0.1:9", "PATH": ""}
    command = [sys.executable, "-c", PREWARM, "anthropic/claude-test"]
    ran = subprocess.run(command, cwd=REPOSITORY, env=env, capture_output=True, text=True, check=True, timeout=50)
    modules, collector = ran.stdout.splitlines()
    assert {"httpx2", "acp_agent.llm.client"} <= set(modules.split())
    assert not set(modules.split()) & {"anthropic", "openai"}
    collects, frozen = collector.split()
    assert collects == "True"
    assert int(frozen) > 50_000
