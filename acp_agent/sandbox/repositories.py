"""Determines which git directory a session's directory belongs to, and which of its
paths are closed to commands.

Anyone who can write to a folder can put a `.git` file there that names any directory.
So a git directory outside the session's directories counts as theirs only if it
confirms this itself: a worktree's git directory by its `gitdir` file, a submodule's by
its `core.worktree` setting, and any other by an index that describes the files of this
particular folder.

Source: gitrepository-layout(5); git-worktree(1), "DETAILS"; gitsubmodules(7);
gitformat-index(5)
"""

from __future__ import annotations

import os
import stat
import struct
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from acp_agent.frozen import frozen
from acp_agent.regular import TooLargeError, open_regular, read_regular
from acp_agent.sandbox.config_syntax import settings_in
from acp_agent.sandbox.listing import entries, is_empty, open_up, parents_of
from acp_agent.sandbox.obeyed import FOLDERS, OF_A_WORKTREE, closed_names
from acp_agent.sandbox.roots import common_of, is_repository, line_of, named_by

TEXTS = {"commondir": "./\n"}
"""Contents of placeholders that must not be empty. With a plain `.`, libgit2 does not
find the repository.
"""
_MOST_ENTRIES = 200
"""Maximum number of index entries that are compared with the files of a folder."""
_MOST_OF_INDEX = 1024 * 1024
"""How many bytes of an index are read for these entries. A path has at most 4,096
bytes.
"""
_MOST_SETTINGS = 1024 * 1024
"""Maximum bytes of a settings file. Files that git writes have a few KiB, and all of
them are read before each command.
"""
_GITLINK = 0o160000


@frozen
class Closed:
    """The paths closed to commands in a folder that they may write to. All paths are
    absolute and resolved.

    :ivar place: the folder.
    :ivar folders: closed folders, some of which may not exist.
    :ivar files: closed files, some of which may not exist.
    :ivar points: files in closed folders that may be covered by another file.
    """

    place: Path
    folders: tuple[Path, ...]
    files: tuple[Path, ...]
    points: tuple[Path, ...] = ()


@frozen
class Repository:
    """The repository that git uses for a folder. All paths are absolute and resolved.

    :ivar work_tree: the folder that contains `.git`.
    :ivar folder: the git directory of the work tree.
    :ivar common: the directory that all work trees share, which contains the objects;
        usually the same as `folder`.
    """

    work_tree: Path
    folder: Path
    common: Path


def repository_of(folder: Path) -> Repository | None:
    """Return the repository that git uses for a folder.

    :param folder: absolute and resolved.
    :returns: None if there is no repository, or if it does not confirm that the folder
        belongs to it.
    """
    for work_tree in (folder, *folder.parents):
        git = work_tree / ".git"
        if git.is_symlink():
            return None
        if not is_repository(work_tree):
            continue  # there is none, or it belongs to another user
        if git.is_file():
            return confirmed_by(git)
        if (git / "HEAD").is_file() and line_of(git / "commondir") in ("", ".", "./"):
            return Repository(work_tree, git, git)
    return None


def git_directories(root: Path) -> Iterator[Path]:
    """Yield the git directories of a root's repository that lie in the root. A `.git`
    file may name them.

    A command cannot hide such a directory from the next command, since each directory
    and its `config` are separate mounts.
    """
    git = root / ".git"
    open_up(root)
    places = [git]
    if os.path.isfile(git):  # noqa: PTH113 - does not fail in another user's folder
        named = named_by(git) or root
        places = [named, common_of(named)]
    for place in dict.fromkeys(Path(os.path.normpath(each)) for each in places):
        if place != root and place.is_relative_to(root) and not is_empty(place):
            yield place


def submodules(modules: Path) -> Iterator[Path]:
    """Yield the git directories of the submodules in a `modules` folder."""
    for folder in _folders_in(modules):
        if os.path.isfile(folder / "config"):  # noqa: PTH113 - does not fail in another user's folder
            yield folder
            yield from submodules(folder / "modules")
        else:
            yield from submodules(folder)  # the submodule's name contains a slash


def closed_in(git: Path, *, wholly: bool) -> Closed:
    """Return the closed paths in a git directory.

    :param wholly: whether to include the attributes, the alternates and the `gitdir`
        files of worktrees. They are left out for a root's submodules: there may be
        hundreds of submodules, and each path is a mount.
    """
    names = closed_names(wholly=wholly)
    folders = tuple(git / name for name in names if name in FOLDERS)
    for folder in parents_of(git, [git / name for name in names]):
        open_up(folder)
    files = [
        git / name
        for name in names
        if name not in FOLDERS and (git / name).parent.parent.is_dir()
    ]
    for worktree in worktrees(git):
        files += (worktree / name for name in OF_A_WORKTREE)
        # Without this file, it is not a worktree.
        if wholly and (worktree / "gitdir").is_file():
            files.append(worktree / "gitdir")
    return Closed(
        git, folders, tuple(files), (git / "info" / "exclude",) if wholly else ()
    )


def closed_beside(repository: Repository) -> Iterator[Closed]:
    """Yield the closed paths in the git directories of a repository outside a session's
    directories.

    In addition to the paths that are closed in every git directory, these include paths
    that only other work trees use.
    """
    common = repository.common
    own = repository.folder
    everywhere = closed_in(common, wholly=True)
    others = [each for each in (common, *worktrees(common)) if each != own]
    state = [
        file
        for each in others
        for file in (each / "HEAD", each / "index")
        if file.is_file()
    ]
    modules = (common / "modules",) if own != common else ()
    yield Closed(
        common,
        (*everywhere.folders, *modules),
        (*everywhere.files, *state),
        everywhere.points,
    )
    for submodule in submodules(own / "modules"):
        yield closed_in(submodule, wholly=True)


def _work_tree_setting(config: bytes) -> bytes | None:
    """Return the value of `core.worktree`; None if there is none, or if git cannot read
    the configuration.
    """
    found: bytes | None = None
    try:
        for name, value in settings_in(config):
            if name == b"core.worktree":
                found = value
    except ValueError:
        return None
    return found


def worktrees(git: Path) -> list[Path]:
    """Return the git directories of a repository's linked worktrees."""
    return _folders_in(git / "worktrees")


def confirmed_by(git: Path) -> Repository | None:
    """Return the repository that a `.git` file names, if it confirms that the file's
    folder is its own.

    :param git: names a git directory, as `is_repository` says.
    """
    work_tree = git.parent
    named = named_by(git)
    try:
        if named is None or not (named / "HEAD").is_file():
            return None
        folder = named.resolve(strict=True)
        common = common_of(folder).resolve(strict=True)
    except (OSError, ValueError, RuntimeError):  # a loop of links
        return None
    if common != folder:
        is_its_own = folder.parent == common / "worktrees" and _leads_to(
            folder, line_of(folder / "gitdir"), git
        )
    else:
        try:
            found = _work_tree_setting(_settings(folder / "config"))
        except TooLargeError:
            return None
        is_its_own = (
            _leads_to(folder, os.fsdecode(found), work_tree)
            if found
            else _describes(folder, work_tree)
        )
    return Repository(work_tree, folder, common) if is_its_own else None


def _leads_to(folder: Path, path: str, wanted: Path) -> bool:
    """Return whether `path`, relative to `folder`, leads to `wanted`, which is
    resolved.
    """
    return bool(path) and Path(os.path.normpath(folder / path)) == wanted


def _describes(git: Path, work_tree: Path) -> bool:
    """Return whether an index describes a file of the work tree: its inode, size and
    change time, which nobody can set.

    A hard link to another file has the same inode, but it raises the file's link count.
    """
    for path, inode, changed, size in _index_entries(_beginning(git / "index")):
        with suppress(OSError, ValueError):
            found = (work_tree / path).lstat()
            described = (
                found.st_ino & 0xFFFFFFFF,
                found.st_ctime_ns // 10**9 & 0xFFFFFFFF,
                found.st_size & 0xFFFFFFFF,
            )
            if (
                stat.S_ISREG(found.st_mode)
                and found.st_nlink == 1
                and described == (inode, changed, size)
            ):
                return True
    return False


def _index_entries(data: bytes) -> Iterator[tuple[str, int, int, int]]:
    """Yield the path, inode, change time and size of the first entries of an index.

    In version 4, later entries contain only a part of their path, so only the first
    entry is read.
    """
    if len(data) < 12 or data[:4] != b"DIRC":
        return
    version, count = struct.unpack(">LL", data[4:12])
    position = 12
    for _ in range(min(count, 1 if version == 4 else _MOST_ENTRIES)):
        fields = data[position : position + 62]
        if len(fields) < 62:
            return
        changed, _, _, _, _, inode, mode, _, _, size = struct.unpack(
            ">10L", fields[:40]
        )
        flags = int.from_bytes(fields[60:62], "big")
        begin = position + (64 if flags & 0x4000 else 62) + (version == 4)
        end = data.find(b"\0", begin)
        if end < 0:
            return
        if mode & 0o170000 != _GITLINK:
            yield os.fsdecode(data[begin:end]), inode, changed, size
        position += (end - position + 8) // 8 * 8


def _folders_in(folder: Path) -> list[Path]:
    """Return the folders in a folder, sorted; empty if it is a link or cannot be read."""
    if os.path.islink(folder):  # noqa: PTH114 - does not fail in another user's folder
        return []
    found = [
        Path(each) for each in entries(folder) if each.is_dir(follow_symlinks=False)
    ]
    for each in found:
        open_up(each)
    return found


def _settings(file: Path) -> bytes:
    """Return a settings file of git; empty if it cannot be read.

    :raises TooLargeError: if the file is larger than any that git writes.
    """
    try:
        return read_regular(file, _MOST_SETTINGS)
    except TooLargeError:
        raise
    except (OSError, ValueError):
        return b""


def _beginning(file: Path) -> bytes:
    """Return the first part of a file; empty if it cannot be read."""
    try:
        with open_regular(file) as opened:
            return opened.read(_MOST_OF_INDEX)
    except (OSError, ValueError):
        return b""
