"""What became of the files that a command line names: which were deleted, moved or copied.

Nobody can tell that from the line alone, so its names are looked up before it runs and again behind it, and only what
is seen then is told: a file that was there and is not, one that is the same under another name, one whose bytes are
another's. What a command does to files that its line does not name in full is not known.
"""

from __future__ import annotations

import os
import shlex
import stat
from collections.abc import Iterable, Iterator, Mapping
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
class NamedFiles:
    """The files that a command line names, as they were before it ran.

    :ivar named: what its words are as paths, absolute.
    :ivar before: what was there, and at each path that one of them may be moved or copied to; see `_statuses`.
    :ivar kinds: of what was there.
    """

    named: tuple[Path, ...]
    before: Mapping[Path, os.stat_result | None]
    kinds: Mapping[Path, FileKind | None]

    def changes(self) -> tuple[FileChange, ...]:
        """What became of them; looks at the disk."""
        now = _statuses(self.before)
        return (*self._gone(now), *self._copied(now))

    def _gone(self, now: Mapping[Path, os.stat_result | None]) -> Iterator[FileChange]:
        for path in self.named:
            was = self.before.get(path)
            if was is None or now.get(path, was) is not None:
                continue
            moved = (each for each in _places(path, self.named) if _is_same(was, now.get(each)))
            new = next((each for each in moved if not _is_same(was, self.before.get(each, was))), None)
            if new is None:
                yield FileChange("delete", str(path), kind=self.kinds[path])
            else:
                yield FileChange("move", str(new), str(path), self.kinds[path])

    def _copied(self, now: Mapping[Path, os.stat_result | None]) -> Iterator[FileChange]:
        originals: dict[Path, list[Path]] = {}
        for path in self.named:
            was = self.before.get(path)
            if was is None or not _is_same(was, now.get(path)):
                continue
            for place in _places(path, self.named):
                made = now.get(place)
                if self.before.get(place, was) is None and made is not None and _is_copy(path, was, place, made):
                    originals.setdefault(place, []).append(path)
        for place, found in originals.items():
            if len(found) == 1:  # else nobody knows of which it is the copy
                yield FileChange("copy", str(place), str(found[0]), self.kinds[found[0]])


def named_files(command: str, cwd: Path) -> NamedFiles | None:
    """Look up the files that a command line names; None where it runs nothing that deletes, moves or copies any.

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
    paths = dict.fromkeys(Path(os.path.normpath(cwd / word)) for word in words if _is_plain(word))
    named = tuple(paths)[:_MOST_NAMES]
    there = _statuses(named)
    places = dict.fromkeys(place for path in named if there.get(path) for place in _places(path, named))
    before = {**_statuses(places), **there}
    return NamedFiles(named, before, {path: _kind(path, before.get(path)) for path in named})


def _is_plain(word: str) -> bool:
    """Whether the shell leaves it as it is, and it is no option."""
    return not word.startswith(("-", "~")) and not any(character in word for character in "\0$`*?[{();<>|&")


def _places(path: Path, named: tuple[Path, ...]) -> Iterator[Path]:
    """Where a file may be moved or copied to: to what else is named, or into it."""
    for other in named:
        if other != path:
            yield other
            yield other / path.name


def _statuses(paths: Iterable[Path]) -> dict[Path, os.stat_result | None]:
    """What is at each path: None where nothing is, left out where that cannot be found out."""
    found: dict[Path, os.stat_result | None] = {}
    for path in paths:
        try:
            found[path] = path.lstat()
        except (FileNotFoundError, NotADirectoryError):
            found[path] = None
        except OSError:
            pass  # in a folder that may not be looked into, for one
    return found


def _kind(path: Path, status: os.stat_result | None) -> FileKind | None:
    if status is None:
        return None
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
    """Whether it is the very same file. A new one may have the number of one that is gone, but not its time as well."""
    return other is not None and os.path.samestat(one, other) and one.st_mtime_ns == other.st_mtime_ns


def _is_copy(path: Path, was: os.stat_result, place: Path, made: os.stat_result) -> bool:
    # Empty ones are all the same.
    if not all(stat.S_ISREG(status.st_mode) and 0 < status.st_size <= _LONGEST_COPY for status in (was, made)):
        return False
    try:
        return not os.path.samestat(was, made) and cmp(path, place, shallow=False)
    except OSError:
        return False
