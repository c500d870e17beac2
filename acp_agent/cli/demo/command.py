"""`acp-agent demo`: the agent at work on a scratch project, a process for each prompt; a script plays the model."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Mapping
from difflib import unified_diff
from pathlib import Path

import anyio
import anyio.to_thread

from acp_agent import __version__
from acp_agent.cli.demo.project import agent_environment, run_tests, scratch_folder

_TASK = "The tests of this project fail. Find out why, mend it, and show me that they pass."
_LATER = "Good. Later, when I say so, I also want a test for a night shift with a break."
_INSTRUCTIONS = "keep the test that I still want"
_NOW = "Now the test that I asked for."


def add_arguments(_: argparse.ArgumentParser) -> None:
    """Add nothing: the sub-command has no arguments."""


async def run(_: argparse.Namespace) -> int:
    """Show the agent at work. What it starts and makes is gone when it ends, however it ends.

    :returns: 0; 1 where it did not happen as promised.
    :raises AgentError: it cannot begin.
    """
    began = time.monotonic()
    with scratch_folder() as root:
        project = root / "timesheet"
        env = agent_environment(root, os.environ)
        before = run_tests(project)
        _say(
            f"acp-agent {__version__}, a demo. A script plays the model; files, tools, tests and token counts are real."
        )
        _say(f"Project: {project}, a timesheet program; {before}.")
        _heading("A failing test")
        await _agent(project, env, "run", "--mode", "accept-edits", _TASK)
        mended = await anyio.to_thread.run_sync(run_tests, project)
        await _agent(project, env, "run", "--follow", _LATER)
        _heading("Compaction")
        compacted = await _agent(project, env, "compact", "--follow", _INSTRUCTIONS) == 0
        _heading("Another process goes on: what “the test” is, stands in what the compaction kept")
        await _agent(project, env, "run", "--follow", _NOW)
        after = await anyio.to_thread.run_sync(run_tests, project)
    promises = {
        f"Tests: {before} → {mended}": bool(before.failed) and not mended.failed,
        "Compaction": compacted,
        f"The test that was meant: {after}": not after.failed and after.total > before.total,
    }
    _heading("What came of it")
    for promise, kept in promises.items():
        _say(f"{'✓' if kept else '✗'} {promise}")
    _say(f"The scratch project {project} is deleted. That took {time.monotonic() - began:.0f} s.")
    return 0 if all(promises.values()) else 1


def _say(text: str) -> None:
    print(text, flush=True)


def _heading(text: str) -> None:
    _say(f"\n━━ {text} ━━")


async def _agent(project: Path, env: Mapping[str, str], *words: str) -> int:
    """Run the agent's command line in the project, show what it changed there, and return its exit status."""
    _say(f"\n$ acp-agent {' '.join(words[:-1])} {words[-1]!r}")
    before = _texts(project)
    command = [sys.executable, "-P", "-m", "acp_agent", *words]
    process = await anyio.open_process(command, stdin=None, stdout=None, stderr=None, cwd=project, env=env)
    try:
        status = await process.wait()
    finally:
        if process.returncode is None:
            process.terminate()
            with anyio.CancelScope(shield=True):
                await process.wait()
    for name, text in _texts(project).items():
        old, new = before.get(name, "").splitlines(), text.splitlines()
        for line in unified_diff(old, new, name, name, n=1, lineterm=""):
            _say(f"  {line}")
    return status


def _texts(project: Path) -> dict[str, str]:
    return {path.name: path.read_text("utf-8", "replace") for path in sorted(project.glob("*.py"))}
