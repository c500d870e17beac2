"""Finds the files that a command line names, and reports which of them it deleted,
moved or copied.

They are checked before and after the command runs. Changes to files that the command
line does not name in full are not detected, and neither are copies of very large files:
comparing a sparse file of 80 GB takes a minute, and the command's time limit would not
stop it.
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
"""Programs that delete, move or copy files, on their own or as in `git mv`."""
_MOST_NAMES = 32
_MOST_CHARACTERS = 20_000
"""Maximum length of a command line that is searched for file names."""
_MOST_COMPARED = 16 * 1024 * 1024
"""Maximum number of bytes to compare after one command to find copies."""
_BLOCK = 256 * 1024


def named_files(command: str, cwd: Path) -> Callable[[], tuple[FileChange, ...]] | None:
    """Look up the files that a command line names.

    :param cwd: the absolute path in which the command will run.
    :returns: a function to call after the command, which returns the changes to these
        files; None if the command does not delete, move or copy files.
    """
    if len(command) > _MOST_CHARACTERS:
        return None
    lexer = shlex.shlex(command, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    lexer.commenters = ""
    try:
        words = list(lexer)
    except ValueError:
        return None
    if not _PROGRAMS.intersection(word.rpartition("/")[2] for word in words):
        return None
    named = list(
        dict.fromkeys(
            Path(os.path.normpath(cwd / word)) for word in words if _is_plain(word)
        )
    )[:_MOST_NAMES]
    before = {path: status for path in named if (status := _status(path)) is not None}
    # A file may be moved or copied to any other named path, or into it.
    places = {
        path: [
            place
            for other in named
            if other != path
            for place in (other, other / path.name)
        ]
        for path in before
    }
    free = {
        place for found in places.values() for place in found if _status(place) is None
    }

    def changes() -> tuple[FileChange, ...]:
        found: list[FileChange] = []
        comparison = _Comparison()
        for path, was in before.items():
            if _status(path) is None:
                new = next(
                    (place for place in places[path] if _is_same(was, _status(place))),
                    None,
                )
                found.append(
                    FileChange("move", str(new), str(path))
                    if new
                    else FileChange("delete", str(path))
                )
            elif copy := next(
                (
                    place
                    for place in places[path]
                    if place in free and comparison.is_copy(path, place)
                ),
                None,
            ):
                free.discard(copy)
                found.append(FileChange("copy", str(copy), str(path)))
        return tuple(found)

    return changes


def _is_plain(word: str) -> bool:
    """Return whether the shell leaves a word unchanged and it is not an option."""
    return not word.startswith(("-", "~")) and not any(
        character in word for character in "\0$`*?[{();<>|&"
    )


def _status(path: Path) -> os.stat_result | None:
    with suppress(OSError):
        return path.lstat()
    return None


def _is_same(one: os.stat_result, other: os.stat_result | None) -> bool:
    """Return whether both are the same file. A new file may reuse a deleted file's
    inode, but not its timestamp.
    """
    return (
        other is not None
        and os.path.samestat(one, other)
        and one.st_mtime_ns == other.st_mtime_ns
    )


class _Comparison:
    """Compares files, up to a total number of bytes.

    :ivar left: how many bytes may still be compared.
    """

    def __init__(self) -> None:
        self.left = _MOST_COMPARED

    def is_copy(self, path: Path, place: Path) -> bool:
        """Return whether two files have the same content. Return False if comparing
        them would take too long.
        """
        was = _status(path)
        made = _status(place)
        # All empty files are equal, so they say nothing.
        if (
            was is None
            or made is None
            or not made.st_size
            or os.path.samestat(was, made)
        ):
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
