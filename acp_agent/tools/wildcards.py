r"""One line of `.gitignore` as a rule for paths, matched in a time that no pattern can blow up.

Repositories and models write these patterns. Translated as a whole into a regular expression, `*a*a*a*b` backtracks for
ever, and Python's `re` holds the interpreter's lock meanwhile. Hence a path is matched name by name, and within a name
each piece between two `*` is looked for once, from the left: an earlier place leaves more room for the rest, so that no
other has to be tried. Pure.

Source: https://git-scm.com/docs/gitignore and the wildmatch that it refers to.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TypeAlias

from acp_agent.frozen import frozen

_Name: TypeAlias = re.Pattern[str]
_LONGEST = 4096
"""Characters of a line; a longer one could only match a path that cannot exist."""
_ANY_NAMES = None
"""In the place of a name: `**`, any number of names."""
_POSIX_CLASSES = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "blank": r" \t",
    "cntrl": r"\x00-\x1f\x7f",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": r"!-/:-@\[-`{-~",
    "space": r" \t-\r",
    "upper": "A-Z",
    "xdigit": "0-9A-Fa-f",
}


@frozen
class Rule:
    """A line that says something.

    :ivar leaves_out: False where it begins with `!` and takes back in.
    :ivar names: one pattern for each name of a path, from the rule's directory on, or None for `**`.
    """

    leaves_out: bool
    directories_only: bool
    names: tuple[_Name | None, ...]

    def matches(self, path: Sequence[str], is_directory: bool) -> bool:
        """Whether it names this entry itself; what lies below an entry that it names is no match.

        :param path: the names of a path relative to the rule's directory, one at least.
        """
        if self.directories_only and not is_directory:
            return False
        if len(self.names) == 2 and self.names[0] is _ANY_NAMES and (last := self.names[1]):
            return last.fullmatch(path[-1]) is not None
        return _fits(self.names, path)


def rule_of(line: str) -> Rule | None:
    """Read a line, without its line end.

    :returns: None for a blank line, a comment, and what git, too, passes over: a `[` or a `\\` without its other half.
    """
    pattern = _without_trailing_spaces(line)
    if not pattern or pattern.startswith("#") or len(pattern) > _LONGEST:
        return None
    leaves_out = not pattern.startswith("!")
    pattern = pattern if leaves_out else pattern[1:]
    directories_only = pattern.endswith("/")
    pattern = pattern.removesuffix("/")
    anchored = "/" in pattern
    names = _names(pattern.removeprefix("/"))
    if not pattern or names is None:
        return None
    if not anchored:
        names = [_ANY_NAMES, names[0] or _ANY_NAME]
    elif names[-1] is _ANY_NAMES:
        names.append(_ANY_NAME)  # at the end it stands for everything below, one name at least
    return Rule(leaves_out, directories_only, tuple(names))


def _fits(pattern: Sequence[_Name | None], path: Sequence[str]) -> bool:
    """Greedy, with one place to come back to: the last `**`, which takes one more name each time."""
    at = place = 0
    after_any: int | None = None
    taken = 0
    while place < len(path):
        name = pattern[at] if at < len(pattern) else None
        if at < len(pattern) and name is _ANY_NAMES:
            at += 1
            after_any, taken = at, place
        elif name is not None and name.fullmatch(path[place]):
            at, place = at + 1, place + 1
        elif after_any is not None:
            taken += 1
            at, place = after_any, taken
        else:
            return False
    return all(name is _ANY_NAMES for name in pattern[at:])


def _without_trailing_spaces(line: str) -> str:
    bare = line.rstrip(" ")
    backslashes = len(bare) - len(bare.rstrip("\\"))
    return line[: len(bare) + backslashes % 2]


def _names(pattern: str) -> list[_Name | None] | None:
    """The pattern name by name; None where it cannot be read."""
    names: list[_Name | None] = []
    pieces = [""]  # of the current name, as regular expressions: what stands before, between and after its `*`
    place = start = 0
    while place < len(pattern):
        character = pattern[place]
        place += 1
        if character == "/":
            names.append(_name(pieces, pattern[start : place - 1]))
            pieces, start = [""], place
        elif character == "*":
            if pieces[-1] or len(pieces) == 1:
                pieces.append("")
        elif character == "?":
            pieces[-1] += "."
        elif character == "[":
            found = _bracket(pattern, place)
            if found is None:
                return None
            expression, place = found
            pieces[-1] += expression
        elif character == "\\":
            if place == len(pattern):
                return None
            if pattern[place] != "/":
                pieces[-1] += re.escape(pattern[place])
                place += 1
        else:
            pieces[-1] += re.escape(character)
    return [*names, _name(pieces, pattern[start:])]


def _name(pieces: list[str], text: str) -> _Name | None:
    if len(text) > 1 and not text.strip("*"):
        return _ANY_NAMES
    first, *rest = pieces
    if not rest:
        return re.compile(first, re.DOTALL)
    middle = "".join(f"(?>.*?{piece})" for piece in rest[:-1])
    return re.compile(f"{first}{middle}.*{rest[-1]}", re.DOTALL)


def _bracket(pattern: str, place: int) -> tuple[str, int] | None:
    """A bracket expression as a regular expression for one character, and the place behind it.

    :param place: behind the opening bracket.
    :returns: None where it does not end, or names a class that does not exist.
    """
    negated = pattern[place : place + 1] in ("!", "^")
    place += negated
    allowed = ""
    previous = ""  # what a range could begin with
    first = True
    while first or pattern[place : place + 1] != "]":
        character = pattern[place : place + 1]
        following = pattern[place + 1 : place + 2]
        if character == "-" and previous and following not in ("", "]"):
            place += 1 + (following == "\\")
            last = pattern[place : place + 1]
            if last and previous <= last:
                allowed += f"{re.escape(previous)}-{re.escape(last)}"
            previous = ""
        elif character == "[" and following == ":":
            end = pattern.find("]", place + 2)
            if pattern[end - 1 : end] == ":" and end > place + 2:
                posix = _POSIX_CLASSES.get(pattern[place + 2 : end - 1])
                if posix is None:
                    return None
                allowed += posix
                place, previous = end, ""
            else:
                allowed += re.escape("[")
                previous = "["
        else:
            if character == "\\":
                place += 1
            previous = pattern[place : place + 1]
            allowed += re.escape(previous)
        place += 1
        first = False
        if place >= len(pattern):
            return None
    if not allowed:
        return "." if negated else "(?!)", place + 1
    return f"[{'^' if negated else ''}{allowed}]", place + 1


_ANY_NAME = re.compile(".+", re.DOTALL)
