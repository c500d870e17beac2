"""The files that a command line names, and which of them it deleted, moved or copied.

They are looked up before the command runs and again behind it. What a command does to files that its line does not name
in full is not known, nor whether one of many megabytes is a copy: a sparse file of 80 GB takes a minute to compare,
which no limit of the command's would end.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from acp_agent.conversation.views import FileChange
from acp_agent.regular import open_regular

_PROGRAMS = frozenset(("rm", "rmdir", "unlink", "mv", "cp"))
"""By themselves, or as in `git mv`."""
_MOST_NAMES = 32
_MOST_CHARACTERS = 20_000
"""Of a command line in which names are looked for."""
_MOST_COMPARED = 16 * 1024 * 1024
"""Bytes of files that are compared after one command, to find copies."""
_BLOCK = 256 * 1024


def named_files(command: str, cwd: Path) -> Callable[[], tuple[FileChange, ...]] | None:
    """Look up the files that a command line names.

    :param cwd: where it is to run, absolute.
    :returns: what tells, once it has run, what became of them; None where it deletes, moves and copies none.
    """
    if len(command) > _MOST_CHARACTERS:
        return None
    lexer = shlex.shlex(command, posix=True, punctuation_chars=True)
    lexer.whitespace_split, lexer.commenters = True, ""
    try:
        words = list(lexer)
    except ValueError:
        return None
    if not _PROGRAMS.intersection(word.rpartition("/")[2] for word in words):
        return None
    named = list(dict.fromkeys(Path(os.path.normpath(cwd / word)) for word in words if _is_plain(word)))[:_MOST_NAMES]
    before = {path: status for path in named if (status := _status(path)) is not None}
    # Where each may be moved or copied to: to what else is named, or into it.
    places = {
        path: [place for other in named if other != path for place in (other, other / path.name)] for path in before
    }
    free = {place for found in places.values() for place in found if _status(place) is None}

    def changes() -> tuple[FileChange, ...]:
        found: list[FileChange] = []
        comparison = _Comparison()
        for path, was in before.items():
            if _status(path) is None:
                new = next((place for place in places[path] if _is_same(was, _status(place))), None)
                found.append(FileChange("move", str(new), str(path)) if new else FileChange("delete", str(path)))
            elif copy := next(
                (place for place in places[path] if place in free and comparison.is_copy(path, place)), None
            ):
                free.discard(copy)
                found.append(FileChange("copy", str(copy), str(path)))
        return tuple(found)

    return changes


def _is_plain(word: str) -> bool:
    """Return whether the shell leaves a word as it is, and it is no option."""
    return not word.startswith(("-", "~")) and not any(character in word for character in "\0$`*?[{();<>|&")


def _status(path: Path) -> os.stat_result | None:
    with suppress(OSError):
        return path.lstat()
    return None


def _is_same(one: os.stat_result, other: os.stat_result | None) -> bool:
    """Return whether it is the very same file: a new one may get the inode of one that is gone, but not its time."""
    return other is not None and os.path.samestat(one, other) and one.st_mtime_ns == other.st_mtime_ns


class _Comparison:
    """Compares files, as long as they have few bytes together.

    :ivar left: how many bytes may still be compared.
    """

    def __init__(self) -> None:
        self.left = _MOST_COMPARED

    def is_copy(self, path: Path, place: Path) -> bool:
        """Return whether a file holds the same as another; False where that would take too long to find out."""
        was, made = _status(path), _status(place)
        # Empty ones are all the same.
        if was is None or made is None or not made.st_size or os.path.samestat(was, made):
            return False
        if was.st_size != made.st_size or made.st_size > self.left:
            return False
        try:
            with open_regular(path) as one, open_regular(place) as other:
                return self._is_same(one, other)
        except OSError:
            return False

    def _is_same(self, one: BinaryIO, other: BinaryIO) -> bool:
        while self.left > 0:
            block = one.read(_BLOCK)
            self.left -= len(block)
            if block != other.read(_BLOCK):
                return False
            if not block:
                return True
        return False
