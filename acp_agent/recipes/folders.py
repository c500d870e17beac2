"""The folders that recipes come from: the Markdown files in them, and the sign by which a change is noticed.

Touches the disk, and may be asked often: it looks at names and times, and opens no file. Folders may be a stranger's,
so there are bounds for how deep and how many.
"""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Literal, TypeAlias

from acp_agent.frozen import frozen
from acp_agent.recipes.model import Origin

SUFFIX = ".md"
MAX_DEPTH = 4
"""Folders in folders."""
MAX_FILES = 500
"""In one folder with all that are in it."""
MAX_TOLD = 10
"""Files and folders of which it is said that they are left out; they may be a stranger's, and very many."""
TOO_DEEP = f"is more than {MAX_DEPTH} folders deep, where no recipe is looked for; move it up"

Form: TypeAlias = Literal["recipe", "claude"]


@frozen
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


@frozen
class Listing:
    """What a folder holds.

    :ivar files: paths by name: `github/pr` for `github/pr.md`; in alphabetical order.
    :ivar unread: files and folders that are left out, and what is wrong with them.
    """

    files: dict[str, Path]
    unread: tuple[tuple[Path, str], ...] = ()


def listing(folder: RecipeFolder, part: Path | None = None) -> Listing:
    """The Markdown files of a folder and of those in it, without hidden ones and READMEs. A folder that is reached a
    second time, over a link, is left out.

    :param part: a folder in it, of which alone the files are wanted.
    """
    unread, path = _Unread(folder), part or folder.path
    prefix = "".join(f"{name}/" for name in path.relative_to(folder.path).parts)
    found = list(islice(_walk(folder, path, prefix, set(), unread), MAX_FILES + 1))
    if len(found) > MAX_FILES:
        unread.cannot(path, f"it has more than {MAX_FILES} files, and the others are left out")
    return Listing(dict(sorted(found[:MAX_FILES])), tuple(unread.told))


def unlisted(folder: RecipeFolder, path: Path) -> str:
    """Why a file that is in a folder is none that `listing` gives, by its name alone; empty where it is."""
    if len(path.relative_to(folder.path).parts) > MAX_DEPTH + 1:
        return TOO_DEEP
    return "" if path.name.endswith(SUFFIX) else _suffix_wanted(path.name)


def _suffix_wanted(name: str) -> str:
    return f"is no recipe by its name, which has to end in {SUFFIX}; rename it to {Path(name).stem}{SUFFIX}"


class _Unread:
    """Gathers what is left out. Of commands of Claude Code, which may have other rules, only what cannot be read."""

    def __init__(self, folder: RecipeFolder) -> None:
        self._folder = folder
        self._left_out = 0
        self.told: list[tuple[Path, str]] = []

    def cannot(self, path: Path, why: str) -> None:
        """A folder cannot be read."""
        self.told.append((path, f"cannot read this folder ({why})"))

    def left_out(self, path: Path, why: str) -> None:
        """A file or a folder is not where or not as recipes are looked for."""
        self._left_out += self._folder.form == "recipe"
        if 0 < self._left_out <= MAX_TOLD:
            more = "" if self._left_out < MAX_TOLD else ". There may be more such files and folders"
            self.told.append((path, why + more))


def _walk(
    folder: RecipeFolder, path: Path, prefix: str, seen: set[tuple[int, int]], unread: _Unread
) -> Iterator[tuple[str, Path]]:
    try:
        status = path.stat()
        if (status.st_dev, status.st_ino) in seen:
            return
        seen.add((status.st_dev, status.st_ino))
        if folder.within is not None and not path.resolve().is_relative_to(folder.within.resolve()):
            unread.cannot(path, f"it is a link that leads out of {folder.within}")
            return
        if prefix.count("/") > MAX_DEPTH:
            unread.left_out(path, TOO_DEEP)
            return
        with os.scandir(path) as found:
            entries = sorted(found, key=lambda entry: entry.name)
    except FileNotFoundError:
        return
    except OSError as error:
        unread.cannot(path, error.strerror or str(error))
        return
    for entry in entries:
        if entry.name.startswith(".") or entry.name.lower() == "readme.md":
            continue
        if entry.name.endswith(SUFFIX):
            yield prefix + entry.name.removesuffix(SUFFIX), path / entry.name
        elif _is_dir(entry):
            yield from _walk(folder, path / entry.name, f"{prefix}{entry.name}/", seen, unread)
        elif entry.name.lower().endswith(SUFFIX):
            unread.left_out(path / entry.name, _suffix_wanted(entry.name))


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
            # The last tells of a change that put the time of the one before back.
            yield path, status.st_mtime_ns, status.st_size, status.st_ino, status.st_ctime_ns


def _is_dir(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False
