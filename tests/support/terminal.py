"""The agent's command line, run as a person types it.

    ran = await run_command(home, "sessions", "rm", session)
    assert (ran.code, ran.out, ran.err) == (0, "Removed …\n", "")

Owns the process and its environment, which is that of `support.client`. Knows nothing of sub-commands.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import anyio.to_thread

from support.checkout import REPOSITORY


@dataclass(frozen=True, slots=True)
class Ran:
    """How a command ended.

    :ivar code: its exit status.
    """

    code: int
    out: str
    err: str


async def run_command(home: Path, *words: str, env: Mapping[str, str] | None = None, stdin: str = "") -> Ran:
    """Run `acp-agent` in `home`, with its state where `start_agent` has it.

    :param words: the arguments.
    :param env: added to the few variables that it inherits.
    :raises AssertionError: it printed a traceback.
    """
    base = {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(home), "LANG": "C.UTF-8"}
    base |= {"PYTHONPATH": str(REPOSITORY), "ACP_AGENT_HOME": str(home / "state")}
    base |= {name: value for name, value in os.environ.items() if name.startswith("COVERAGE_")}

    def run() -> Ran:
        done = subprocess.run(
            [sys.executable, "-m", "acp_agent", *words],
            cwd=home,
            env={**base, **(env or {})},
            input=stdin,
            capture_output=True,
            text=True,
            timeout=50,
            check=False,
        )
        return Ran(done.returncode, done.stdout, done.stderr)

    ran = await anyio.to_thread.run_sync(run)
    assert "Traceback" not in ran.err, ran.err
    return ran
