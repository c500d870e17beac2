"""Wildcards as in `.gitignore`, for ignore rules and the globs of `glob` and `grep`.

They become regular expressions of RE2, whose time is linear in the path, however hostile a pattern is.

Source: https://git-scm.com/docs/gitignore and the wildmatch that it refers to.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from acp_agent.errors import ToolError
from acp_agent.patterns import PatternError, compile_wildcards
from acp_agent.tools.text import one_line

_MAX_GLOB = 1000
_MAX_ALTERNATIVES = 100
_CHOICE = re.compile(r"\{([^{}]*,[^{}]*)\}")


def matcher(glob: str, base: Path) -> Callable[[Path], bool]:
    """Return a test for paths below a directory.

    A glob means what a line of `.gitignore` means (`*.py` at any depth, `src/*.py` in src, `**/` for any directories),
    with `{a,b}` besides, and what lies below a directory that it names. The directory itself may stand in front of it.

    :raises ToolError: it cannot be read, or begins with some other directory.
    """
    pattern = glob.removeprefix(f"{str(base).rstrip('/')}/")
    if pattern.startswith(("/", "~/", "../")):
        raise ToolError(
            f"The pattern {one_line(glob)!r} is not relative to the directory that is searched. Put the directory "
            "into `path` and the rest into `pattern`."
        )
    if not pattern.strip() or len(pattern) > _MAX_GLOB or "\0" in pattern or "\n" in pattern:
        raise ToolError(f"{one_line(glob)!r} is no glob pattern. Give one such as `*.py` or `src/**/*.ts`.")
    try:
        compiled = compile_wildcards(_expanded(pattern.removeprefix("./")))
    except PatternError as error:
        raise ToolError(
            f"{one_line(glob)!r} is no glob pattern. Look at its brackets, or put \\ before them."
        ) from error
    return lambda path: compiled.search(encoded(path.relative_to(base).as_posix())) is not None


def encoded(path: str) -> bytes:
    """Return a path as RE2 reads it; other bytes than UTF-8 in it become `?`."""
    return path.encode("utf-8", "replace")


def _expanded(glob: str) -> list[str]:
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
