"""A package that adds to the agent, as one that is installed beside it.

    env = install_strategy(folder, "mine", "class Strategy: ...")

Owns the files by which Python finds it. Knows nothing of what it adds.
"""

from __future__ import annotations

import os
from pathlib import Path

from support.checkout import REPOSITORY


def install(folder: Path, name: str, code: str, group: str, target: str) -> dict[str, str]:
    """Install a package of one module with one entry point.

    :param folder: where; made if need be.
    :param group: of the entry point.
    :param target: what it stands for: `module` or `module:name`.
    :returns: the environment variables of an agent that has it.
    """
    metadata = folder / f"{name}-1.0.dist-info"
    metadata.mkdir(parents=True)
    (folder / f"{name}.py").write_text(code)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(f"[{group}]\n{name} = {target}\n")
    return {"PYTHONPATH": os.pathsep.join([str(REPOSITORY), str(folder)])}


def install_strategy(folder: Path, name: str, code: str) -> dict[str, str]:
    """Install a package of one module, whose class `Strategy` is a compaction strategy."""
    return install(folder, name, code, "acp_agent.compaction_strategies", f"{name}:Strategy")
