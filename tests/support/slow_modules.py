"""An agent in which the import of a module takes for ever, as on a disk that does not
answer.
"""

from __future__ import annotations

import os
from pathlib import Path

from support.waiting import read_pipe

ENDLESS = """
import importlib.machinery, pathlib, sys, threading

class Endless:
    def find_spec(self, name, path=None, target=None):
        return importlib.machinery.ModuleSpec(name, self) if name == {module!r} else None

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        pathlib.Path(__file__).with_name("began").write_text("yes")
        threading.Event().wait()

sys.meta_path.insert(0, Endless())
"""


def hanging(tmp_path: Path, module: str) -> Path:
    """A folder for PYTHONPATH with which the import of a module takes for ever."""
    return _slow(tmp_path, ENDLESS.format(module=module))


async def begun(slow: Path) -> None:
    await read_pipe(slow / "began")


def _slow(tmp_path: Path, program: str) -> Path:
    slow = tmp_path / "slow"
    slow.mkdir()
    (slow / "sitecustomize.py").write_text(program)
    os.mkfifo(slow / "began")
    return slow
