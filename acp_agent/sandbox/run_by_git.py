"""Determines which files in a session's directories git runs or obeys, regardless of
their location and name.

Names alone are not enough: the settings of a repository and of the user name further
settings files, folders of hooks, and programs; and any folder with the entries of a git
directory counts as a repository.

Source: git-config(1); gitrepository-layout(5); `is_git_directory` in git's setup.c
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from acp_agent.regular import TooLargeError
from acp_agent.sandbox.git_programs import named_by_the_user, named_in_settings
from acp_agent.sandbox.listing import open_up, restoring
from acp_agent.sandbox.repositories import git_directories, repository_of
from acp_agent.sandbox.roots import has_common_parts, has_parts_of_repository

_PARTS = ("HEAD", "commondir", "objects", "refs")


def is_run_by_git(file: Path, roots: Iterable[Path]) -> bool:
    """Return whether git runs or obeys a file, or would once it exists.

    Folders whose permissions a command has removed are made readable again.

    :param file: absolute and resolved.
    :param roots: the session's directories, absolute and resolved.
    """
    around = [root for root in roots if file.is_relative_to(root)]
    with restoring(around):
        return any(
            _is_in_git_directory(file, root) or _is_named(file, root) for root in around
        )


def _is_named(file: Path, root: Path) -> bool:
    """Return whether git's settings name a file, or a folder that contains it. Return
    True if the settings are too large to read.
    """
    try:
        return any(file.is_relative_to(named) for named in _named_around(file, root))
    except TooLargeError:
        return True


def _named_around(file: Path, root: Path) -> Iterator[Path]:
    for folder in (file.parent, root):
        yield from named_by_the_user(folder)
    for git in (*git_directories(root), root / ".git"):
        yield from named_in_settings(git, root)
    # The root may be a worktree or a folder of it, and the file in a nested repository.
    around = (repository_of(folder) for folder in (root, file.parent))
    for repository in dict.fromkeys(filter(None, around)):
        for git in dict.fromkeys((repository.folder, repository.common)):
            yield from named_in_settings(git, repository.work_tree)


def _is_in_git_directory(file: Path, root: Path) -> bool:
    """Return whether a folder between the root and the file is a git directory or a
    common directory of one, or would become it.

    A command may have made the directory that names a common directory. So a folder
    with the entries of a common directory always counts.
    """
    for folder in file.parents:
        open_up(folder)
        entry = file.relative_to(folder).parts[0]
        there = {name for name in _PARTS if os.path.lexists(folder / name)}
        if has_parts_of_repository(there | {entry}) or has_common_parts(
            there | {entry}
        ):
            return True
        if folder == root:
            return False
    return False
