"""Started with a stdin or stdout that cannot be a wire: one sentence, and no traceback."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from support.checkout import REPOSITORY

INITIALIZE = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": 1}}

full_device = pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device of Linux")


@pytest.mark.parametrize(
    ("redirection", "problem"),
    [
        ("</dev/null >&-", "started without a stdout"),
        pytest.param("<in.jsonl >/dev/full", "No space left on device", marks=full_device),
    ],
)
def test_what_cannot_be_a_wire_is_said_in_one_sentence(tmp_path: Path, redirection: str, problem: str) -> None:
    (tmp_path / "in.jsonl").write_text(json.dumps(INITIALIZE) + "\n")
    done = subprocess.run(
        ["/bin/sh", "-c", f'exec "$0" -P -m acp_agent {redirection}', sys.executable],
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
    assert problem in line
