"""This checkout, and commands that run outside of it.

    succeed(agent, "--version", cwd=tmp_path)

Owns where the checkout is and how a child process is kept from seeing it. Knows nothing of agents.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]


def succeed(*command: str | Path, cwd: Path) -> str:
    """Run a command that must succeed, without the variables that would lend it this interpreter's modules.

    :param command: program and arguments.
    :param cwd: the folder to run it in.
    :return: what it printed to stdout.
    :raises AssertionError: it failed; the text holds all it printed.
    """
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "COVERAGE"))}
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=50, check=False)
    if done.returncode:
        line = " ".join(map(str, command))
        raise AssertionError(f"`{line}` ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout
