"""Paths of a project that other programs run or obey automatically: `guarded.csv`, with
a source for each.

A path belongs in the table if a program reads it without being told to, and if it can
name a program or steer an agent. Programs read such paths when a folder is opened, when
a shell changes into it, or when a version control system runs. Paths that are used only
to build and test a project do not belong there, since the project's own code runs then
anyway. The column `how` says how a path is handled:

- `covered`: commands may not write it. If it is missing, an empty folder takes its
  place while they run, since an editor obeys a new one within moments.
- `closed`: commands may not write it. If they create it, it is renamed (see `planted`).
- `kept`: commands may not write it if it exists. A new one is left alone, since others
  may create it, or since it has no effect by itself.
- `asked`: commands may write it, since ordinary work does, or since it is read only on
  request.

The user is asked about an edit of any of these, in any folder and however its name is
written.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Literal, TypeAlias, cast

from acp_agent.frozen import frozen

How: TypeAlias = Literal["covered", "closed", "kept", "asked"]


@frozen
class Guarded:
    """One row of the table.

    :ivar parts: the parts of the path, relative to a project. A path of one part may
        have wildcards.
    :ivar run_by: the program that obeys the path, and what it runs.
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
    parts = tuple(part.lower() for part in path.parts)
    names, longer, wildcards = _by_form()
    if not names.isdisjoint(parts) or any(
        fnmatchcase(parts[-1], each) for each in wildcards if parts
    ):
        return True
    return any(
        parts[at : at + len(row)] == row
        for at, part in enumerate(parts)
        for row in longer
        if row[0] == part
    )


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
def _by_form() -> tuple[frozenset[str], tuple[tuple[str, ...], ...], tuple[str, ...]]:
    """Return the names, the longer paths and the names with wildcards, in lower case."""
    every = [tuple(part.lower() for part in row.parts) for row in _table()]
    wildcards = tuple(row[0] for row in every if "*" in row[0])
    names = frozenset(
        row[0] for row in every if len(row) == 1 and row[0] not in wildcards
    )
    return names, tuple(row for row in every if len(row) > 1), wildcards
