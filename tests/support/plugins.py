"""A package with a compaction strategy, as one that is installed beside the agent.

    env = install_strategy(folder, "mine", "class Mine: ...")

Owns the files by which Python finds it. Knows nothing of what a strategy does.
"""

from __future__ import annotations

import os
from pathlib import Path

from support.checkout import REPOSITORY


def install_strategy(folder: Path, name: str, code: str) -> dict[str, str]:
    """Install a package of one module, whose class `Strategy` is the strategy.

    :param folder: where; made if need be.
    :returns: the environment variables of an agent that has it.
    """
    metadata = folder / f"{name}-1.0.dist-info"
    metadata.mkdir(parents=True)
    (folder / f"{name}.py").write_text(code)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(f"[acp_agent.compaction_strategies]\n{name} = {name}:Strategy\n")
    return {"PYTHONPATH": os.pathsep.join([str(REPOSITORY), str(folder)])}
