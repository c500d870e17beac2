"""Reads a repository's references as git does, without running git.

A command may write these files. If git accepted a reference that this module does not,
the command's commit would go unnoticed until git rewrites the reference in the usual
form. So this module accepts the same characters as git, and reports whether anything
could not be read.

A project may contain many nested repositories. So the results are cached together with
the versions of the files and folders. A version consists of the inode and the change
time, which nobody can set.

Source: gitrepository-layout(5); git-stash(1); git's refs/files-backend.c
(`parse_loose_ref_contents`, `files_read_raw_ref`, `show_one_reflog_ent`),
refs/packed-backend.c (`next_record`), hex.c (`get_oid_hex`) and ctype.c (`isspace`)
"""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias

from acp_agent.regular import open_regular
from acp_agent.sandbox.listing import entries, open_up
from acp_agent.sandbox.repositories import Repository

_Version: TypeAlias = tuple[int, int, int] | None
"""The inode, change time and size of a file or folder; None if it does not exist."""

SPACES = ("refs/heads/", "refs/remotes/", "refs/tags/", "refs/stash")
"""The namespaces of references whose commits count as the user's."""
MOST = 20_000
"""Maximum number of references that are read."""
_MOST_PACKED = 8 * 1024 * 1024
_MOST_STASHES = 1024 * 1024
"""Maximum size of the log of the stash, in bytes."""
_REPLACED = "refs/replace/"
_LONGEST_REF = 4096
_MOST_LINKS = 5
"""How many symbolic references git follows in a row."""
_HEX = rb"[0-9a-fA-F]{64}|[0-9a-fA-F]{40}"
_LOOSE = re.compile(rb"(%s)(?:[ \t\n\r\0]|\Z)" % _HEX)
_PACKED = re.compile(rb"(%s).(.+)" % _HEX)
"""When git looks up a single reference, any byte may precede the name."""
_SYMBOLIC = re.compile(rb"ref:[ \t\n\r]*([^\0]*)")
_STASH = re.compile(rb"(%s) (%s) " % (_HEX, _HEX))
STASHES = "refs/stash@{}"
"""The name of the references to all stashes but the latest. Only the log of the stash
names these.
"""

_UNSTABLE_NS = 100_000_000
"""Nanoseconds within which a file may change twice with the same change time."""
_MOST_REMEMBERED = 500
_remembered: dict[Repository, tuple[dict[str, _Version], GitReferences]] = {}
"""The references of each repository, with the versions of the files and folders they
were read from. Shared by all sessions.
"""


def references_of(repository: Repository) -> GitReferences:
    """Return the current references of a repository. Unchanged files are not read
    again.
    """
    known = _remembered.get(repository)
    if known is not None and _are_current(known[0]):
        return known[1]
    references = GitReferences(repository)
    if references.is_whole and references.is_stable:
        if len(_remembered) >= _MOST_REMEMBERED:
            _remembered.clear()
        _remembered[repository] = references.versions, references
    else:
        _remembered.pop(repository, None)
    return references


class GitReferences:
    """The current references of one repository.

    :ivar direct: the targets of `HEAD` and of the references in `SPACES`, as pairs of a
        name and an object.
    :ivar indirect: the targets of other work trees' `HEAD` and of symbolic references
        outside `SPACES`. Such an object exists, but is not at the tip of anything that
        belongs to the user.
    :ivar head: the commit that is checked out; None if there is no commit yet.
    :ivar replaced: objects that git replaces with others, as pairs of an object and its
        replacement.
    :ivar is_whole: whether everything that git might read could be read.
    :ivar versions: the version of each file and folder before it was read.
    :ivar is_stable: whether the next change is certain to change these versions. After
        a very recent change, it may not be.
    """

    def __init__(self, repository: Repository) -> None:
        self.direct: list[tuple[str, str]] = []
        self.indirect: set[str] = set()
        self.head: str | None = None
        self.is_whole = True
        self.versions: dict[str, _Version] = {}
        self.is_stable = True
        self._newest = time.time_ns() - _UNSTABLE_NS
        self._common = repository.common
        self._packed = dict(self._packed_references())
        self._head(repository.folder / "HEAD", is_own=True)
        self.replaced = frozenset(self._replacements())
        for name, kind, value in self._loose():
            self._add(name, kind, value)
        self.direct += [
            (name, value)
            for name, value in self._packed.items()
            if name.startswith(SPACES)
        ]
        self.direct += [(STASHES, commit) for commit in self._stashes()]
        for folder in self._work_trees():
            self._head(folder / "HEAD", is_own=False)

    def _note(self, path: Path) -> None:
        """Record the version of a file or folder that is about to be read."""
        version: _Version = None
        try:
            status = os.lstat(path)
            version = (status.st_ino, status.st_ctime_ns, status.st_size)
            self.is_stable &= status.st_ctime_ns < self._newest and not stat.S_ISLNK(
                status.st_mode
            )
        except (FileNotFoundError, NotADirectoryError):
            pass
        except OSError:
            self.is_stable = False
        self.versions[str(path)] = version

    def _add(self, name: str, kind: str, value: str) -> None:
        if kind == "object":
            self.direct.append((name, value))
        elif kind == "symbolic" and not value.startswith(SPACES):
            found = self._resolved(value)
            self.indirect |= {found} if found is not None else set()

    def _head(self, file: Path, *, is_own: bool) -> None:
        kind, value = self._read(file)
        found = (
            value
            if kind == "object"
            else self._resolved(value)
            if kind == "symbolic"
            else None
        )
        if is_own:
            self.head = found
        if kind == "object" and is_own:
            self.direct.append(("HEAD", value))
        elif found is not None and (kind == "object" or not value.startswith(SPACES)):
            self.indirect.add(found)

    def _resolved(self, name: str) -> str | None:
        """Return the object that a symbolic reference leads to, or None if there is
        none.
        """
        for _ in range(_MOST_LINKS):
            if not name.startswith("refs/") or ".." in name:  # git accepts no such name
                return None
            kind, value = self._read(self._common / name)
            if kind != "symbolic":
                return value if kind == "object" else self._packed.get(name)
            name = value
        return None

    def _loose(self) -> Iterator[tuple[str, str, str]]:
        """Yield the name of each reference that has its own file, and the file's
        content.
        """
        folders = ["refs"]
        seen = 0
        while folders:
            folder = folders.pop()
            open_up(self._common / folder)
            self._note(self._common / folder)
            try:
                with os.scandir(self._common / folder) as opened:
                    inside = list(opened)
            except FileNotFoundError:
                continue
            except OSError:
                self.is_whole = False
                continue
            for entry in inside:
                seen += 1
                if seen > MOST:
                    self.is_whole = False
                    return
                name = f"{folder}/{entry.name}"
                if entry.is_dir(follow_symlinks=False):
                    if any(
                        space.startswith(f"{name}/") or f"{name}/".startswith(space)
                        for space in SPACES
                    ):
                        folders.append(name)
                elif name.startswith(SPACES) or f"{name}/" in SPACES:
                    yield (name, *self._read(self._common / name))

    def _packed_references(self) -> Iterator[tuple[str, str]]:
        self._note(self._common / "packed-refs")
        try:
            with open_regular(self._common / "packed-refs") as opened:
                text = opened.read(_MOST_PACKED + 1)
        except FileNotFoundError:
            return
        except (OSError, ValueError):
            self.is_whole = False
            return
        if len(text) > _MOST_PACKED:
            self.is_whole = False
        for line in text.split(b"\n"):
            if (found := _PACKED.fullmatch(line)) is not None:
                yield os.fsdecode(found[2]), found[1].decode().lower()

    def _read(self, file: Path) -> tuple[str, str]:
        """Return the content of a reference's file: `object` and its name, `symbolic`
        and its target, or `nothing` if git would not accept the content.
        """
        self._note(file)
        try:
            # Git creates no links here. Anything could later be put at the place that a
            # link leads to.
            if file.is_symlink():
                target = os.readlink(file)  # noqa: PTH115 - unresolved
                self.is_whole &= target.startswith("refs/")
                if target.startswith("refs/"):
                    return "symbolic", target
            with open_regular(file) as opened:
                text = opened.read(_LONGEST_REF)
        except FileNotFoundError:
            return "nothing", ""
        except (OSError, ValueError):
            self.is_whole = False
            return "nothing", ""
        if (symbolic := _SYMBOLIC.match(text)) is not None:
            return "symbolic", os.fsdecode(symbolic[1].rstrip(b" \t\n\r"))
        found = _LOOSE.match(text)
        return (
            ("object", found[1].decode().lower())
            if found is not None
            else ("nothing", "")
        )

    def _replacements(self) -> Iterator[tuple[str, str]]:
        """See `replaced`. Source: git-replace(1)"""
        found = {
            name: value
            for name, value in self._packed.items()
            if name.startswith(_REPLACED)
        }
        folder = self._common / _REPLACED
        self._note(folder)
        for entry in entries(folder)[:MOST]:
            kind, value = self._read(folder / entry.name)
            if kind == "object":
                found[_REPLACED + entry.name] = value
        yield from (
            (name.removeprefix(_REPLACED), value) for name, value in found.items()
        )

    def _stashes(self) -> Iterator[str]:
        """Yield each object that an entry of the stash's log names."""
        log = self._common / "logs/refs/stash"
        open_up(log.parent)
        self._note(log)
        try:
            self.is_whole &= not log.is_symlink()
            with open_regular(log) as opened:
                text = opened.read(_MOST_STASHES + 1)
        except (FileNotFoundError, NotADirectoryError):
            return
        except (OSError, ValueError):
            self.is_whole = False
            return
        self.is_whole &= len(text) <= _MOST_STASHES
        for line in text.split(b"\n"):
            found = _STASH.match(line)
            for name in found.groups() if found is not None else ():
                if name.strip(b"0"):
                    yield name.decode().lower()

    def _work_trees(self) -> list[Path]:
        open_up(self._common / "worktrees")
        self._note(self._common / "worktrees")
        with suppress(FileNotFoundError, NotADirectoryError):
            try:
                return sorted((self._common / "worktrees").iterdir())
            except PermissionError:
                self.is_whole = False
        return []


def _are_current(versions: dict[str, _Version]) -> bool:
    """Return whether all files and folders are unchanged."""
    for path, version in versions.items():
        try:
            status = os.lstat(path)
        except (FileNotFoundError, NotADirectoryError):
            if version is not None:
                return False
        except OSError:
            return False
        else:
            if (status.st_ino, status.st_ctime_ns, status.st_size) != version:
                return False
    return True
