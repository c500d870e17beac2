"""The files that a command line names, and which of them it deleted, moved or copied.

They are looked up before the command runs and again behind it. What a command does to files that its line does not name
in full is not known.
"""

from __future__ import annotations

import os
import shlex
import stat
from collections.abc import Iterator, Mapping
from filecmp import cmp
from pathlib import Path

from acp_agent.conversation.events import FileChange, FileKind
from acp_agent.frozen import frozen
from acp_agent.regular import open_regular

_PROGRAMS = frozenset(("rm", "rmdir", "unlink", "mv", "cp"))
"""By themselves, or as in `git mv`."""
_MOST_NAMES = 32
_LONGEST_COPY = 8 << 20
"""Bytes of a file that is compared with another."""
_BEGINNING = 8192


@frozen
class _NamedFiles:
    """The files that a command line names, as they were before it ran.

    :ivar there: what was there.
    :ivar places: where each of them may be moved or copied to: to what else is named, or into it.
    :ivar free: the places where nothing was.
    """

    there: Mapping[Path, tuple[os.stat_result, FileKind | None]]
    places: Mapping[Path, tuple[Path, ...]]
    free: frozenset[Path]

    def changes(self) -> tuple[FileChange, ...]:
        """Return what became of them; looks at the disk."""
        return tuple(self._changes())

    def _changes(self) -> Iterator[FileChange]:
        free = set(self.free)
        for path, (was, kind) in self.there.items():
            if _status(path) is None:
                new = next((place for place in self.places[path] if _is_same(was, _status(place))), None)
                if new is None:
                    yield FileChange("delete", str(path), kind=kind)
                else:
                    yield FileChange("move", str(new), str(path), kind)
            elif copy := next((place for place in self.places[path] if place in free and _is_copy(path, place)), None):
                free.discard(copy)
                yield FileChange("copy", str(copy), str(path), kind)


def named_files(command: str, cwd: Path) -> _NamedFiles | None:
    """Look up the files that a command line names; return None where it deletes, moves and copies none.

    :param cwd: where it is to run, absolute.
    """
    lexer = shlex.shlex(command, posix=True, punctuation_chars=True)
    lexer.whitespace_split, lexer.commenters = True, ""
    try:
        words = list(lexer)
    except ValueError:
        return None
    if not _PROGRAMS.intersection(word.rpartition("/")[2] for word in words):
        return None
    named = list(dict.fromkeys(Path(os.path.normpath(cwd / word)) for word in words if _is_plain(word)))[:_MOST_NAMES]
    there: dict[Path, tuple[os.stat_result, FileKind | None]] = {}
    for path in named:
        if (status := _status(path)) is not None:
            there[path] = status, _kind(path, status)
    places = {
        path: tuple(place for other in named if other != path for place in (other, other / path.name)) for path in there
    }
    candidates = {place for found in places.values() for place in found}
    return _NamedFiles(there, places, frozenset(place for place in candidates if _status(place) is None))


def _is_plain(word: str) -> bool:
    """Return whether the shell leaves a word as it is, and it is no option."""
    return not word.startswith(("-", "~")) and not any(character in word for character in "\0$`*?[{();<>|&")


def _status(path: Path) -> os.stat_result | None:
    try:
        return path.lstat()
    except OSError:
        return None


def _kind(path: Path, status: os.stat_result) -> FileKind | None:
    if stat.S_ISDIR(status.st_mode):
        return "directory"
    if stat.S_ISLNK(status.st_mode):
        return "symlink"
    if not stat.S_ISREG(status.st_mode):
        return None  # to open a pipe lets its writer go on, and to open a port resets what is at its other end
    try:
        with open_regular(path, follow=False) as file:
            return "binary" if b"\0" in file.read(_BEGINNING) else "text"
    except OSError:
        return None


def _is_same(one: os.stat_result, other: os.stat_result | None) -> bool:
    """Return whether it is the very same file: a new one may get the inode of one that is gone, but not its time."""
    return other is not None and os.path.samestat(one, other) and one.st_mtime_ns == other.st_mtime_ns


def _is_copy(path: Path, place: Path) -> bool:
    was, made = _status(path), _status(place)
    if was is None or made is None or os.path.samestat(was, made):
        return False
    # Empty ones are all the same.
    if not all(stat.S_ISREG(status.st_mode) and 0 < status.st_size <= _LONGEST_COPY for status in (was, made)):
        return False
    try:
        return cmp(path, place, shallow=False)
    except OSError:
        return False
