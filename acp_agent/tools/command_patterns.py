"""What a recipe's `allowed_commands` allow: globs for whole command lines, and behind `!` what they allow no more.

Pure; knows neither recipes nor who asks.
"""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Sequence
from fnmatch import fnmatchcase

from acp_agent.tools.command_lines import may_grow_options, words_of
from acp_agent.tools.handed_on import could_hand_on, ends_options, handed_on, means
from acp_agent.tools.text import one_line

_OPTION = re.compile("-[a-zA-Z0-9]|--[a-z][a-z0-9-]*")
_GROWS = "a `*` in it could become an option where a file is called so; quote it, or put it behind `--`"


def refusal(command: str, patterns: Sequence[str]) -> str:
    """Why these patterns do not allow a command line for a shell; empty where they do.

    A pattern with wildcards allows no compound command, however it begins, unless it is `*`. Its wildcards stand for no
    option by which a command that looks would write or run something.
    """
    words = words_of(command, literal=True)
    grows = may_grow_options(command, anywhere=words is not None and not ends_options(words))
    return _refusal(command.strip(), words, patterns, grows=grows)


def refusal_of_words(words: Sequence[str], patterns: Sequence[str]) -> str:
    """The same of a command that no shell reads.

    :param words: the program and its arguments, at least one.
    """
    return _refusal(shlex.join(words), words, patterns, grows=False)


def _refusal(line: str, words: Sequence[str] | None, patterns: Sequence[str], *, grows: bool) -> str:
    """
    :param words: what the program gets; None where nobody knows.
    :param grows: whether the shell may add options to them.
    """
    stripped = [pattern.strip() for pattern in patterns]
    allowing = [pattern for pattern in stripped if not pattern.startswith("!")]
    reasons: list[str] = []
    if not any(_allows(pattern, line, words, grows, reasons) for pattern in allowing):
        listed = ", ".join(stripped) or "none"
        return (reasons or [f"it is none of the recipe's `allowed_commands`, which are: {listed}"])[0]
    for pattern in (pattern for pattern in stripped if pattern.startswith("!")):
        if words is None:
            return f"it is more than one plain command, of which nobody can tell whether `{pattern}` forbids it"
        forbidden = pattern[1:].split()
        if _holds(forbidden, words):
            return f"`{pattern}` among the recipe's `allowed_commands` forbids it"
        if grows and _is_of(forbidden, words):
            return _GROWS
    return ""


def _allows(pattern: str, line: str, words: Sequence[str] | None, grows: bool, reasons: list[str]) -> bool:
    if pattern in ("*", line):
        return True
    if words is None or not fnmatchcase(line, pattern):
        return False
    named = _words(pattern)
    thought_of = Counter(one.option for one in handed_on(named))
    for one in handed_on(words):
        thought_of[one.option] -= 1
        if thought_of[one.option] < 0:
            reasons.append(f"no wildcard in the recipe's `allowed_commands` stands for `{one_line(one.word)}`")
            return False
    if thought_of and not fnmatchcase("\0".join(words), "\0".join(named)):
        return False  # what the pattern names stands in the line, but within another word
    if grows and could_hand_on(words):
        reasons.append(_GROWS)
        return False
    return True


def _words(pattern: str) -> list[str]:
    """A pattern's words, quoted as in a shell where they are."""
    try:
        return shlex.split(pattern)
    except ValueError:
        return pattern.split()


def _holds(globs: Sequence[str], words: Sequence[str]) -> bool:
    """Whether globs match words in their order, whatever is between; the first has to match the program."""
    rest = iter(words[1:])
    return _is_of(globs, words) and all(any(_matches(glob, word, words) for word in rest) for glob in globs[1:])


def _matches(glob: str, word: str, words: Sequence[str]) -> bool:
    """Whether a word is what is forbidden; an option that is written out is forbidden in each of its spellings."""
    return fnmatchcase(word, glob) or (_OPTION.fullmatch(glob) is not None and means(glob, word, words))


def _is_of(globs: Sequence[str], words: Sequence[str]) -> bool:
    """Whether the first of some globs matches the program of a command."""
    return bool(globs and words) and fnmatchcase(words[0].rpartition("/")[2], globs[0])
