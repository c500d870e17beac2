"""Started with a stdin or stdout that cannot be a wire: one sentence, and no traceback."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from support.checkout import REPOSITORY


def test_what_cannot_be_a_wire_is_said_in_one_sentence(tmp_path: Path) -> None:
    done = subprocess.run(
        ["/bin/sh", "-c", 'exec "$0" -P -m acp_agent </dev/null >&-', sys.executable],
        cwd=tmp_path,
        env={"HOME": str(tmp_path), "PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )
    assert done.returncode == 1
    [line] = done.stderr.splitlines()
    assert line.startswith("acp-agent: cannot speak on stdin and stdout: ")
    assert "started without a stdout" in line
