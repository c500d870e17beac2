"""Which command lines a recipe's `allowed_commands` allow: globs over the words of each simple command.

A command line is read as a shell reads it, as far as it is simple; the rest (redirections, substitutions, variables,
wrappers such as `sudo`) is not understood, and allowed by `*` or by itself alone.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from typing import TypeAlias

_PIECE = re.compile(
    r"(?P<blank>[ \t]+)|(?P<end>&&|\|\||[;|])"
    r"|'(?P<single>[^'\x00-\x08\x0a-\x1f]*)'|\"(?P<double>[^\"\\`$\x00-\x08\x0a-\x1f]*)\""
    r"|\\(?P<escaped>[();<>|&{}!])|(?P<plain>(?<!\S)\{\}(?!\S)|[^\s'\"\\`$();<>|&{}\x00-\x1f]+)"
)
_PROGRAM = re.compile(r"[A-Za-z0-9_./+-]+")
# What runs something else, so that its name says nothing about what happens.
_WRAPPER_NAMES = """
    ! . [[ ash bash builtin busybox chroot command coproc csh dash doas entr env eval exec expect fakeroot fish flock
    gchroot genv gnice gnohup gstdbuf gtime gtimeout gxargs ionice ksh ksh93 mksh nice nohup nsenter osascript parallel
    pkexec pwsh runuser screen script setsid sh source ssh stdbuf strace su sudo systemd-run taskset tcsh time timeout
    tmux trap unshare watch xargs zsh case do done elif else esac fi for function if select then until while
"""
_WRAPPERS = frozenset(_WRAPPER_NAMES.split())
_OPTION = re.compile("-[a-zA-Z0-9]|--[a-z][a-z0-9-]*")


_Words: TypeAlias = tuple[str, ...]
"""A simple command: the program and its arguments."""


def _commands_of(line: str) -> list[_Words] | None:
    """Return the simple commands of a line; None where it is not understood."""
    commands: list[_Words] = []
    words: list[str] = []
    word: str | None = None
    at, line = 0, f"{line.strip()} ;"
    while at < len(line):
        piece = _PIECE.match(line, at)
        if piece is None:
            return None
        at = piece.end()
        if piece["blank"] or piece["end"]:
            if word is not None:
                words.append(word)
            word = None
        else:
            plain = piece["plain"] or ""
            if word is None and plain.startswith("#"):
                return None  # a comment
            word = (word or "") + (plain or piece["escaped"] or piece["single"] or piece["double"] or "")
        if piece["end"]:
            if not words or not _PROGRAM.fullmatch(words[0]) or words[0].rpartition("/")[2] in _WRAPPERS:
                return None
            commands.append(tuple(words))
            words = []
    return commands


def refusal(line: str, patterns: Sequence[str]) -> str:
    """Return why these patterns do not allow a command line for a shell; empty where they do.

    Each simple command of the line has to match a pattern.
    """
    has_wildcard = any(set("*?[").intersection(piece["plain"] or "") for piece in _PIECE.finditer(line))
    return _refusal(line.strip(), _commands_of(line) or (), patterns, has_wildcard)


def refusal_of_words(words: Sequence[str], patterns: Sequence[str]) -> str:
    """Return the same of a program and its arguments, which no shell reads."""
    return _refusal(shlex.join(words), [tuple(words)], patterns, False)


def _refusal(line: str, commands: Sequence[_Words], patterns: Iterable[str], has_wildcard: bool) -> str:
    """Return why the patterns do not allow these commands; a line that is not understood has none.

    :param has_wildcard: whether the shell may put the name of a file into the line, which may be an option.
    """
    patterns = [pattern.strip() for pattern in patterns]
    # A glob matches a command word by word, but for `*`, which also stands for several words.
    globs = [pattern for pattern in patterns if not pattern.startswith("!")]
    understood = bool(commands) and all(
        any(fnmatchcase("\0".join(each), "\0".join(_words(glob))) for glob in globs) for each in commands
    )
    if not (understood or line in globs or "*" in globs):
        return f"it is none of the recipe's `allowed_commands`, which are: {', '.join(patterns) or 'none'}"
    for pattern in (pattern for pattern in patterns if pattern.startswith("!")):
        if not commands:
            return f"it is no plain command, so that it is unknown whether `{pattern}` forbids it"
        program, *rest = _words(pattern[1:])
        for command in (each for each in commands if fnmatchcase(each[0].rpartition("/")[2], program)):
            if has_wildcard:
                return f"a wildcard in it could become what `{pattern}` forbids, where a file is called so; quote it"
            if _holds(rest, command[1:]):
                return f"`{pattern}` among the recipe's `allowed_commands` forbids it"
    return ""


def _holds(globs: Sequence[str], words: Sequence[str]) -> bool:
    """Return whether globs match words in their order, whatever is between."""
    rest = iter(words)
    return all(any(fnmatchcase(word, glob) or _is_option(glob, word) for word in rest) for glob in globs)


def _is_option(option: str, word: str) -> bool:
    """Return whether a word is an option in another spelling: abbreviated, with its value, or among other letters."""
    if not _OPTION.fullmatch(option):
        return False
    if option.startswith("--"):
        name = word.partition("=")[0]
        return len(name) > 2 and option.startswith(name)
    return re.match(f"-[a-zA-Z0-9]*{option[1]}", word) is not None


def _words(pattern: str) -> list[str]:
    """Split a pattern as a shell does, or at its blanks."""
    try:
        return shlex.split(pattern) or [""]
    except ValueError:
        return pattern.split() or [""]
