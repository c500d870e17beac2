"""The files that a command line names, and which of them it deleted, moved or copied.

They are looked up before the command runs and again behind it. What a command does to files that its line does not name
in full is not known.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable
from contextlib import suppress
from filecmp import cmp
from pathlib import Path

from acp_agent.conversation.views import FileChange

_PROGRAMS = frozenset(("rm", "rmdir", "unlink", "mv", "cp"))
"""By themselves, or as in `git mv`."""
_MOST_NAMES = 32


def named_files(command: str, cwd: Path) -> Callable[[], tuple[FileChange, ...]] | None:
    """Look up the files that a command line names.

    :param cwd: where it is to run, absolute.
    :returns: what tells, once it has run, what became of them; None where it deletes, moves and copies none.
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
    before = {path: status for path in named if (status := _status(path)) is not None}
    # Where each may be moved or copied to: to what else is named, or into it.
    places = {
        path: [place for other in named if other != path for place in (other, other / path.name)] for path in before
    }
    free = {place for found in places.values() for place in found if _status(place) is None}

    def changes() -> tuple[FileChange, ...]:
        found: list[FileChange] = []
        for path, was in before.items():
            if _status(path) is None:
                new = next((place for place in places[path] if _is_same(was, _status(place))), None)
                found.append(FileChange("move", str(new), str(path)) if new else FileChange("delete", str(path)))
            elif copy := next((place for place in places[path] if place in free and _is_copy(path, place)), None):
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


def _is_copy(path: Path, place: Path) -> bool:
    was, made = _status(path), _status(place)
    # Empty ones are all the same.
    if was is None or made is None or not made.st_size or os.path.samestat(was, made):
        return False
    with suppress(OSError):
        return cmp(path, place, shallow=False)
    return False
