"""Reads, compares and renames files in folders that commands may write to.

It does all of this through descriptors, so that no link can redirect it.

Source: rename(2); open(2), `O_NOFOLLOW`
"""

from __future__ import annotations

import os
import stat
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import TypeAlias

from acp_agent.sandbox.guarded_paths import is_guarded
from acp_agent.sandbox.listing import changing
from acp_agent.sandbox.written import judging

SUFFIX = ".blocked"
PREFIX = "blocked"
"""Begins the new name if programs would also obey a name with the suffix."""
MOST_BYTES = 4 * 1024 * 1024
"""Maximum size in bytes of a file that is read in full."""
MOST_ENTRIES = 2_000
"""Maximum number of entries of a folder that are examined."""

Part: TypeAlias = tuple[str, ...]


def rename(folder: Path, path: Part) -> Iterator[str]:
    """Rename a path to a name that no program obeys, and yield a line that reports it.

    :param folder: absolute and resolved.
    :param path: the parts of the path. Links on the way are not followed.
    :raises OSError: if it cannot be renamed, or does not exist.
    """
    with judging, parent_of(folder, path) as (opened, name):
        yield line(path, (*path[:-1], set_aside(opened, name)))


@contextmanager
def parent_of(folder: Path | int | None, path: Part) -> Generator[tuple[int, str]]:
    """Open the folder that contains a path without following links, and yield it with
    the path's last part.

    :param folder: the folder that the path is relative to: an absolute path or a
        descriptor; None if the path is absolute.
    :raises OSError: if the folder does not exist; `NotADirectoryError` if a part of the
        path is a link.
    """
    if isinstance(folder, int):
        opened = os.dup(folder)
    else:
        opened = os.open(folder or "/", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in path[:-1]:
            inner = os.open(
                part,
                os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC,
                dir_fd=opened,
            )
            os.close(opened)
            opened = inner
        yield opened, path[-1]
    finally:
        os.close(opened)


def files_in(folder: int, name: str) -> Iterator[Part]:
    """Yield the files and links below a path, each as parts relative to that path.

    Yields only an empty path if the path is not a folder.
    """
    waiting: list[Part] = [()]
    for _ in range(2 * MOST_ENTRIES):
        if not waiting:
            return
        below = waiting.pop()
        try:
            inner = _names_in(folder, (name, *below))
        except OSError:  # an unreadable folder is treated like a file
            inner = None
        if inner is None:
            yield below
        else:
            waiting.extend((*below, each) for each in inner)
    yield from waiting


def _names_in(folder: int, path: Part) -> list[str] | None:
    """Return the names in a folder; None for anything else.

    :param path: relative to the open folder.
    :raises OSError: if the folder cannot be read.
    """
    with parent_of(folder, path) as (inside, last):
        if not stat.S_ISDIR(os.lstat(last, dir_fd=inside).st_mode):
            return None
        opened = os.open(
            last,
            os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC,
            dir_fd=inside,
        )
    try:
        return os.listdir(opened)  # noqa: PTH208 - a descriptor
    finally:
        os.close(opened)


def times(folder: int, name: str, entries: Iterable[Part]) -> Iterator[int]:
    """Yield the change time of each entry below a name in an open folder, in
    nanoseconds since the epoch.
    """
    for each in entries:
        with suppress(OSError), parent_of(folder, (name, *each)) as (inside, last):
            yield os.lstat(last, dir_fd=inside).st_ctime_ns


def content_of(folder: int, name: str, found: os.stat_result) -> bytes | None:
    """Return a file's content or a link's target; None for anything else, or if the
    file is too large.
    """
    if stat.S_ISLNK(found.st_mode):
        return os.fsencode(os.readlink(name, dir_fd=folder))
    if not stat.S_ISREG(found.st_mode) or found.st_size > MOST_BYTES:
        return None
    file = os.open(
        name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder
    )
    with os.fdopen(file, "rb") as opened:
        return opened.read(MOST_BYTES + 1)


def move_below(folder: int, name: str, new: str, below: Part) -> None:
    """Move an entry below the folder `name` to the same place below the folder `new`."""
    target = os.dup(folder)
    try:
        for part in (new, *below[:-1]):
            with suppress(FileExistsError):
                os.mkdir(part, dir_fd=target)
            inner = os.open(
                part,
                os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC,
                dir_fd=target,
            )
            os.close(target)
            target = inner
        with parent_of(folder, (name, *below)) as (inside, last):
            os.rename(last, below[-1], src_dir_fd=inside, dst_dir_fd=target)
    finally:
        os.close(target)


def set_aside(folder: int, name: str) -> str:
    """Rename an entry of an open folder, and return the new name."""
    new = free_name(folder, name)
    with changing(folder):
        os.rename(name, new, src_dir_fd=folder, dst_dir_fd=folder)
    return new


def line(path: Part, new: Part) -> str:
    """Return a line that names a path and its new path."""
    return f"{'/'.join(path)} → {'/'.join(new)}"


def free_name(folder: int, name: str) -> str:
    """Return an unused new name for an entry of an open folder.

    A name that would be too long for the file system loses characters of the old name.
    """
    new = _marked(name, folder, "")
    for number in count(2):
        if not exists(folder, new):
            break
        new = _marked(name, folder, f"-{number}")
    return new


def _marked(name: str, folder: int, end: str) -> str:
    """Return a name that no program obeys.

    :param end: keeps it apart from others.
    """
    longest = os.fpathconf(folder, "PC_NAME_MAX")
    kept = _shortened(name, longest - len(f"{SUFFIX}{end}"))
    new = f"{kept}{SUFFIX}{end}"
    if is_guarded(Path(f"{kept}{SUFFIX}")):  # a pattern such as `.envrc.*` matches it
        new = f"{_shortened(f'{PREFIX}{name}', longest - len(end))}{end}"
    return new


def _shortened(name: str, longest: int) -> str:
    """Return the beginning of a name that has at most this many bytes."""
    while len(os.fsencode(name)) > longest:
        name = name[:-1]
    return name


def exists(folder: int, name: str) -> bool:
    """Return whether an open folder has an entry of this name."""
    try:
        os.lstat(name, dir_fd=folder)
    except OSError:
        return False
    return True
