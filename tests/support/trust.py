"""Allowing a project's hooks and recipes, as a person does with `acp-agent trust`.

write(folder, ".acp-agent/recipes/fix.md"); trust(home, folder)     # before the
session's first prompt
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from support import forked
from support.checkout import environment

in_memory: Callable[[Path, Path], None] | None = None
"""What is done in place of running the command; as `support.client.in_memory`."""


def trust(home: Path, folder: Path) -> None:
    """Allow what is in a folder now.

    :param home: of `support.client`, with the agent's state in `home / "state"`.
    """
    home.mkdir(parents=True, exist_ok=True)
    if in_memory is not None:
        return in_memory(home, folder)
    words = ["trust", "--yes", str(folder)]
    code, _, err = forked.run(
        "acp_agent", words, cwd=home, env=environment(home), stdin="", timeout=50
    )
    assert code == 0, err
    return None
