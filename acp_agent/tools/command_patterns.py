"""What a recipe's `allowed_commands` allow: globs over the words of each simple command, and behind `!` what is not."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from fnmatch import fnmatchcase

from acp_agent.tools.command_lines import may_grow_options, words_of

_OPTION = re.compile("-[a-zA-Z0-9]|--[a-z][a-z0-9-]*")
_PART = re.compile(r"(&&|\|\||[;|])|'[^']*'|\"[^\"]*\"|[^'\"&|;]+|.", re.DOTALL)
_KEYWORDS = frozenset(
    ["case", "do", "done", "elif", "else", "esac", "fi", "for", "function", "if", "select", "then", "until", "while"]
)


def refusal(line: str, patterns: Sequence[str]) -> str:
    """Return why these patterns do not allow a command line for a shell; empty where they do.

    Each simple command of the line has to match a pattern. A line that is not understood (a redirection, a
    substitution, a program such as `sudo` that runs another) is allowed by `*` and by itself alone.
    """
    return _refusal(line.strip(), _simple_commands(line), patterns, grows=may_grow_options(line))


def refusal_of_words(words: Sequence[str], patterns: Sequence[str]) -> str:
    """Return the same of a program and its arguments, which no shell reads."""
    return _refusal(shlex.join(words), [words], patterns, grows=False)


def _refusal(line: str, commands: Sequence[Sequence[str]], patterns: Sequence[str], *, grows: bool) -> str:
    """
    :param commands: the words of each simple command; empty where the line is not understood.
    :param grows: whether the shell may make an option of an unquoted `*`, where a file is called so.
    """
    stripped = [pattern.strip() for pattern in patterns]
    globs = [pattern for pattern in stripped if not pattern.startswith("!")]
    understood = bool(commands) and all(any(_matches(glob, words) for glob in globs) for words in commands)
    if not (understood or line in globs or "*" in globs):
        return f"it is none of the recipe's `allowed_commands`, which are: {', '.join(stripped) or 'none'}"
    for pattern in (pattern for pattern in stripped if pattern.startswith("!")):
        if not commands:
            return f"it is no plain command, so that nobody can tell whether `{pattern}` forbids it"
        forbidden = _words(pattern[1:])
        for words in (words for words in commands if fnmatchcase(words[0].rpartition("/")[2], forbidden[0])):
            if grows:
                return "a `*` in it could become an option where a file is called so; quote it, or put it behind `--`"
            if _holds(forbidden[1:], words[1:]):
                return f"`{pattern}` among the recipe's `allowed_commands` forbids it"
    return ""


def _simple_commands(line: str) -> list[list[str]]:
    """Return the words of each simple command of a line; nothing where one is not understood."""
    parts = [""]
    for found in _PART.finditer(line):
        if found[1] and "\\" not in line:  # which may escape a quote or an operator
            parts.append("")
        else:
            parts[-1] += found[0]
    commands = [words_of(part, literal=True) for part in parts]
    understood = [words for words in commands if words and words[0] not in _KEYWORDS]
    return understood if len(understood) == len(commands) else []


def _matches(glob: str, words: Sequence[str]) -> bool:
    """Return whether a glob matches a command, word by word; `*` also stands for several words."""
    return fnmatchcase("\0".join(words), "\0".join(_words(glob)))


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
