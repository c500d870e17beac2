"""Paths of a project that other programs run or obey automatically: `guarded.csv`, with
a source for each.

A path belongs in the table if a program reads it automatically, and if it can name a
program or influence an agent. Programs read such paths when a folder is opened, when a
shell changes into it, or when a version control system runs. Paths that are used only
to build and test a project do not belong in the table, since that runs the project's
own code anyway. The column `how` says how a path is handled:

- `covered`: commands may not write to it. If it is missing, an empty folder takes its
  place while commands run, since an editor obeys a new file within moments.
- `private`: like `covered`, but commands get a copy that they may write to (see
  `copies`), since build tools write to such a path in ordinary work.
- `closed`: commands may not write to it. If a command creates it, it is renamed (see
  `blocked`).
- `kept`: commands may not write to it if it exists. A new one is left alone, either
  because other programs may create it or because it has no effect on its own.
- `asked`: commands may write to it, either because ordinary work requires that or
  because it is read only on request.

The last part of a path may have wildcards. Such a pattern does not match a path that
has its own row, such as a file's template.

The user is asked before an edit of any of these paths, in any folder and regardless of
upper or lower case.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Literal, TypeAlias, cast

from acp_agent.frozen import frozen

How: TypeAlias = Literal["covered", "private", "closed", "kept", "asked"]


@frozen
class Guarded:
    """One row of the table.

    :ivar parts: the parts of the path, relative to a project. The last may have
        wildcards.
    :ivar run_by: the program that obeys the path, and what that program runs.
    :ivar source: where this is documented.
    """

    parts: tuple[str, ...]
    how: How
    run_by: str
    source: str


@cache
def guarded_paths(*how: How) -> tuple[Guarded, ...]:
    """Return the rows of the given kinds, or all rows if none is given."""
    return tuple(row for row in _table() if not how or row.how in how)


def is_guarded(path: Path) -> bool:
    """Return whether the user must be asked about an edit of a path: it is a guarded
    path or lies in one.
    """
    parts = _lower(path.parts)
    names, longer, patterns = _by_form()
    if not names.isdisjoint(parts):
        return True
    for at, part in enumerate(parts):
        for row in longer:
            if row[0] == part and parts[at : at + len(row)] == row:
                return True
        for row in patterns:
            if _matches(parts[at : at + len(row)], row):
                return True
    return False


@cache
def pattern_paths(*how: How) -> tuple[tuple[str, ...], ...]:
    """Return the parts of each row of the given kinds that is a pattern."""
    return tuple(row.parts for row in guarded_paths(*how) if is_pattern(row.parts))


def is_pattern(path: tuple[str, ...]) -> bool:
    """Return whether the path of a row is a pattern for several paths."""
    return "*" in path[-1]


def matches_pattern(path: tuple[str, ...], pattern: tuple[str, ...]) -> bool:
    """Return whether a path matches a pattern of the table, in upper or lower case.

    :param path: relative to a project. A path with its own row does not match.
    """
    return _matches(_lower(path), _lower(pattern)) and not has_own_row(path)


def has_own_row(path: tuple[str, ...]) -> bool:
    """Return whether the table has a row for exactly this path, in upper or lower case.

    :param path: relative to a project.
    """
    return _lower(path) in _exact()


def _matches(parts: tuple[str, ...], pattern: tuple[str, ...]) -> bool:
    return parts[:-1] == pattern[:-1] and fnmatchcase("".join(parts[-1:]), pattern[-1])


def _lower(path: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(part.lower() for part in path)


@cache
def _exact() -> frozenset[tuple[str, ...]]:
    return frozenset(_lower(row.parts) for row in _table() if not is_pattern(row.parts))


@cache
def _table() -> tuple[Guarded, ...]:
    import csv

    rows: list[Guarded] = []
    with (
        Path(__file__)
        .with_name("guarded.csv")
        .open(encoding="utf-8", newline="") as file
    ):
        for row in csv.DictReader(file):
            parts = PurePosixPath(row["path"]).parts
            rows.append(
                Guarded(parts, cast("How", row["how"]), row["run_by"], row["source"])
            )
    return tuple(rows)


@cache
def _by_form() -> tuple[
    frozenset[str], tuple[tuple[str, ...], ...], tuple[tuple[str, ...], ...]
]:
    """Return the names, the longer paths and the patterns, in lower case."""
    patterns = tuple(_lower(row.parts) for row in _table() if is_pattern(row.parts))
    names = frozenset(path[0] for path in _exact() if len(path) == 1)
    return names, tuple(path for path in _exact() if len(path) > 1), patterns
