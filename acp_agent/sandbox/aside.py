"""Files of a folder that commands may write: read, compared and renamed by descriptor, so that no link leads elsewhere.

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

from acp_agent.sandbox.written import judging

SUFFIX = ".blocked"
MOST_BYTES = 4 * 1024 * 1024
"""Of a file that is read whole."""
MOST_ENTRIES = 2_000
"""Entries of a folder that are looked at."""

Part: TypeAlias = tuple[str, ...]


def rename(folder: Path, path: Part) -> Iterator[str]:
    """Give a path another name, which nothing obeys, and yield a line about it; nothing if it is not there.

    :param folder: absolute and resolved.
    :param path: by its parts; no link on the way is followed.
    """
    with suppress(OSError), judging, parent_of(folder, path) as (opened, name):
        yield line(path, (*path[:-1], set_aside(opened, name)))


@contextmanager
def parent_of(folder: Path | int | None, path: Part) -> Generator[tuple[int, str]]:
    """Open the folder that a path is in without following links, and yield it with the path's last name.

    :param folder: at which the path begins: absolute, a descriptor, or None for an absolute path.
    :raises OSError: it is not there, or `NotADirectoryError` for a link on the way.
    """
    if isinstance(folder, int):
        opened = os.dup(folder)
    else:
        opened = os.open(folder or "/", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in path[:-1]:
            inner = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=opened)
            os.close(opened)
            opened = inner
        yield opened, path[-1]
    finally:
        os.close(opened)


def files_in(folder: int, name: str) -> Iterator[Part]:
    """Yield the files and links in something, by their parts below it: none but an empty path if it is no folder."""
    waiting: list[Part] = [()]
    for _ in range(2 * MOST_ENTRIES):
        if not waiting:
            return
        below = waiting.pop()
        try:
            inner = _names_in(folder, (name, *below))
        except OSError:  # what cannot be read is compared with nothing
            inner = None
        if inner is None:
            yield below
        else:
            waiting.extend((*below, each) for each in inner)
    yield from waiting


def _names_in(folder: int, path: Part) -> list[str] | None:
    """Return the names in a folder; None for anything else.

    :param path: in the open folder.
    :raises OSError: it cannot be read.
    """
    with parent_of(folder, path) as (inside, last):
        if not stat.S_ISDIR(os.lstat(last, dir_fd=inside).st_mode):
            return None
        opened = os.open(last, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=inside)
    try:
        return os.listdir(opened)  # noqa: PTH208 - a descriptor
    finally:
        os.close(opened)


def times(folder: int, name: str, entries: Iterable[Part]) -> Iterator[int]:
    """Yield when each of some files below something in an open folder last changed, in nanoseconds since the epoch."""
    for each in entries:
        with suppress(OSError), parent_of(folder, (name, *each)) as (inside, last):
            yield os.lstat(last, dir_fd=inside).st_ctime_ns


def content_of(folder: int, name: str, found: os.stat_result) -> bytes | None:
    """Return what is in a file, or where a link leads; None if it is something else, or too large."""
    if stat.S_ISLNK(found.st_mode):
        return os.fsencode(os.readlink(name, dir_fd=folder))
    if not stat.S_ISREG(found.st_mode) or found.st_size > MOST_BYTES:
        return None
    file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    with os.fdopen(file, "rb") as opened:
        return opened.read(MOST_BYTES + 1)


def move_below(folder: int, name: str, new: str, below: Part) -> None:
    """Move something in a folder to the same place in one of another name."""
    target = os.dup(folder)
    try:
        for part in (new, *below[:-1]):
            with suppress(FileExistsError):
                os.mkdir(part, dir_fd=target)
            inner = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=target)
            os.close(target)
            target = inner
        with parent_of(folder, (name, *below)) as (inside, last):
            os.rename(last, below[-1], src_dir_fd=inside, dst_dir_fd=target)
    finally:
        os.close(target)


def set_aside(folder: int, name: str) -> str:
    """Give something in an open folder another name, and return that."""
    new = free_name(folder, name)
    try:
        os.rename(name, new, src_dir_fd=folder, dst_dir_fd=folder)
    except PermissionError:  # a command may have closed the folder, which is the user's
        os.fchmod(folder, stat.S_IMODE(os.fstat(folder).st_mode) | stat.S_IRWXU)
        os.rename(name, new, src_dir_fd=folder, dst_dir_fd=folder)
    return new


def line(path: Part, new: Part) -> str:
    """Return the text that names a path and its new place."""
    return f"{'/'.join(path)} → {'/'.join(new)}"


def free_name(folder: int, name: str) -> str:
    """Return the new name for something in an open folder, which is not taken."""
    new = f"{name}{SUFFIX}"
    for number in count(2):
        if not exists(folder, new):
            break
        new = f"{name}{SUFFIX}-{number}"
    return new


def exists(folder: int, name: str) -> bool:
    """Return whether something has this name in an open folder."""
    try:
        os.lstat(name, dir_fd=folder)
    except OSError:
        return False
    return True
