"""Tells which files in a session's directories git runs or obeys, wherever they are and whatever their names.

Names alone are not enough: a repository's settings name files and folders of hooks, and any folder with the entries of
a git directory counts as a repository.

Source: git-config(1), `include.path` and `core.hooksPath`; gitrepository-layout(5); `is_git_directory` in git's setup.c
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from acp_agent.sandbox.obeyed import ENTRIES
from acp_agent.sandbox.repositories import git_directories, named_in_settings


def is_run_by_git(file: Path, roots: Iterable[Path]) -> bool:
    """Return whether git runs or obeys a file, or would once it exists.

    :param file: absolute and resolved.
    :param roots: the session's directories, absolute and resolved.
    """
    for root in roots:
        if file.is_relative_to(root):
            if _is_in_git_directory(file, root):
                return True
            for git in (*git_directories(root), root / ".git"):
                if any(file == named or file.is_relative_to(named) for named in named_in_settings(git, root)):
                    return True
    return False


def _is_in_git_directory(file: Path, root: Path) -> bool:
    """Return whether a folder between the root and the file is a git directory, or would become one."""
    for folder in file.parents:
        entry = file.relative_to(folder).parts[0]
        there = {name for name in ENTRIES if (folder / name).exists()}
        if there | {entry} >= ENTRIES:
            return True
        if folder == root:
            return False
    return False
