"""Wildcards as in `.gitignore`, for ignore rules and the globs of `glob` and `grep`.

They become regular expressions of RE2, whose time is linear in the path, however hostile a pattern is.

Source: https://git-scm.com/docs/gitignore and the wildmatch that it refers to.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from acp_agent.errors import ToolError
from acp_agent.patterns import PatternError, compile_pattern
from acp_agent.tools.text import one_line

_MAX_GLOB = 1000
_MAX_ALTERNATIVES = 100
_CHOICE = re.compile(r"\{([^{}]*,[^{}]*)\}")
_CLASS = re.compile(r"\[:[^\]]+:\]")
_NEVER = r"[^\x00-\x{10FFFF}]"


def matcher(glob: str) -> Callable[[str], bool]:
    """Return a test for paths relative to the directory that is searched, with slashes.

    A glob means what a line of `.gitignore` means (`*.py` at any depth, `src/*.py` in src, `**/` for any directories),
    with `{a,b}` besides, and what lies below a directory that it names.

    :raises ToolError: it cannot be read.
    """
    if not glob.strip() or len(glob) > _MAX_GLOB or "\0" in glob or "\n" in glob:
        raise ToolError(f"{one_line(glob)!r} is no glob pattern. Give one such as `*.py` or `src/**/*.ts`.")
    found = [expression(f"{each}**" if each.endswith("/") else each) for each in expanded(glob.removeprefix("./"))]
    try:
        pattern = compile_pattern("|".join(rf"{each or '['}(?:/.*)?\z" for each in found), dot_all=True)
    except PatternError as error:
        raise ToolError(
            f"{one_line(glob)!r} is no glob pattern. Look at its brackets, or put \\ before them."
        ) from error
    return lambda path: pattern.search(encoded(path)) is not None


def encoded(path: str) -> bytes:
    """Return a path as RE2 reads it; other bytes than UTF-8 in it become `?`."""
    return path.encode("utf-8", "replace")


def expanded(glob: str) -> list[str]:
    """Expand `{a,b}`, nested too; braces without a choice in them stand for themselves.

    :raises ToolError: into too many.
    """
    done: list[str] = []
    todo = [glob]
    while todo:
        current = todo.pop()
        if choice := _CHOICE.search(current):
            before, after = current[: choice.start()], current[choice.end() :]
            todo += [f"{before}{option}{after}" for option in choice[1].split(",")]
        else:
            done.append(current)
        if len(done) + len(todo) > _MAX_ALTERNATIVES:
            raise ToolError(f"{one_line(glob)!r} stands for more than {_MAX_ALTERNATIVES} patterns. Use fewer braces.")
    return done


def expression(pattern: str) -> str | None:
    """Return the expression for the path from where the pattern counts; what may follow is for the caller to add.

    :param pattern: without what a line of `.gitignore` has around it: `!`, and `/` at the end.
    :returns: None where it ends within a bracket or behind a backslash.
    """
    parts = ["^" if "/" in pattern else "^(?:.*/)?"]
    pattern = pattern.removeprefix("/")
    at = 0
    while at < len(pattern):
        character = pattern[at]
        if character == "*":
            stars = len(pattern) - at - len(pattern[at:].lstrip("*"))
            following = pattern[at + stars : at + stars + 1]
            is_name = pattern[at - 1 : at] in ("", "/") and following in ("", "/")
            if is_name and stars > 1 and following:
                parts.append("(?:.*/)?")
                stars += 1
            else:
                parts.append("[^/]*" if not is_name else "[^/]+" if stars == 1 else ".+")
            at += stars
        elif character == "[":
            bracket = _bracket(pattern, at + 1)
            if bracket is None:
                return None
            parts.append(bracket[0])
            at = bracket[1]
        elif character == "\\" and at + 1 == len(pattern):
            return None
        else:
            at += character == "\\"
            parts.append("[^/]" if character == "?" else re.escape(pattern[at]))
            at += 1
    return "".join(parts)


def _bracket(pattern: str, at: int) -> tuple[str, int] | None:
    """Return a bracket expression for one character of a name, and the place behind it; None where it does not end.

    :param at: behind the opening bracket.
    """
    negated = pattern[at : at + 1] in ("!", "^")
    at += negated
    allowed = ""
    previous = ""  # what a range could begin with
    first = at
    while at == first or pattern[at : at + 1] != "]":
        character, following = pattern[at : at + 1], pattern[at + 1 : at + 2]
        if character == "-" and previous and following not in ("", "]"):
            at += 1 + (following == "\\")
            last = pattern[at : at + 1]
            if previous <= last:
                allowed += f"{re.escape(previous)}-{re.escape(last)}"
            previous = ""
        elif character == "[" and following == ":" and (name := _CLASS.match(pattern, at)):
            allowed += name[0]
            at, previous = name.end() - 1, ""
        else:
            at += character == "\\"
            previous = pattern[at : at + 1]
            allowed += re.escape(previous.replace("/", ""))
        at += 1
        if at >= len(pattern):
            return None
    if negated:
        return f"[^/{allowed}]", at + 1
    return f"[{allowed}]" if allowed else _NEVER, at + 1
