"""This checkout, and what a child process is told of it.

succeed(agent, "--version", cwd=tmp_path)           # a command that must not see it
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]


def environment(home: Path) -> dict[str, str]:
    """All variables of an agent of this checkout, whose state is in `home / "state"`;
    under coverage it is measured.
    """
    base = {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": str(home),
        "LANG": "C.UTF-8",
    }
    base |= {"PYTHONPATH": str(REPOSITORY), "ACP_AGENT_HOME": str(home / "state")}
    return base | {
        name: value
        for name, value in os.environ.items()
        if name.startswith("COVERAGE_")
    }


def succeed(*command: str | Path, cwd: Path) -> str:
    """Run a command that must succeed, without the variables that would lend it this
    interpreter's modules.

    :return: what it printed to stdout.
    :raises AssertionError: it failed; the text holds all it printed.
    """
    env = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTHON", "COVERAGE"))
    }
    done = subprocess.run(
        command,
        cwd=cwd,
        env=env,
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    if done.returncode:
        line = " ".join(map(str, command))
        raise AssertionError(
            f"`{line}` ended with {done.returncode}:\n{done.stdout}{done.stderr}"
        )
    return done.stdout
