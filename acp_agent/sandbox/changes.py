"""Tells when the parts of a repository last changed, in nanoseconds since the epoch.

It uses change times, which programs cannot set.

Source: inode(7), `st_ctime`
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path

from acp_agent.sandbox.git_programs import HOOKS
from acp_agent.sandbox.nested import common_directory, git_directory_of
from acp_agent.sandbox.pointers import pointer_of
from acp_agent.sandbox.walk import MARKS

COARSE_NS = 20_000_000
"""Maximum number of nanoseconds by which a change may be later than its change time."""
SETTINGS = ("config", "config.worktree", "commondir", "hooks")
"""The paths in a git directory that make git run programs."""
_HOOKS = tuple(f"hooks/{hook}" for hook in HOOKS)
"""The hooks that git may run. Only these are checked, so other files that a command
adds to the folder do not make the check slower.
"""
_MOST_INSIDE = 100


def changed_by(mark: Path) -> int:
    """Return when a mark's pointer, or what git obeys in its directories, last changed."""
    git = git_directory_of(mark)
    if git is None:
        return pointed_at(mark)
    return max(pointed_at(mark), set_in(git), set_in(common_directory(git)))


def pointed_at(mark: Path) -> int:
    """Return when a mark's pointer last changed; 0 if it has none."""
    pointer = pointer_of(mark)
    return 0 if pointer is None else latest(pointer, ("",))


def set_in(git: Path) -> int:
    """Return when the settings or hooks of a git directory last changed.

    A file called `objects` or `refs` may have become executable.
    """
    files = [name for name in ("objects", "refs") if not (git / name).is_dir()]
    return latest(git, (*SETTINGS, *files, *_HOOKS))


def latest(folder: Path, names: Sequence[str]) -> int:
    """Return the latest change time of some paths in nanoseconds, plus a margin since
    file clocks are coarse.

    :param names: relative to the folder. An empty name is the folder itself.
    """
    times = [0]
    for name in names:
        with suppress(OSError):
            times.append((folder / name).lstat().st_ctime_ns + COARSE_NS)
    return max(times)


def earliest(mark: Path) -> int:
    """Return the earliest change time, in nanoseconds, among the parts of a mark that
    can run something.
    """
    git = git_directory_of(mark) if mark.name not in MARKS[1:] else None
    if git is None:
        return oldest(mark)
    common = common_directory(git)
    return min(changed(common / name) for name in (*SETTINGS[:3], *_HOOKS))


def oldest(path: Path) -> int:
    """Return the earliest change time, in nanoseconds, of a path and of what is in it."""
    inside: Iterable[Path] = ()
    with suppress(OSError):
        inside = (
            () if path.is_symlink() else list(islice(path.rglob("*"), _MOST_INSIDE))
        )
    return min(changed(each) for each in (path, *inside))


def changed(path: Path) -> int:
    """Return when a path last changed, in nanoseconds; the current time if it does not
    exist.
    """
    try:
        return path.lstat().st_ctime_ns
    except OSError:
        return time.time_ns()
