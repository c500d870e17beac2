"""`acp-agent demo` as a process: where it runs, what it printed, and that nothing is left of it."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from support.checkout import environment
from support.processes import marked

SECONDS = 150


@dataclass(frozen=True, slots=True)
class Place:
    """Where a demo runs.

    :ivar scratch: its folder for temporary files.
    :ivar mark: in the environment of each of its processes.
    """

    env: dict[str, str]
    home: Path
    scratch: Path
    mark: str

    def nothing_left(self) -> None:
        assert list(self.scratch.iterdir()) == []
        assert marked(self.mark) == set()


def place(tmp_path: Path) -> Place:
    home, scratch, mark = tmp_path / "home", tmp_path / "scratch", uuid4().hex
    home.mkdir()
    scratch.mkdir()
    # A server of the machine must not be found to be a model.
    base = {**environment(home), "TMPDIR": str(scratch), "DEMO_TEST_MARK": mark, "no_proxy": "*"}
    del base["ACP_AGENT_HOME"]
    return Place(base, home, scratch, mark)


def run_demo(where: Place) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-m", "acp_agent", "demo"],
        env=where.env,
        cwd=where.home,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=SECONDS,
        check=False,
    )
    assert "Traceback" not in done.stdout + done.stderr
    return done


def in_order(text: str, *pieces: str) -> None:
    """Assert that a text holds these, each behind the one before."""
    position = 0
    for piece in pieces:
        found = text.find(piece, position)
        assert found >= 0, f"{piece!r} does not come after character {position} of:\n{text}"
        position = found + len(piece)
