"""Allowing a project's hooks and recipes, as a person does with `acp-agent trust`.

    write(folder, ".acp-agent/recipes/fix.md"); trust(home, folder)     # before the session's first prompt

Knows the command line, and neither the store nor the question. Imports nothing of acp_agent.
"""

from __future__ import annotations

import os
from pathlib import Path

from support import forked
from support.checkout import REPOSITORY


def trust(home: Path, folder: Path) -> None:
    """Allow what is in a folder now.

    :param home: of `support.client`, with the agent's state in `home / "state"`.
    :param folder: a session's working directory.
    """
    env = {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(home), "LANG": "C.UTF-8"}
    env |= {"PYTHONPATH": str(REPOSITORY), "ACP_AGENT_HOME": str(home / "state")}
    env |= {name: value for name, value in os.environ.items() if name.startswith("COVERAGE_")}
    home.mkdir(parents=True, exist_ok=True)
    done = forked.run("acp_agent", ["trust", str(folder)], cwd=home, env=env, stdin="", timeout=50)
    assert done.returncode == 0, done.stderr
