"""Long work in the terminal shows that it goes on: on stderr alone, and moving only where somebody watches."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import anyio
import anyio.to_thread

from support.checkout import REPOSITORY
from support.models import Reply, ToolCall, Usage, model_server

LONG = "The cart adds prices. " * 200
HIDE, SHOW = "\x1b[?25l", "\x1b[?25h"
TERM = {"TERM": "xterm", "COLUMNS": "100"}


async def watched(home: Path, *words: str, env: dict[str, str]) -> tuple[bytes, str]:
    """What a command prints into a pipe on stdout, and shows on the terminal that is its stderr."""
    terminal, inside = pty.openpty()
    base = {"PATH": os.environ["PATH"], "HOME": str(home), "LANG": "C.UTF-8", "PYTHONPATH": str(REPOSITORY)}

    def run() -> tuple[bytes, str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "acp_agent", *words],
            cwd=home,
            env={**base, "ACP_AGENT_HOME": str(home / "state"), **TERM, **env},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=inside,
        )
        os.close(inside)
        shown = b""
        try:
            while read := os.read(terminal, 65_536):
                shown += read
        except OSError:  # Linux, at the end
            pass
        out, _ = process.communicate(timeout=30)
        assert process.returncode == 0, shown
        return out, shown.decode()

    try:
        return await anyio.to_thread.run_sync(run)
    finally:
        os.close(terminal)


async def test_a_person_sees_what_is_waited_for_and_the_answer_alone_is_on_stdout(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("The cart.\n")
    read = ToolCall("read", {"path": "a.txt"})
    script = [Reply(tool_calls=[read]), Reply(LONG, usage=Usage(9_000, 400)), Reply("# Goal\nCount.")]
    async with model_server(script, "openai") as server:
        out, shown = await watched(tmp_path, "run", "What is here?", env=server.env())
        assert out.decode() == f"{LONG}\n"
        assert "Waiting for the model" in shown
        before, named, _ = shown.partition("→ Read a.txt")
        assert named
        # What moves is gone before anything else is printed.
        assert before.count(HIDE) == before.count(SHOW) > 0
        assert shown.count(HIDE) == shown.count(SHOW)

        out, shown = await watched(tmp_path, "compact", "--follow", env=server.env())
        assert out.decode() == "# Goal\nCount.\n"
        assert "Compacting" in shown
