"""`acp-agent demo` as a person sees it: to its end, and interrupted."""

from __future__ import annotations

import os
import re
import signal
import sys
from pathlib import Path

import anyio

from support.demo import SECONDS, in_order, place, run_demo
from support.processes import marked

READY = "A script plays the model"


def test_without_a_model_a_script_plays_all_of_it_and_nothing_is_left(tmp_path: Path) -> None:
    where = place(tmp_path)
    done = run_demo(where)
    assert done.returncode == 0
    where.nothing_left()
    assert list(where.home.iterdir()) == []
    assert "\x1b" not in done.stdout  # this is no terminal
    in_order(
        done.stdout,
        READY,
        "1 of 4 tests fails",
        "All four tests pass.",
        "-        return self.end - self.start - self.pause\n",
        "+        return (self.end - self.start) % DAY - self.pause\n",
        "$ acp-agent compact",
        "## Goal and requirements",
        "## Open work",
        "'Now the test that I asked for.'",
        "+    def test_a_night_shift_may_have_a_break(self) -> None:",
        "✓ Tests: 1 of 4 tests fails → all 4 tests pass",
        "✓ Compaction",
        "✓ The test that was meant: all 5 tests pass",
    )
    assert "Not allowed" not in done.stderr
    assert len(re.findall("^→ python3 -m unittest", done.stderr, re.MULTILINE)) == 3


async def test_an_interrupted_demo_ends_the_agent_and_removes_its_folder(tmp_path: Path) -> None:
    where = place(tmp_path)
    command = [sys.executable, "-m", "acp_agent", "demo"]
    process = await anyio.open_process(command, env=where.env, cwd=where.home, start_new_session=True)
    try:
        assert process.stdout is not None
        assert process.stderr is not None
        seen = ""
        with anyio.fail_after(SECONDS):
            while "I will look" not in seen:
                seen += (await process.stdout.receive()).decode("utf-8", "replace")
        assert len(marked(where.mark)) >= 2
        process.send_signal(signal.SIGTERM)
        with anyio.fail_after(10):
            assert await process.wait() == 128 + signal.SIGTERM
        assert b"".join([piece async for piece in process.stderr]).endswith(b"acp-agent: interrupted.\n")
    finally:
        if process.returncode is None:
            os.killpg(process.pid, signal.SIGKILL)
        with anyio.CancelScope(shield=True):
            await process.aclose()
    where.nothing_left()
