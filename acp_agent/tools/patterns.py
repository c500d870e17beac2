"""Glob patterns for file names, as `glob` and `grep` take them.

They mean what a line of `.gitignore` means (`*.py` at any depth, `src/*.py` in src, `**/` for any directories), with
`{a,b}` besides. Pure.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

from acp_agent.errors import ToolError
from acp_agent.tools.text import one_line
from acp_agent.tools.wildcards import Rule, rule_of

_LONGEST = 1000
_MOST_ALTERNATIVES = 100


def matcher(pattern: str) -> Callable[[str], bool]:
    """A test for paths relative to the directory that is searched, with slashes.

    :raises ToolError: the pattern cannot be read.
    """
    if not pattern.strip() or len(pattern) > _LONGEST or "\0" in pattern or "\n" in pattern:
        raise ToolError(f"{one_line(pattern)!r} is no glob pattern. Give one such as `*.py` or `src/**/*.ts`.")
    rules: list[Rule] = []
    for alternative in expanded(pattern.removeprefix("./")):
        # A leading ! or # means something in .gitignore, and a slash at the end would ask for a directory.
        text = f"\\{alternative}" if alternative[:1] in ("!", "#") else alternative
        rule = rule_of(f"{text}**" if text.endswith("/") else text)
        if rule is None:
            raise ToolError(f"{one_line(pattern)!r} is no glob pattern. Look at its brackets, or put \\ before them.")
        rules.append(rule)

    def matches(path: str) -> bool:
        names = path.split("/")
        # What lies below a directory that the pattern names is meant as well.
        entries = [(names[:end], end < len(names)) for end in range(len(names), 0, -1)]
        return any(rule.matches(entry, is_directory) for rule in rules for entry, is_directory in entries)

    return matches


def expanded(pattern: str) -> list[str]:
    """Expand `{a,b}`, nested too; braces without a partner stand for themselves.

    :raises ToolError: into too many.
    """
    done: list[str] = []
    todo = [pattern]
    while todo:
        current = todo.pop()
        choice = _first_choice(current)
        if choice is None:
            done.append(current)
        else:
            start, end, options = choice
            todo.extend(current[:start] + option + current[end:] for option in reversed(options))
        if len(done) + len(todo) > _MOST_ALTERNATIVES:
            raise ToolError(
                f"{one_line(pattern)!r} stands for more than {_MOST_ALTERNATIVES} patterns. Use fewer braces."
            )
    return done


def _first_choice(pattern: str) -> tuple[int, int, list[str]] | None:
    """The first complete pair of braces with a comma in it: where it starts and ends, and its options."""
    for start, character in enumerate(pattern):
        if character != "{":
            continue
        depth = 0
        commas = [start]
        for place in range(start, len(pattern)):
            match pattern[place]:
                case "{":
                    depth += 1
                case "," if depth == 1:
                    commas.append(place)
                case "}":
                    depth -= 1
                case _:
                    pass
            if depth == 0:
                if len(commas) > 1:
                    cuts = [*commas, place]
                    return start, place + 1, [pattern[a + 1 : b] for a, b in pairwise(cuts)]
                break
    return None
