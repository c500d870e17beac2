"""Finds the root of a project: the top of the repository that git uses there.

A folder's `.git` counts only if git itself would accept it. So the root does not change
because of an empty folder, or a file that names nothing.

Source: gitrepository-layout(5); `is_git_directory`, `read_gitfile_gently` and
`get_common_dir_noenv` in git's setup.c
"""

from __future__ import annotations

import os
from collections.abc import Callable, Container
from pathlib import Path

from acp_agent.regular import open_regular
from acp_agent.sandbox.listing import open_up
from acp_agent.sandbox.ownership import is_foreign_repository

_GITDIR = "gitdir: "
"""Starts a `.git` file."""
_LONGEST_LINE = 8192
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
        named = named_by(Path(git))
        is_one = named is not None and is_git_directory(named)
    return is_one and not is_foreign_repository(folder)


def is_git_directory(git: Path) -> bool:
    """Return whether git accepts a folder as the directory of a repository or of one of
    its work trees.

    This accepts no less than git does, and any `HEAD`.
    """
    open_up(git)
    try:
        if not os.path.lexists(f"{git}/HEAD"):
            return False
        common = common_of(git)
        open_up(common)
        return _is_accessible(f"{common}/objects") and _is_accessible(f"{common}/refs")
    except (OSError, ValueError, RuntimeError):  # a loop of links, or not a path
        return False


def _is_accessible(path: str) -> bool:
    """Return whether git takes a path for the `objects` or `refs` of a repository.

    Git only asks for the permission to enter it, which an executable file grants too. A
    folder counts whatever its permissions, which somebody may still change.
    """
    return os.path.isdir(path) or os.access(path, os.X_OK)  # noqa: PTH112 - runs for each folder above a session's with each prompt


def has_parts_of_repository(names: Container[str]) -> bool:
    """Return whether a folder with these entries may be the directory of a repository.

    A directory with a `commondir` has its `objects` and `refs` elsewhere.
    """
    return "HEAD" in names and ("commondir" in names or has_common_parts(names))


def has_common_parts(names: Container[str]) -> bool:
    """Return whether a folder with these entries may be the one that a `commondir`
    names. It needs no `HEAD`.
    """
    return "objects" in names and "refs" in names


def named_by(file: Path) -> Path | None:
    """Return the directory that a `.git` file names, as git reads it; None if it names
    none.
    """
    text = _text_of(file)
    named = text.removeprefix(_GITDIR)
    return file.parent / named if named and named != text else None


def common_of(git: Path) -> Path:
    """Return the directory with the settings, objects and references of a git
    directory, as git reads its `commondir`; usually the git directory itself.
    """
    if not os.path.lexists(f"{git}/commondir"):
        return git
    return git / _text_of(git / "commondir")


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
    return os.fsdecode(_beginning(file)).strip()


def _text_of(file: Path) -> str:
    """Return the path in a small file as git reads it; empty if it cannot be read.

    Git reads up to the first null byte, and removes line ends but not blanks.
    """
    return os.fsdecode(_beginning(file).partition(b"\0")[0].rstrip(b"\r\n"))


def _beginning(file: Path) -> bytes:
    try:
        with open_regular(file) as opened:
            return opened.read(_LONGEST_LINE)
    except (OSError, ValueError):
        return b""
