"""The folders that recipes come from: the Markdown files in them, and the sign by which a change is noticed.

Touches the disk, and may be asked often: it looks at names and times, and opens no file. Folders may be a stranger's,
so there are bounds for how deep and how many.
"""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Literal, TypeAlias

from acp_agent.recipes.model import Origin

SUFFIX = ".md"
MAX_DEPTH = 4
"""Folders in folders."""
MAX_FILES = 500
"""In one folder with all that are in it."""

Form: TypeAlias = Literal["recipe", "claude"]


@dataclass(frozen=True, slots=True)
class RecipeFolder:
    """A folder with recipes; need not exist.

    :ivar form: whether its files are recipes, or commands as Claude Code reads them.
    """

    origin: Origin
    path: Path
    form: Form = "recipe"

    @property
    def within(self) -> Path | None:
        """What its files may not lead out of: the project, for `<project>/.acp-agent/recipes`."""
        return self.path.parents[1] if self.origin == "project" else None


@dataclass(frozen=True, slots=True)
class Listing:
    """What a folder holds.

    :ivar files: paths by name: `github/pr` for `github/pr.md`; in alphabetical order.
    :ivar unread: folders that could not be read, and why.
    """

    files: dict[str, Path]
    unread: tuple[tuple[Path, str], ...] = ()


def listing(folder: RecipeFolder) -> Listing:
    """The Markdown files of a folder and of those in it, without hidden ones and READMEs. A folder that is reached a
    second time, over a link, is left out."""
    unread: list[tuple[Path, str]] = []
    found = list(islice(_walk(folder, folder.path, "", set(), unread), MAX_FILES + 1))
    if len(found) > MAX_FILES:
        unread.append((folder.path, f"it has more than {MAX_FILES} files, and the others are left out"))
    return Listing(dict(sorted(found[:MAX_FILES])), tuple(unread))


def _walk(
    folder: RecipeFolder, path: Path, prefix: str, seen: set[tuple[int, int]], unread: list[tuple[Path, str]]
) -> Iterator[tuple[str, Path]]:
    try:
        status = path.stat()
        if (status.st_dev, status.st_ino) in seen:
            return
        seen.add((status.st_dev, status.st_ino))
        if folder.within is not None and not path.resolve().is_relative_to(folder.within.resolve()):
            unread.append((path, f"it is a link that leads out of {folder.within}"))
            return
        with os.scandir(path) as found:
            entries = sorted(found, key=lambda entry: entry.name)
    except FileNotFoundError:
        return
    except OSError as error:
        unread.append((path, error.strerror or str(error)))
        return
    for entry in entries:
        if entry.name.startswith(".") or entry.name.lower() == "readme.md":
            continue
        if entry.name.endswith(SUFFIX):
            yield prefix + entry.name.removesuffix(SUFFIX), path / entry.name
        elif prefix.count("/") < MAX_DEPTH and _is_dir(entry):
            yield from _walk(folder, path / entry.name, f"{prefix}{entry.name}/", seen, unread)


def signature(folders: Iterable[RecipeFolder]) -> Hashable:
    """What is another one when a file was added, changed or removed."""
    return tuple((folder, tuple(_signs(folder))) for folder in folders)


def _signs(folder: RecipeFolder) -> Iterable[Hashable]:
    found = listing(folder)
    yield found.unread
    for path in found.files.values():
        try:
            status = path.stat()
        except OSError as error:
            yield path, error.errno
        else:
            yield path, status.st_mtime_ns, status.st_size, status.st_ino


def _is_dir(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False
