"""Git directories: which one a session's directory belongs to, and what of one is closed to commands.

A `.git` file can be written by anybody who can write the folder, and names any directory. So a git directory outside of
the session's directories counts as theirs only where it says so itself: a worktree's by its `gitdir` file, a
submodule's by its setting `core.worktree`, any other by an index that describes the very files of the folder.

Source: gitrepository-layout(5); git-worktree(1), "DETAILS"; gitsubmodules(7); gitformat-index(5)
"""

from __future__ import annotations

import os
import re
import stat
import struct
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from acp_agent.frozen import frozen
from acp_agent.regular import read_regular

TEXTS = {"commondir": "./\n"}
"""The texts of placeholders that must not be empty: of a plain `.` libgit2 says that there is no repository."""
_FILES = ("config", "config.worktree", "commondir")
"""Git reads hooks, settings and attributes from the directory that `commondir` names."""
_OF_A_WORKTREE = ("config.worktree", "commondir")
_WORK_TREE_SETTING = re.compile(rb'^\s*worktree\s*=\s*"?([^"\n;#]+?)"?\s*$', re.MULTILINE | re.IGNORECASE)
_MOST_ENTRIES = 200
"""Of an index, that are compared with the files of a folder."""
_GITLINK = 0o160000


@frozen
class Closed:
    """What is closed to commands in a folder that they may write. All paths are absolute and resolved.

    :ivar place: the folder.
    :ivar folders: closed folders; some may not exist, as of `files`.
    :ivar points: files in closed folders that another file may cover.
    """

    place: Path
    folders: tuple[Path, ...]
    files: tuple[Path, ...]
    points: tuple[Path, ...] = ()


@frozen
class Repository:
    """The repository that git uses in a folder.

    :ivar work_tree: the folder that holds `.git`; absolute and resolved, as are the others.
    :ivar folder: the git directory of the work tree.
    :ivar common: the directory of what all of its work trees share, such as objects; mostly the same one.
    """

    work_tree: Path
    folder: Path
    common: Path


def repository_of(folder: Path) -> Repository | None:
    """Return the repository that git uses in a folder; None where there is none, or where it does not say itself that
    the folder is its own.

    :param folder: absolute and resolved.
    """
    for work_tree in (folder, *folder.parents):
        git = work_tree / ".git"
        if git.is_symlink():
            return None
        if git.is_file():
            return _named_by(git)
        if (git / "HEAD").is_file() and _line(git / "commondir") in ("", ".", "./"):
            return Repository(work_tree, git, git)
    return None


def git_directories(root: Path) -> Iterator[Path]:
    """Yield the git directories in a root that are its repository's, which a `.git` file may name.

    A command cannot hide one from the next, since each and its `config` are mounted by themselves.
    """
    git = root / ".git"
    places = [git]
    if git.is_file():
        named = root / _line(git).removeprefix("gitdir:").strip()
        places = [named, named / _line(named / "commondir")]
    for place in dict.fromkeys(Path(os.path.normpath(each)) for each in places):
        if any(place.glob("*")) and place != root and place.is_relative_to(root):
            yield place


def submodules(modules: Path) -> Iterator[Path]:
    """Yield the git directories in a folder `modules`."""
    for folder in _folders_in(modules):
        if (folder / "config").is_file():
            yield folder
            yield from submodules(folder / "modules")
        else:
            yield from submodules(folder)  # a slash in its name


def closed_in(git: Path, *, wholly: bool) -> Closed:
    """Return what is closed in a git directory.

    :param wholly: whether attributes, the names of other objects and the way back of worktrees belong to it. They are
        left out of a root's submodules: there may be hundreds, and each path is a mount.
    """
    folders = [git / "hooks"]
    files = [git / name for name in _FILES]
    for worktree in worktrees(git):
        files += (worktree / name for name in _OF_A_WORKTREE)
        if wholly and (worktree / "gitdir").is_file():  # where it is missing, the worktree is no worktree
            files.append(worktree / "gitdir")
    if not wholly:
        return Closed(git, tuple(folders), tuple(files))
    folders.append(git / "info")
    if (git / "objects").is_dir():
        files.append(git / "objects" / "info" / "alternates")
    return Closed(git, tuple(folders), tuple(files), (git / "info" / "exclude",))


def closed_beside(repository: Repository) -> Iterator[Closed]:
    """Yield what is closed in the git directories of a repository that lies outside of a session's directories.

    Besides what is closed in every git directory this is what belongs to other work trees alone.
    """
    common, own = repository.common, repository.folder
    everywhere = closed_in(common, wholly=True)
    others = [each for each in (common, *worktrees(common)) if each != own]
    state = [file for each in others for file in (each / "HEAD", each / "index") if file.is_file()]
    modules = (common / "modules",) if own != common else ()
    yield Closed(common, (*everywhere.folders, *modules), (*everywhere.files, *state), everywhere.points)
    for submodule in submodules(own / "modules"):
        yield closed_in(submodule, wholly=True)


def worktrees(git: Path) -> list[Path]:
    """Return the git directories of a repository's linked worktrees."""
    return _folders_in(git / "worktrees")


def _named_by(git: Path) -> Repository | None:
    """Return the repository that a `.git` file names, if that names the file's folder in turn."""
    work_tree, named = git.parent, _line(git)
    try:
        folder = (work_tree / named.removeprefix("gitdir:").strip()).resolve(strict=True)
        common = (folder / _line(folder / "commondir")).resolve(strict=True)
        is_repository = (folder / "HEAD").is_file() and (common / "objects").is_dir()
    except (OSError, ValueError, RuntimeError):  # a loop of links
        return None
    if not named.startswith("gitdir:") or not is_repository:
        return None
    if common != folder:
        is_its_own = folder.parent == common / "worktrees" and _leads_to(folder, _line(folder / "gitdir"), git)
    else:
        found = _WORK_TREE_SETTING.findall(_content(folder / "config"))
        is_its_own = _leads_to(folder, os.fsdecode(found[-1]), work_tree) if found else _describes(folder, work_tree)
    return Repository(work_tree, folder, common) if is_its_own else None


def _leads_to(folder: Path, path: str, wanted: Path) -> bool:
    """Return whether a path that begins in a folder leads to this one, which is resolved."""
    return bool(path) and Path(os.path.normpath(folder / path)) == wanted


def _describes(git: Path, work_tree: Path) -> bool:
    """Return whether an index describes a file of the work tree: its inode, and times that nobody can set.

    A hard link to another's file has that file's inode, but is one more link to it.
    """
    for path, inode, changed, size in _index_entries(_content(git / "index")):
        with suppress(OSError, ValueError):
            found = (work_tree / path).lstat()
            described = (found.st_ino & 0xFFFFFFFF, found.st_ctime_ns // 10**9 & 0xFFFFFFFF, found.st_size & 0xFFFFFFFF)
            if stat.S_ISREG(found.st_mode) and found.st_nlink == 1 and described == (inode, changed, size):
                return True
    return False


def _index_entries(data: bytes) -> Iterator[tuple[str, int, int, int]]:
    """Yield path, inode, time of the last change and size of the first entries of an index.

    Later entries of version 4 have only a part of their path, so that only the first one is read.
    """
    if len(data) < 12 or data[:4] != b"DIRC":
        return
    version, count = struct.unpack(">LL", data[4:12])
    position = 12
    for _ in range(min(count, 1 if version == 4 else _MOST_ENTRIES)):
        fields = data[position : position + 62]
        if len(fields) < 62:
            return
        changed, _, _, _, _, inode, mode, _, _, size = struct.unpack(">10L", fields[:40])
        flags = int.from_bytes(fields[60:62], "big")
        begin = position + (64 if flags & 0x4000 else 62) + (version == 4)
        end = data.find(b"\0", begin)
        if end < 0:
            return
        if mode & 0o170000 != _GITLINK:
            yield os.fsdecode(data[begin:end]), inode, changed, size
        position += (end - position + 8) // 8 * 8


def _folders_in(folder: Path) -> list[Path]:
    try:
        found = () if folder.is_symlink() else os.scandir(folder)
        return sorted(Path(each) for each in found if each.is_dir(follow_symlinks=False))
    except OSError:
        return []


def _content(file: Path) -> bytes:
    try:
        return read_regular(file)
    except (OSError, ValueError):
        return b""


def _line(file: Path) -> str:
    return os.fsdecode(_content(file)).strip()
