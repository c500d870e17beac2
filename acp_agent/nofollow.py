"""Files and folders opened at exactly one path, so that no symbolic link can lead elsewhere in the meantime.

A path is resolved, then checked, then opened. Anyone who can write to a folder of the path can put a link there in
between, for example by exchanging a folder and a link in a loop. So what was checked is the resolved path, and it is
opened here: if any part of it is a link by now, opening it fails with `ELOOP`. Everything else is done by descriptor.

Source: openat2(2), open(2), path_resolution(7)
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import TypeAlias

from acp_agent.frozen import frozen

_MOST_CHANGES = 100
"""How often a path may change while it is resolved."""
_Open: TypeAlias = Callable[[str, int, int], int]

_SYSCALL_OPENAT2 = 437
"""The number of openat2 on every architecture that Python runs on."""
_NO_LINKS = 0x04 | 0x02
"""`RESOLVE_NO_SYMLINKS` and `RESOLVE_NO_MAGICLINKS`, which is stricter than `RESOLVE_BENEATH`: no link is followed."""
_CURRENT = -100  # AT_FDCWD
_FOLDER = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_SEARCH = getattr(os, "O_PATH", os.O_RDONLY)
"""Opens a folder on the way, which need not be readable where the system has `O_PATH`."""


@frozen
class Entry:
    """One entry of a folder, as it is without following links."""

    name: str
    is_folder: bool
    is_link: bool


def resolved(path: Path) -> Path:
    """Return an absolute path with all links followed. What is missing, or leads in a circle, is kept as it is.

    :param path: absolute.
    """
    for _ in range(_MOST_CHANGES):
        # In Python before 3.12 a link that is replaced by a folder at this very moment is an error.
        with suppress(OSError):
            return Path(os.path.realpath(path))
    return Path(os.path.realpath(path))


def open_exactly(path: Path, flags: int = os.O_RDONLY, mode: int = 0o666) -> int:
    """Open a path of which no part is a symbolic link, without waiting for the other end of a pipe.

    :param path: absolute and resolved.
    :param flags: as for `os.open`.
    :param mode: of a file that is created, before the umask.
    :returns: a descriptor that child processes do not inherit.
    :raises OSError: it cannot be opened; with `errno.ELOOP` if a part of the path is a link.
    """
    more = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
    opened = _opener() if "ctypes" in sys.modules else open_stepwise
    return opened(str(path), flags | more, mode if flags & os.O_CREAT else 0)


def prepare() -> None:
    """Load what openat2 needs. Without it, files are opened stepwise, which takes two or three times as long."""
    _opener()


@contextmanager
def folder_at(path: Path, *, make: bool = False) -> Generator[int]:
    """Open a folder inside the `with` block, for functions that take a `dir_fd`.

    :param path: absolute and resolved.
    :param make: whether to create missing folders.
    :raises OSError: see `open_exactly`; or the path is not a folder.
    """
    descriptor = _made(path) if make else open_exactly(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def make_folder(path: Path) -> None:
    """Create a folder and the missing ones above it, unless it exists.

    :param path: absolute and resolved.
    :raises OSError: see `folder_at`.
    """
    with folder_at(path, make=True):
        pass


def status_of(path: Path) -> os.stat_result:
    """Return the status of what is at a path, which is a link's own if it is one.

    :param path: absolute and resolved.
    :raises OSError: see `open_exactly`.
    """
    with _parent_of(path) as folder:
        return os.stat(path.name or ".", dir_fd=folder, follow_symlinks=False)


def entries_of(path: Path) -> list[Entry]:
    """Return the entries of a folder, ordered by name.

    :param path: absolute and resolved.
    :raises OSError: see `folder_at`.
    """
    with folder_at(path) as folder:
        return entries_in(folder)


def entries_in(folder: int) -> list[Entry]:
    """Return the entries of an open folder, ordered by name.

    :raises OSError: it cannot be read.
    """
    with os.scandir(folder) as found:
        entries = [Entry(each.name, each.is_dir(follow_symlinks=False), each.is_symlink()) for each in found]
    return sorted(entries, key=lambda entry: entry.name)


def remove(path: Path) -> None:
    """Remove a file. A link is removed itself.

    :param path: absolute and resolved.
    :raises OSError: see `open_exactly`.
    """
    with _parent_of(path) as folder:
        os.unlink(path.name, dir_fd=folder)


def change_mode(name: str, change: Callable[[int], int], folder: int) -> None:
    """Change the permission bits of a file or folder. A link is left alone, and so is what it leads to.

    :param name: in the folder.
    :param change: returns the new bits for the old ones.
    :param folder: descriptor of the folder.
    :raises OSError: it cannot be changed; with `errno.ELOOP` if it is a link.
    """
    descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    try:
        os.fchmod(descriptor, change(stat.S_IMODE(os.fstat(descriptor).st_mode)))
    finally:
        os.close(descriptor)


@contextmanager
def temporary_folder() -> Generator[Path]:
    """Create a folder for the user alone, and remove it with its contents after the `with` block.

    `tempfile.TemporaryDirectory` also makes files and folders writable if they cannot be removed, and follows links
    when it does (CVE-2023-6597, mended in Python 3.11.8 and 3.12.1). Here, what cannot be removed stays.

    :returns: its resolved path.
    """
    import shutil
    import tempfile

    path = Path(tempfile.mkdtemp(prefix="acp-agent-")).resolve()
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)  # which follows no links


def _parent_of(path: Path) -> AbstractContextManager[int]:
    return folder_at(path.parent)


def _made(path: Path) -> int:
    """Open a folder, and create it and the folders above it if they are missing."""
    try:
        return open_exactly(path, os.O_RDONLY | os.O_DIRECTORY)
    except FileNotFoundError:
        above = _made(path.parent)
    try:
        with suppress(FileExistsError):
            os.mkdir(path.name, dir_fd=above)
        return os.open(path.name, os.O_RDONLY | _FOLDER, dir_fd=above)
    finally:
        os.close(above)


@cache
def _opener() -> _Open:
    """Return how this system opens a path without following links: by openat2 if there is one, otherwise stepwise."""
    by_kernel = _by_openat2() if sys.platform == "linux" else None
    if by_kernel is not None:
        with suppress(OSError):  # the kernel is older than 5.6, or a filter of system calls refuses it
            os.close(by_kernel("/", os.O_RDONLY | _FOLDER, 0))
            return by_kernel
    return open_stepwise


def _by_openat2() -> _Open | None:
    import ctypes  # takes 10 ms, which no start waits for

    class How(ctypes.Structure):
        _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))

    syscall = ctypes.CDLL(None, use_errno=True).syscall
    syscall.restype = ctypes.c_long
    syscall.argtypes = (ctypes.c_long, ctypes.c_int, ctypes.c_char_p, ctypes.POINTER(How), ctypes.c_size_t)

    def opened(path: str, flags: int, mode: int) -> int:
        name, how = os.fsencode(path), How(flags, mode, _NO_LINKS)
        while True:
            descriptor = syscall(_SYSCALL_OPENAT2, _CURRENT, name, ctypes.byref(how), ctypes.sizeof(how))
            if descriptor >= 0:
                return descriptor
            number = ctypes.get_errno()
            if number != errno.EINTR:
                raise OSError(number, os.strerror(number), path)

    return opened


def open_stepwise(path: str, flags: int, mode: int) -> int:
    """Open a path as `open_exactly` does, one folder after the other, where the system has no openat2.

    :param path: absolute and resolved.
    :param flags: as for `os.open`, with `O_NOFOLLOW`.
    :param mode: of a file that is created, before the umask.
    :raises OSError: see `open_exactly`.
    """
    *above, last = Path(path).parts[1:] or ["."]
    folder = os.open("/", _SEARCH | _FOLDER)
    try:
        for name in above:
            below = _step(folder, name, _SEARCH | _FOLDER, 0, path)
            os.close(folder)
            folder = below
        return _step(folder, last, flags, mode, path)
    finally:
        os.close(folder)


def _step(folder: int, name: str, flags: int, mode: int, path: str) -> int:
    try:
        return os.open(name, flags, mode, dir_fd=folder)
    except OSError as error:
        # A link where a folder was asked for is ENOTDIR.
        number = errno.ELOOP if error.errno == errno.ENOTDIR and _is_link(folder, name) else error.errno
        raise OSError(number, os.strerror(number or errno.EIO), path) from error


def _is_link(folder: int, name: str) -> bool:
    try:
        return stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    except OSError:
        return False
