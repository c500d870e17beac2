"""Reads folders in search of repositories, and caches the content of each folder until
it changes.

All sessions share the cache.

Source: inode(7), "Last status change timestamp (ctime)", which no program can set
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from acp_agent.frozen import frozen
from acp_agent.sandbox.listing import is_open, open_up
from acp_agent.sandbox.roots import has_parts_of_repository

MARKS = (".git", ".acp-agent", ".claude")
"""Entries that determine which folder is the root of a project, and where its settings
are.
"""
_OF_VERSION_CONTROL = {".git", ".hg", ".svn", ".jj"}
_OF_GIT = {"objects", "refs", "logs", "hooks", "info", "modules", "worktrees", "lfs"}
"""Folders of a bare repository that a walk skips, since they may contain hundreds of
other folders.
"""
MOST_DEEP = 6
"""Maximum depth of a walk."""
SKIPPED = frozenset(
    (
        ".git", ".hg", ".svn", ".jj", "node_modules", ".venv", "venv", "site-packages", "__pycache__", "target", ".tox",
        ".nox", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".gradle", ".yarn", ".pnpm-store", "bower_components",
    )
)  # fmt: skip
"""Names of folders that the walk looks at but does not descend into."""
_MOST_SEEN = 20_000
_UNSTABLE_NS = 100_000_000
"""Nanoseconds within which a folder may change twice with the same change time."""


class TimeLimit:
    """A limit on the processor time of a search.

    The limit on elapsed time is much higher, so that other programs on a busy machine
    do not cut the search short.
    """

    _PROCESSOR_SECONDS = 0.25
    """Processor time for a tree that has not been seen before. Each unchanged folder
    takes microseconds.
    """
    _SECONDS = 2.0

    def __init__(self) -> None:
        self._end = time.monotonic() + self._SECONDS
        self._processor_end = time.thread_time() + self._PROCESSOR_SECONDS

    def is_over(self) -> bool:
        """Return whether one of the limits has been reached."""
        return time.thread_time() > self._processor_end or time.monotonic() > self._end


@frozen
class Folder:
    """The content of one folder when it was last read.

    :ivar version: the folder's inode and change time. The time is 0 if the folder may
        change again without getting a new change time.
    :ivar marks: the names in `MARKS` that the folder contains, each with its inode. An
        empty name means that the folder itself may be a bare repository.
    :ivar folders: the names of the folders to visit next.
    :ivar links: the names of the symbolic links, each with the absolute path in its
        text. The path is empty if the text alone does not tell where the link leads.
    """

    version: tuple[int, int]
    marks: tuple[tuple[str, int], ...]
    folders: tuple[str, ...]
    links: tuple[tuple[str, str], ...]


_seen: dict[str, Folder] = {}
"""The last known content of each folder, keyed by path."""


def folder_at(path: str) -> Folder | None:
    """Return the content of a folder; None if it cannot be read."""
    try:
        status = os.lstat(path)
        if not is_open(status):
            open_up(path)
            status = os.lstat(path)
        known = _seen.get(path)
        if known is not None and known.version == (status.st_ino, status.st_ctime_ns):
            return known
        with os.scandir(path) as found:
            inside = {entry.name: entry for entry in found}
    except OSError:
        return None
    marks = [(name, inside[name].inode()) for name in MARKS if name in inside]
    passed = _OF_VERSION_CONTROL
    if has_parts_of_repository(inside):
        marks.append(("", status.st_ino))
        passed = _OF_VERSION_CONTROL | _OF_GIT
    inner: list[str] = []
    links: list[tuple[str, str]] = []
    for name, entry in inside.items():
        if entry.is_symlink():
            links += _link_at(path, name)
        elif name not in passed and entry.is_dir(follow_symlinks=False):
            inner.append(name)
    is_stable = time.time_ns() - status.st_ctime_ns > _UNSTABLE_NS
    version = (status.st_ino, status.st_ctime_ns if is_stable else 0)
    if len(_seen) > _MOST_SEEN:
        _seen.clear()
    folder = Folder(version, tuple(marks), tuple(inner), tuple(links))
    _seen[path] = folder
    return folder


def _link_at(path: str, name: str) -> list[tuple[str, str]]:
    if name in MARKS:  # such a link is a mark
        return []
    try:
        target = os.readlink(f"{path}/{name}")  # noqa: PTH115 - as text
    except OSError:  # the link is gone
        return []
    names = [part for part in target.split("/") if part not in ("", ".")]
    ups = names.count("..")
    if names[:ups] != [".."] * ups:  # the name before a `..` may be a link
        return [(name, "")]
    return [(name, os.path.normpath(os.path.join(path, target)))]  # noqa: PTH118 - as text


def is_walked(root: Path | str, place: Path | str) -> bool:
    """Return whether a walk of a root reaches a path, unless the walk is cut short by
    its limits on time and the number of folders.
    """
    top = f"{root}/"
    path = str(place)
    if not path.startswith(top):
        return False
    parts = path[len(top) :].split("/")
    return len(parts) <= MOST_DEEP and SKIPPED.isdisjoint(parts[:-1])
