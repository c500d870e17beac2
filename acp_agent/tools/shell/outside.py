"""Finds the paths outside the session's directories that a command line, or the output
of a command, names.

The result is a hint for the user and decides nothing: a command can use paths that it
does not name.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path

_MOST_CHARACTERS = 20_000
"""Maximum length of a text that is searched."""
_MOST_PATHS = 8
_QUOTED = re.compile(r"'[^'\n]*+'|\"[^\"\n]*+\"|‘[^‘’\n]*+’")
_BARE = re.compile(r"[^\s'\"‘’`,;:()\[\]{}<>|=&]++")
_OF_THE_SYSTEM = tuple(
    Path("/", name)
    for name in (
        *("bin", "boot", "dev", "etc", "lib", "lib32", "lib64", "proc", "run", "sbin"),
        *("sys", "usr", "var", "System", "Library"),
    )
)


def outside_in_command(line: str, cwd: Path, roots: Sequence[Path]) -> tuple[Path, ...]:
    """Return the paths outside the roots that a command line names.

    :param cwd: the absolute path in which the command would run.
    """
    if "/" not in line and ".." not in line and "~" not in line:
        return ()
    lexer = shlex.shlex(line[:_MOST_CHARACTERS], posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    lexer.commenters = ""
    try:
        words = [*lexer]
    except ValueError:  # such as an apostrophe in a here-document
        return ()
    names = [name for word in words for name in (word, word.partition("=")[2])]
    return _outside([name for name in names if _is_name(name)], cwd, roots)


def outside_in_output(
    output: str, cwd: Path, roots: Sequence[Path]
) -> tuple[Path, ...]:
    """Return the paths outside the roots that a program's messages name."""
    text = output[-_MOST_CHARACTERS:]
    quoted = [found[0][1:-1] for found in _QUOTED.finditer(text)]
    words: list[str] = _BARE.findall(_QUOTED.sub(" ", text))
    bare = [word for word in words if "/" in word]
    names = [name for name in (*quoted, *bare) if _is_name(name)]
    return _outside(names, cwd, roots)


def _is_name(word: str) -> bool:
    return ("/" in word or word in ("..", "~")) and "://" not in word


def _outside(
    names: Iterable[str], cwd: Path, roots: Sequence[Path]
) -> tuple[Path, ...]:
    home = Path.home()
    found: dict[Path, None] = {}
    for name in names:
        path = Path(os.path.normpath(cwd / Path(_with_home(name, home))))
        is_inside = any(path.is_relative_to(root) for root in roots)
        # Nobody adds the system's directories, or one that contains everything else.
        is_system = any(path.is_relative_to(place) for place in _OF_THE_SYSTEM)
        is_above = any(root.is_relative_to(path) for root in (*roots, home))
        if not (is_inside or is_system or is_above or "\0" in name):
            found[path] = None
    return tuple(found)[:_MOST_PATHS]


def _with_home(name: str, home: Path) -> str:
    return f"{home}{name[1:]}" if name == "~" or name.startswith("~/") else name
