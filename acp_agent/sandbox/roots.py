"""Finds the root of a project: the top of the repository that git uses there.

A folder's `.git` counts only if git itself would accept it. So the root does not change
because of an empty folder, or a file that names nothing.

Source: gitrepository-layout(5); `is_git_directory` and `read_gitfile_gently` in git's
setup.c
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from acp_agent.regular import open_regular
from acp_agent.sandbox.listing import open_up
from acp_agent.sandbox.ownership import is_foreign_repository

_LONGEST_LINE = 4096
"""How many bytes of a `.git` or `commondir` file are read. Anything longer is not a
path.
"""


def is_repository(folder: Path) -> bool:
    """Return whether this folder itself has a `.git` that git accepts, and no other
    user owns it.
    """
    git = f"{folder}/.git"
    if os.path.isdir(git):  # noqa: PTH112 - runs for each folder above a session's with each prompt
        is_one = is_git_directory(Path(git))
    else:
        named = line_of(Path(git))
        is_one = named.startswith("gitdir:") and is_git_directory(
            folder / named.removeprefix("gitdir:").strip()
        )
    return is_one and not is_foreign_repository(folder)


def is_git_directory(git: Path) -> bool:
    """Return whether git accepts a folder as the directory of a repository or of one of
    its work trees.
    """
    open_up(git)
    try:
        if not os.path.lexists(f"{git}/HEAD"):
            return False
        common = str(git)
        # Exists only in the directory of a linked work tree.
        if os.path.lexists(f"{git}/commondir"):
            common = str(git / line_of(git / "commondir"))
            open_up(common)
        return os.path.isdir(f"{common}/objects") and os.path.isdir(f"{common}/refs")  # noqa: PTH112 - as above
    except (OSError, ValueError, RuntimeError):  # a loop of links, or not a path
        return False


def repository_root(
    cwd: Path, counts: Callable[[Path], bool] = lambda _: True
) -> Path | None:
    """Return the top of the repository that a directory is in; None if it is in none.

    :param cwd: absolute path.
    :param counts: returns whether a repository's `.git` counts. A repository that does
        not count is used only if there is no other.
    """
    found: Path | None = None
    for folder in (cwd, *cwd.parents):
        if is_repository(folder):
            if counts(folder / ".git"):
                return folder
            found = found or folder
    return found


def moved_root(root: str, former: str, cwd: Path) -> str:
    """Return the new root of a project after one of its folders has moved, if the root
    has moved with the folder.

    :param root: the old root; empty if it is unknown.
    :param former: the folder's old absolute path.
    :param cwd: the folder's new absolute path.
    :returns: the new root; empty if the project did not move as a whole.
    """
    if not root or not Path(former).is_relative_to(root):
        return ""
    below = Path(former).relative_to(root).parts
    if not below:
        return str(cwd)
    above = cwd.parents[len(below) - 1] if len(below) <= len(cwd.parents) else cwd
    return str(above) if cwd == above.joinpath(*below) and is_repository(above) else ""


def line_of(file: Path) -> str:
    """Return the text of a small file without surrounding white space; empty if it
    cannot be read.
    """
    try:
        with open_regular(file) as opened:
            return os.fsdecode(opened.read(_LONGEST_LINE)).strip()
    except (OSError, ValueError):
        return ""
