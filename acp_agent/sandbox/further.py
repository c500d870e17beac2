"""Finds repositories where the walk of `nested` does not go: in package folders, and
behind links.

An editor opens a repository in `node_modules` or `.venv` as soon as the user follows a
definition into it. A link in a project may lead to a folder elsewhere that commands can
write to, such as a cache. Git uses the repository that contains the real path of a
folder. So the search covers each folder that a link leads to, a few levels below it,
and the folders above it.

Both searches are bounded, and take little time if nothing has changed.

Source: gitrepository-layout(5); getcwd(3); proc_pid_fd(5)
"""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from acp_agent.frozen import frozen
from acp_agent.sandbox.listing import open_up
from acp_agent.sandbox.nested import Below
from acp_agent.sandbox.roots import has_parts_of_repository
from acp_agent.sandbox.walk import TimeLimit, folder_at, is_walked

_MOST_FOLDERS = 250
"""Maximum number of folders to visit in the package folders of a root. The same limit
applies separately to the folders behind its links.
"""
_DEEP_IN_PACKAGES = 4
"""Maximum depth of the search in a package folder. In `.venv`, the path
`lib/python3/site-packages/x` is four levels deep.
"""
_DEEP_BEHIND_LINKS = 2
_GIT_PARTS = (".git", "HEAD", "commondir", "objects", "refs")


@frozen
class Further:
    """The result of the search.

    :ivar marks: the marks that were found; see `Below`.
    :ivar behind: the marks that each link leads to, keyed by the link.
    :ivar is_whole: whether every folder within the depth limits was visited.
    :ivar has_all_behind: whether every such folder behind links was visited.
    """

    marks: Mapping[Path, int]
    behind: Mapping[Path, tuple[Path, ...]]
    is_whole: bool
    has_all_behind: bool = True


def further_below(
    roots: Sequence[Path], below: Mapping[Path, Below], writable: Sequence[Path]
) -> Further:
    """Find the marks in the package folders of some roots and behind links there.

    :param below: the result of the walk below each root.
    :param writable: all folders that commands may write to, including the roots.
    """
    marks: dict[Path, int] = {}
    behind: dict[Path, tuple[Path, ...]] = {}
    is_whole = True
    has_all_behind = True
    for root, found in below.items():
        search = _Search(roots, writable)
        marks.update(search.marks_in(found.packages))
        links = {**found.symlinks, **search.links_out}
        for link, target in search.leading(root, links):
            new = search.marks_behind(target)
            marks.update(new)
            if new:
                behind[Path(link)] = tuple(new)
        is_whole &= search.is_whole
        has_all_behind &= search.has_all_behind
    for each in below.values():
        for mark in each.marks:
            marks.pop(mark, None)
    return Further(marks, behind, is_whole and has_all_behind, has_all_behind)


class _Search:
    """A bounded search in package folders and behind links.

    :ivar is_whole: whether the search in package folders stayed below its limit.
    :ivar has_all_behind: whether the search behind links stayed below its limits.
    :ivar links_out: the links in package folders whose text names a path outside the
        roots. Links to other packages are left out, since there may be thousands.
    """

    def __init__(self, roots: Sequence[Path], writable: Sequence[Path]) -> None:
        self.is_whole = True
        self.has_all_behind = True
        self._roots = tuple(map(str, roots))
        self._writable = tuple(map(str, writable))
        self._left_behind = _MOST_FOLDERS
        self._behind: dict[str, dict[Path, int]] = {}
        self._above: dict[str, dict[Path, int]] = {}
        self.links_out: dict[str, str] = {}

    def leading(
        self, root: Path, links: Mapping[str, str]
    ) -> Iterator[tuple[str, str]]:
        """Yield each link to a folder that commands may write to and that no walk
        reaches, together with the folder.
        """
        top = f"{root}/"
        limit = TimeLimit()
        for link, named in links.items():
            if is_walked(top[:-1], named) and not _leads_through(named, top, links):
                continue
            if limit.is_over():
                self.has_all_behind = False
                return
            place = _folder_behind(link)
            if place and self._is_unseen(place):
                yield link, place

    def _is_unseen(self, place: str) -> bool:
        if place in self._roots or any(is_walked(each, place) for each in self._roots):
            return False
        return _is_in(place, self._writable)

    def marks_behind(self, place: str) -> dict[Path, int]:
        """Return the marks in a folder, and in the folders above it that commands may
        write to.

        If the folder is outside the roots, the marks a few levels below it are
        included.
        """
        if place in self._behind:
            return self._behind[place]
        marks: dict[Path, int] = {}
        if _is_in(place, self._roots):
            self._marks_below([place], 0, 1, marks)
        else:
            # The folder itself is visited even if earlier links used up the limit.
            most = max(self._left_behind, 1)
            self._left_behind -= self._marks_below(
                [place], _DEEP_BEHIND_LINKS, most, marks
            )
            self.has_all_behind &= self._left_behind > 0
        marks.update(self._marks_above(os.path.dirname(place)))  # noqa: PTH120 - as text
        self._behind[place] = marks
        return marks

    def _marks_above(self, folder: str) -> dict[Path, int]:
        """Return the marks in a folder and above it, if commands may write there."""
        if not _is_in(folder, self._writable):
            return {}
        if folder not in self._above:
            around = self._marks_above(os.path.dirname(folder))  # noqa: PTH120 - as text
            self._above[folder] = {**_repository_at(folder), **around}
        return self._above[folder]

    def marks_in(self, packages: Iterable[str]) -> dict[Path, int]:
        """Return the marks below package folders. Hidden folders come first, since few
        packages have such a name.
        """
        hidden: list[str] = []
        others: list[str] = []
        for path in packages:
            folder = folder_at(path)
            for name in folder.folders if folder is not None else ():
                (hidden if name[0] == "." else others).append(f"{path}/{name}")
        marks: dict[Path, int] = {}
        folders = (*hidden, *others)
        most = _MOST_FOLDERS
        self.is_whole = (
            self._marks_below(folders, _DEEP_IN_PACKAGES - 1, most, marks) < most
        )
        return marks

    def _marks_below(
        self, folders: Iterable[str], deep: int, most: int, marks: dict[Path, int]
    ) -> int:
        """Add the marks in some folders and their subfolders to `marks`, and return the
        number of visited folders.
        """
        waiting = deque((path, 0) for path in folders)
        looked_at = 0
        while waiting:
            if looked_at >= most:
                break
            looked_at += 1
            path, depth = waiting.popleft()
            folder = folder_at(path)
            if folder is None:
                continue
            for name, inode in folder.marks:
                marks[Path(path, name)] = inode
            for name, named in folder.links:
                if not _is_in(named, self._roots):
                    self.links_out[f"{path}/{name}"] = named
            if depth < deep:
                waiting.extend((f"{path}/{name}", depth + 1) for name in folder.folders)
        return looked_at


def _folder_behind(link: str) -> str:
    """Return the real path of the folder that a link leads to; empty if it does not
    lead to a folder.
    """
    if sys.platform == "darwin":
        place = os.path.realpath(link)
        return place if os.path.isdir(place) else ""  # noqa: PTH112 - for each link
    try:
        opened = os.open(link, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:  # the target is missing or is a file
        return ""
    try:
        return os.readlink(f"/proc/self/fd/{opened}")  # noqa: PTH115 - much cheaper than `realpath`
    except OSError:
        return ""
    finally:
        os.close(opened)


def _is_in(path: str, folders: Iterable[str]) -> bool:
    return any(path == each or path.startswith(f"{each}/") for each in folders)


def _leads_through(path: str, top: str, links: Mapping[str, str]) -> bool:
    """Return whether a path in a root is a link, or leads through one."""
    end = path.find("/", len(top))
    while end >= 0:
        if path[:end] in links:
            return True
        end = path.find("/", end + 1)
    return path in links


def _repository_at(folder: str) -> dict[Path, int]:
    """Return the marks of one folder, each with its inode: its `.git`, and the folder
    itself if it may be a git directory. The folder is not listed.
    """
    open_up(folder)
    there = {name for name in _GIT_PARTS if os.path.lexists(f"{folder}/{name}")}
    marks = [Path(folder, ".git")] if ".git" in there else []
    if has_parts_of_repository(there):
        marks.append(Path(folder))
    found: dict[Path, int] = {}
    for mark in marks:
        try:
            found[mark] = mark.lstat().st_ino
        except OSError:  # the mark is gone
            continue
    return found
