"""Gives commands copies of guarded folders that build tools write to in ordinary work.

sbt writes `.bsp/sbt.json` whenever its server starts, and an IDE runs the program that
the file names. So each command gets a copy of the folder, which is deleted when the
command ends. The original does not change.

Source: bwrap(1), `--bind`
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from acp_agent.nofollow import temporary_folder
from acp_agent.sandbox.guarded_paths import guarded_paths
from acp_agent.sandbox.listing import entries
from acp_agent.sandbox.policy import Policy

_MOST_FILES = 50
_MOST_BYTES = 64 * 1024


@contextmanager
def private_copies(policy: Policy) -> Generator[dict[Path, Path]]:
    """Copy the folders, yield the copies keyed by the original folder, and delete the
    copies when the `with` block ends.

    A folder that contains subfolders, links, large files or too many files is not
    copied. Commands cannot write to such a folder.
    """
    rows = [row.parts for row in guarded_paths("private")]
    with temporary_folder() as place:
        copies: dict[Path, Path] = {}
        for number, root in enumerate(policy.roots):
            for parts in rows:
                folder = root.joinpath(*parts)
                copy = place / str(number) / "_".join(parts)
                if _copy(folder, copy):
                    copies[folder] = copy
        yield copies


def _copy(folder: Path, copy: Path) -> bool:
    """Copy a folder, and return whether all of it was copied."""
    if folder.is_symlink() or not folder.is_dir():
        return False
    files = entries(folder)
    if len(files) > _MOST_FILES or not os.access(folder, os.R_OK | os.X_OK):
        return False
    copy.mkdir(parents=True)
    try:
        for file in files:
            status = file.stat(follow_symlinks=False)
            if not stat.S_ISREG(status.st_mode) or status.st_size > _MOST_BYTES:
                return False
            shutil.copy2(file.path, copy / file.name, follow_symlinks=False)
    except OSError:
        return False
    return True
