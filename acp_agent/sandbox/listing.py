"""Lists folders that commands may write to, even if a command has removed their owner's
permissions.

Removed permissions do not stop the command itself: it can restore them later, and
programs can enter a folder that cannot be listed. To the agent, such a folder would
look empty. So the agent lets the owner list and enter the folder again. A read-only
folder stays read-only: the agent makes it writable only while it changes something
there.

A folder is opened from the writable folder above it, without following links, and
changed by descriptor. Folders elsewhere and other users' folders are not changed.

Source: open(2), `O_PATH`; path_resolution(7), "Permissions"; proc_pid_fd(5)
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Generator, Iterable
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path

_tops: ContextVar[tuple[str, ...]] = ContextVar("_tops", default=())
"""The folders in and below which permissions are restored, absolute and resolved."""
_NEEDED = stat.S_IRUSR | stat.S_IXUSR
_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@contextmanager
def restoring(tops: Iterable[Path]) -> Generator[None]:
    """Let the functions of this module restore permissions in this thread, while the
    `with` block runs.

    :param tops: the folders that commands may write to, absolute and resolved.
    """
    token = _tops.set(tuple(map(str, tops)))
    try:
        yield
    finally:
        _tops.reset(token)


def is_open(status: os.stat_result) -> bool:
    """Return whether the owner of a folder may list and enter it. True for anything
    except a folder.
    """
    return not stat.S_ISDIR(status.st_mode) or status.st_mode & _NEEDED == _NEEDED


def open_up(folder: Path | str) -> None:
    """Let the owner list and enter a folder again, and also the folders that lead to
    it.

    Does nothing outside the folders given to `restoring`, or if the folder does not
    exist or belongs to another user.
    """
    if not _tops.get():
        return
    try:
        if is_open(os.stat(folder)):  # noqa: PTH116 - runs for each folder
            return
    except PermissionError:  # caused by a parent folder
        pass
    except (OSError, ValueError):
        return
    place = os.path.realpath(folder)
    above = [top for top in _tops.get() if Path(place).is_relative_to(top)]
    if above:
        with suppress(OSError):
            _open_up_below(min(above, key=len), place)


@contextmanager
def changing(folder: int) -> Generator[None]:
    """Let the owner change a folder inside the `with` block. Afterwards, a read-only
    folder is read-only again.

    :param folder: the descriptor of a folder. Does nothing if the folder belongs to
        another user.
    """
    mode = stat.S_IMODE(os.fstat(folder).st_mode)
    is_changed = not mode & stat.S_IWUSR and os.fstat(folder).st_uid == os.geteuid()
    if is_changed:
        os.fchmod(folder, mode | stat.S_IWUSR)
    try:
        yield
    finally:
        if is_changed:
            os.fchmod(folder, mode)


def parents_of(folder: Path, paths: Iterable[Path | str]) -> tuple[Path, ...]:
    """Return a folder, and each folder between it and the given paths below it, from
    top to bottom.

    :param paths: absolute. Paths outside the folder are ignored.
    """
    top = str(folder)
    inside = f"{top.rstrip('/')}/"
    parents = {top}
    for path in paths:
        parent = os.path.dirname(path)  # noqa: PTH120 - there are hundreds for each command
        while parent not in parents and parent.startswith(inside):
            parents.add(parent)
            parent = os.path.dirname(parent)  # noqa: PTH120 - likewise
    return tuple(map(Path, sorted(parents)))


def entries(folder: Path | str) -> list[os.DirEntry[str]]:
    """Return the entries of a folder, sorted by name; empty if the folder does not
    exist or cannot be read.
    """
    open_up(folder)
    try:
        with os.scandir(folder) as found:
            return sorted(found, key=lambda entry: entry.name)
    except OSError:
        return []


def is_empty(folder: Path) -> bool:
    """Return whether a folder is empty or does not exist. A folder that cannot be read
    counts as not empty.
    """
    open_up(folder)
    try:
        with os.scandir(folder) as found:
            return next(found, None) is None
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False


def _open_up_below(top: str, place: str) -> None:
    """Restore the permissions of each folder from `top` to `place`.

    :raises OSError: if one of them is a link, is not a folder, or cannot be entered.
    """
    opened = _enter(top, None)
    try:
        for part in Path(place).relative_to(top).parts:
            inner = _enter(part, opened)
            os.close(opened)
            opened = inner
    finally:
        os.close(opened)


def _enter(name: str, parent: int | None) -> int:
    """Open a folder, and restore its permissions if it belongs to the user.

    :param parent: the open folder that the name is relative to; None if the name is an
        absolute path.
    """
    # macOS has no `O_PATH`, but can change a link itself instead of its target.
    if sys.platform == "darwin":
        status = os.lstat(name, dir_fd=parent)
        if _is_closed_to_its_owner(status):
            os.chmod(
                name, _with_permissions(status), dir_fd=parent, follow_symlinks=False
            )
        return os.open(name, _FLAGS, dir_fd=parent)
    opened = os.open(name, _FLAGS | os.O_PATH, dir_fd=parent)
    try:
        status = os.fstat(opened)
        if _is_closed_to_its_owner(status):  # `fchmod` refuses a descriptor of `O_PATH`
            os.chmod(f"/proc/self/fd/{opened}", _with_permissions(status))  # noqa: PTH101 - a descriptor
    except OSError:
        os.close(opened)
        raise
    return opened


def _is_closed_to_its_owner(status: os.stat_result) -> bool:
    return status.st_uid == os.geteuid() and not is_open(status)


def _with_permissions(status: os.stat_result) -> int:
    return stat.S_IMODE(status.st_mode) | stat.S_IRWXU
