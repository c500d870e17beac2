"""Reads a repository's references as git does, without running git.

A command may write these files. What git accepts, and this module would not, is a commit of the command's that nobody
sees until git itself writes the reference again in the usual form. So the same characters are accepted, and the reader
learns whether anything could not be read.

Source: gitrepository-layout(5); git's refs/files-backend.c (`parse_loose_ref_contents`, `files_read_raw_ref`),
refs/packed-backend.c (`next_record`), hex.c (`get_oid_hex`) and ctype.c (`isspace`)
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from acp_agent.regular import open_regular
from acp_agent.sandbox.listing import open_up
from acp_agent.sandbox.repositories import Repository

SPACES = ("refs/heads/", "refs/remotes/", "refs/tags/", "refs/stash")
"""Where references are whose commits count as the user's."""
MOST = 20_000
"""Maximum number of references that are read."""
_MOST_PACKED = 8 * 1024 * 1024
_LONGEST_REF = 4096
_MOST_LINKS = 5
"""How many symbolic references git follows."""
_HEX = rb"[0-9a-fA-F]{64}|[0-9a-fA-F]{40}"
_LOOSE = re.compile(rb"(%s)(?:[ \t\n\r\0]|\Z)" % _HEX)
_PACKED = re.compile(rb"(%s).(.+)" % _HEX)
"""When git looks for one reference, any byte may stand before the name."""
_SYMBOLIC = re.compile(rb"ref:[ \t\n\r]*([^\0]*)")


class References:
    """The references of one repository, as they are now.

    :ivar direct: what `HEAD` and the references in `SPACES` point to, as pairs of a name and an object.
    :ivar indirect: what other work trees' `HEAD` and symbolic references outside of `SPACES` lead to. Such an object is
        there, but not at the tip of anything that is the user's.
    :ivar is_whole: whether everything could be read that git might read.
    """

    def __init__(self, repository: Repository) -> None:
        self.direct: list[tuple[str, str]] = []
        self.indirect: set[str] = set()
        self.is_whole = True
        self._common = repository.common
        self._packed = dict(self._packed_references())
        self._head(repository.folder / "HEAD", is_own=True)
        for name, kind, value in self._loose():
            self._add(name, kind, value)
        self.direct += [(name, value) for name, value in self._packed.items() if name.startswith(SPACES)]
        for folder in self._work_trees():
            self._head(folder / "HEAD", is_own=False)

    def _add(self, name: str, kind: str, value: str) -> None:
        if kind == "object":
            self.direct.append((name, value))
        elif not value.startswith(SPACES):
            self._follow(value)

    def _head(self, file: Path, *, is_own: bool) -> None:
        kind, value = self._read(file)
        if kind == "object" and is_own:
            self.direct.append(("HEAD", value))
        elif kind == "object":
            self.indirect.add(value)
        elif kind == "symbolic" and not value.startswith(SPACES):
            self._follow(value)

    def _follow(self, name: str) -> None:
        """Record what a symbolic reference leads to."""
        for _ in range(_MOST_LINKS):
            if not name.startswith("refs/") or ".." in name:  # git takes no such name
                return
            kind, value = self._read(self._common / name)
            if kind == "symbolic":
                name = value
                continue
            found = value if kind == "object" else self._packed.get(name)
            if found is not None:
                self.indirect.add(found)
            return

    def _loose(self) -> Iterator[tuple[str, str, str]]:
        """Yield the name of each reference that has a file, and what it contains."""
        folders = ["refs"]
        seen = 0
        while folders:
            folder = folders.pop()
            open_up(self._common / folder)
            try:
                with os.scandir(self._common / folder) as opened:
                    entries = list(opened)
            except FileNotFoundError:
                continue
            except OSError:
                self.is_whole = False
                continue
            for entry in entries:
                seen += 1
                if seen > MOST:
                    self.is_whole = False
                    return
                name = f"{folder}/{entry.name}"
                if entry.is_dir(follow_symlinks=False):
                    if any(space.startswith(f"{name}/") or f"{name}/".startswith(space) for space in SPACES):
                        folders.append(name)
                elif name.startswith(SPACES) or f"{name}/" in SPACES:
                    yield (name, *self._read(self._common / name))

    def _packed_references(self) -> Iterator[tuple[str, str]]:
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
        """Return what a reference's file contains: an `object` and its name, a `symbolic` one and its target, or
        `nothing` that git takes."""
        try:
            # Git makes no links. Where one leads, anything could be put later.
            if file.is_symlink():
                target = os.readlink(file)  # noqa: PTH115 - as it is written
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
        return ("object", found[1].decode().lower()) if found is not None else ("nothing", "")

    def _work_trees(self) -> list[Path]:
        open_up(self._common / "worktrees")
        with suppress(FileNotFoundError, NotADirectoryError):
            try:
                return sorted((self._common / "worktrees").iterdir())
            except PermissionError:
                self.is_whole = False
        return []
