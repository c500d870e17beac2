"""Finds repositories below a session's directory, both existing ones and new ones that
a command has created.

An editor searches for repositories on its own and runs `git status` in each. Git itself
does so for every gitlink in the index. Git then runs programs that the nested
repository's settings name. So a nested git directory is protected like the git
directory of the session's directory, and the agent looks for new ones after each
command.

The walk is bounded. It does not enter package folders, since editors do not search
those for repositories either (see `further`). A nested repository that an index names
is found at any depth.

Source: gitrepository-layout(5); gitformat-index(5); gitsubmodules(7)
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from acp_agent.frozen import frozen
from acp_agent.regular import read_regular
from acp_agent.sandbox.config_syntax import settings_in
from acp_agent.sandbox.gitlinks import HASH_SIZES, gitlinks_in
from acp_agent.sandbox.listing import entries, open_up
from acp_agent.sandbox.repositories import (
    Repository,
    git_directories,
    submodules,
    worktrees,
)
from acp_agent.sandbox.roots import (
    common_of,
    is_git_directory,
    named_by,
    repository_root,
)
from acp_agent.sandbox.walk import MARKS, MOST_DEEP, SKIPPED, TimeLimit, folder_at

_MOST_FOLDERS = 1500
_MOST_REPOSITORIES = 300
_MOST_LINKS = 2_000
"""Maximum number of gitlinks to follow whose folders exist. The same limit applies
separately to gitlinks whose folders do not exist.
"""
_MOST_INDEX = 64 * 1024 * 1024
_MOST_SETTINGS = 1024 * 1024


@frozen
class Below:
    """The result of a walk below a folder.

    :ivar marks: the entries named in `MARKS` and the bare repositories, in and below
        the folder, each with its inode.
    :ivar links: the folders that an index names as separate repositories.
    :ivar is_whole: whether the walk has visited every folder that it may enter.
    :ivar packages: the package folders, which the walk has not descended into.
    :ivar symlinks: the symbolic links, each with the path that it names; see `Folder`.
    """

    marks: dict[Path, int]
    links: set[Path]
    is_whole: bool
    packages: tuple[str, ...]
    symlinks: dict[str, str]


def marks_below(root: Path) -> Below:
    """Find the marks below a folder.

    The walk is breadth-first, so that a walk that ends early has found everything near
    the top.
    """
    found: dict[Path, int] = {}
    folders = deque([(str(root), 0)])
    packages: list[str] = []
    symlinks: dict[str, str] = {}
    limit = TimeLimit()
    for _ in range(_MOST_FOLDERS):
        if not folders or limit.is_over():
            break
        path, depth = folders.popleft()
        folder = folder_at(path)
        if folder is None:
            continue
        found.update((Path(path, name), inode) for name, inode in folder.marks)
        symlinks.update((f"{path}/{name}", target) for name, target in folder.links)
        if os.path.basename(path) in SKIPPED:  # noqa: PTH119 - for each folder
            packages.append(path)
        elif depth < MOST_DEEP:
            folders.extend((f"{path}/{name}", depth + 1) for name in folder.folders)
    links, has_all_links = gitlinks_below(root, [*found])
    for place in links:
        open_up(place)
        with suppress(OSError, ValueError):
            found[place / ".git"] = (place / ".git").lstat().st_ino
    is_whole = has_all_links and not folders
    return Below(found, links, is_whole, tuple(packages), symlinks)


def gitlinks_below(root: Path, marks: Iterable[Path]) -> tuple[set[Path], bool]:
    """Return the folders below a root that a repository's index names as separate
    repositories, and whether the search was complete.

    Like git, this continues with the index of each of these repositories. An index may
    name any number of folders, but checking one that does not exist takes little time.

    :param marks: the known marks below the root.
    """
    waiting = deque[tuple[Path, Path]]()
    top = repository_root(root)
    for mark in (*((top / ".git",) if top is not None else ()), *marks):
        if mark.name == ".git" and (git := git_directory_of(mark)) is not None:
            waiting.append((mark.parent, git))
    found: set[Path] = set()
    absent = 0
    present = 0
    for _ in range(_MOST_REPOSITORIES):
        if not waiting:
            break
        tree, git = waiting.popleft()
        for link in gitlinks(git):
            if _is_absent(f"{tree}/{link}"):
                absent += 1
                if absent > _MOST_LINKS:
                    continue
            else:
                present += 1
                if present > _MOST_LINKS:
                    return found, False
            place = tree / link
            if place.is_relative_to(root) and place != root and place not in found:
                found.add(place)
                inner = git_directory_of(place / ".git")
                if inner is not None:
                    waiting.append((place, inner))
    return found, not waiting


def _is_absent(path: str) -> bool:
    """Return whether a folder certainly does not exist."""
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except (OSError, ValueError):  # for example, a folder on the way is not readable
        return False
    return False


def gitlinks(git: Path) -> set[str]:
    """Return the paths of the gitlinks in a repository's index, relative to its work
    tree.
    """
    found: set[str] = set()
    settings = common_of(git) / "config"
    shared = (
        git / each.name for each in entries(git) if each.name.startswith("sharedindex.")
    )
    for file in (git / "index", *shared):
        with suppress(OSError):
            if file.lstat().st_size <= _MOST_INDEX:
                found |= _gitlinks_of(
                    file, settings, _version(file), _version(settings)
                )
    return found


def _version(file: Path) -> tuple[int, int, int]:
    """Return a value that changes when the file changes; zeros if there is no file."""
    try:
        status = file.stat()
    except OSError:
        return (0, 0, 0)
    return (status.st_ino, status.st_ctime_ns, status.st_size)


@lru_cache(1_000)
def _gitlinks_of(
    file: Path, settings: Path, *versions: tuple[int, int, int]
) -> frozenset[str]:
    """Return the paths of the gitlinks in an index.

    :param settings: the repository's `config`.
    :param versions: values that change when one of the files does.
    """
    index = read_regular(file, _MOST_INDEX)
    return frozenset(
        os.fsdecode(path)
        for size in _hash_sizes(settings)
        for path in gitlinks_in(index, size)
    )


def _hash_sizes(settings: Path) -> tuple[int, ...]:
    """Return the possible sizes of a repository's hashes. If the settings cannot be
    read, these are all known sizes, so that no gitlink is missed.
    """
    found = "sha1"
    try:
        for name, value in settings_in(read_regular(settings, _MOST_SETTINGS)):
            if name == b"extensions.objectformat":
                found = (value or b"").decode("latin-1")
    except FileNotFoundError:
        return (HASH_SIZES["sha1"],)
    except (OSError, ValueError):
        return (*HASH_SIZES.values(),)
    return (HASH_SIZES.get(found, HASH_SIZES["sha1"]),)


def git_directory_of(mark: Path) -> Path | None:
    """Return the git directory that a mark is or names, or None if there is none.

    :param mark: a `.git` of any kind, or a bare repository.
    """
    open_up(mark.parent)
    named = str(mark)
    try:
        if os.path.isfile(named):  # noqa: PTH113 - called very often, like `realpath` below
            named = str(named_by(mark) or mark)
        place = Path(os.path.realpath(named, strict=True))
    except (OSError, ValueError):
        return None
    return place if is_git_directory(place) else None


def repositories_in(marks: Iterable[Path]) -> Iterator[tuple[Path, Path]]:
    """Yield each mark that is or names a git directory, together with that directory."""
    for mark in marks:
        if mark.name not in MARKS[1:] and (git := git_directory_of(mark)) is not None:
            yield mark, git


def common_directory(git: Path) -> Path:
    """Return the directory whose settings and hooks apply to a git directory; usually
    the git directory itself.
    """
    try:
        return common_of(git).resolve(strict=True)
    except (OSError, ValueError, RuntimeError):
        return git


def every_git_directory(
    roots: Iterable[Path], repositories: Iterable[Repository], marks: Iterable[Path]
) -> tuple[Path, ...]:
    """Return every git directory in which a command may leave something, including
    those of worktrees and submodules.

    :param repositories: the roots' repositories that lie outside the roots.
    :param marks: the marks found below the roots.
    """
    found: dict[Path, None] = {}
    for root in roots:
        found.update(dict.fromkeys(git_directories(root)))
    for repository in repositories:
        found.update({repository.folder: None, repository.common: None})
    for _, git in repositories_in(marks):
        found.update({git: None, common_directory(git): None})
    for git in (*found,):
        for each in (git, *submodules(git / "modules")):
            found.update(dict.fromkeys((each, *worktrees(each))))
    return tuple(found)
