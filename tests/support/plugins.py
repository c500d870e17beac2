"""A package that adds to the agent, as one that is installed beside it: the files by
which Python finds it.
"""

from __future__ import annotations

import os
from pathlib import Path

from support.checkout import REPOSITORY

FINDER = """
import sys
from importlib.machinery import PathFinder

class Installed:
    def find_spec(self, name, path=None, target=None):
        return PathFinder.find_spec(name, [{folder!r}]) if path is None else None

    def find_distributions(self, context):
        from importlib.metadata import DistributionFinder, MetadataPathFinder

        return MetadataPathFinder.find_distributions(DistributionFinder.Context(name=context.name, path=[{folder!r}]))

sys.meta_path.append(Installed())
"""
"""Finds the packages in a folder as if they were installed with the agent, which imports
nothing from PYTHONPATH.
"""


def install(
    folder: Path, name: str, code: str, group: str, *targets: str
) -> dict[str, str]:
    """Install a package of one module with entry points.

    :param folder: where; made if need be.
    :param group: of the entry points.
    :param targets: what they stand for: `module` or `module:name`; or with a name of
        its own, `name = module:name`.
    :returns: the environment variables of an agent that has it.
    """
    metadata = folder / f"{name}-1.0.dist-info"
    metadata.mkdir(parents=True)
    (folder / f"{name}.py").write_text(code)
    (metadata / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n"
    )
    (folder / "sitecustomize.py").write_text(FINDER.format(folder=str(folder)))
    lines = [target if "=" in target else f"{name} = {target}" for target in targets]
    (metadata / "entry_points.txt").write_text("\n".join([f"[{group}]", *lines, ""]))
    return {"PYTHONPATH": os.pathsep.join([str(REPOSITORY), str(folder)])}
