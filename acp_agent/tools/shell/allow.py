"""Checks command lines against a recipe's `allowed_commands`: globs over the words of
each simple command.

A line that `syntax` does not understand (redirections, substitutions, variables,
wrappers such as `sudo`) is allowed only by `*` or by a pattern that equals the line.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

from acp_agent.tools.shell.syntax import Words, parse

_OPTION = re.compile("-[a-zA-Z0-9]|--[a-z][a-z0-9-]*")


def refusal(line: str, patterns: Sequence[str]) -> str:
    """Return why these patterns do not allow a shell command line, or an empty string
    if they do.

    Every simple command of the line must match a pattern.
    """
    parsed = parse(line)
    return _refusal(line.strip(), parsed.commands, patterns, parsed.has_wildcard)


def refusal_of_words(words: Sequence[str], patterns: Sequence[str]) -> str:
    """Like `refusal`, for a program and its arguments that run without a shell."""
    return _refusal(shlex.join(words), [tuple(words)], patterns, False)


def _refusal(
    line: str, commands: Sequence[Words], patterns: Iterable[str], has_wildcard: bool
) -> str:
    """Return why the patterns do not allow these commands, or an empty string if they
    do.

    :param commands: empty if the line is not understood.
    :param has_wildcard: whether the shell may insert file names into the line; such a
        name could be an option.
    """
    patterns = [pattern.strip() for pattern in patterns]
    # A glob matches a command word by word. Only `*` can also match several words.
    globs = [pattern for pattern in patterns if not pattern.startswith("!")]
    understood = bool(commands) and all(
        any(fnmatchcase("\0".join(each), "\0".join(_words(glob))) for glob in globs)
        for each in commands
    )
    if not (understood or line in globs or "*" in globs):
        return f"it is not among the recipe's `allowed_commands`, which are: {', '.join(patterns) or 'none'}"
    for pattern in (pattern for pattern in patterns if pattern.startswith("!")):
        if not commands:
            return f"it is not a plain command, so `{pattern}` might forbid it"
        program, *rest = _words(pattern[1:])
        for command in (
            each
            for each in commands
            if fnmatchcase(each[0].rpartition("/")[2], program)
        ):
            if has_wildcard:
                return f"a wildcard in it could expand to a file name that `{pattern}` forbids; quote the wildcard"
            if _matches_in_order(rest, command[1:]):
                return f"`{pattern}` in the recipe's `allowed_commands` forbids it"
    return ""


def _matches_in_order(globs: Sequence[str], words: Sequence[str]) -> bool:
    """Return whether the words contain matches for all globs in this order, with any
    words in between.
    """
    rest = iter(words)
    return all(
        any(fnmatchcase(word, glob) or _is_option(glob, word) for word in rest)
        for glob in globs
    )


def _is_option(option: str, word: str) -> bool:
    """Return whether a word is another spelling of an option: abbreviated, with a
    value, or combined with others.
    """
    if not _OPTION.fullmatch(option):
        return False
    if option.startswith("--"):
        name = word.partition("=")[0]
        return len(name) > 2 and option.startswith(name)
    return re.match(f"-[a-zA-Z0-9]*{option[1]}", word) is not None


def _words(pattern: str) -> list[str]:
    """Split a pattern into words as a shell does, or at white space if its quotes are
    unbalanced.
    """
    try:
        return shlex.split(pattern) or [""]
    except ValueError:
        return pattern.split() or [""]
