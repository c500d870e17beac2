"""Opens files and folders without following symbolic links.

The agent resolves a path, checks it, and then opens it. Between the check and the
opening, anyone who can write to a folder on the path can replace a part of the path
with a link. So callers check the resolved path and open it with this module: if any
part of it has become a link, opening it fails with `ELOOP`. All further work uses the
descriptor.

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
"""How many times to retry if a path changes while it is being resolved."""
_Open: TypeAlias = Callable[[str, int, int], int]

_SYSCALL_OPENAT2 = 437
"""The number of openat2 on every architecture that Python runs on."""
_NO_LINKS = 0x04 | 0x02
"""`RESOLVE_NO_SYMLINKS` and `RESOLVE_NO_MAGICLINKS`: stricter than `RESOLVE_BENEATH`,
since no link is followed.
"""
_CURRENT = -100  # AT_FDCWD
_FOLDER = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_SEARCH = getattr(os, "O_PATH", os.O_RDONLY)
"""Flags for opening the parent folders. With `O_PATH`, the folders need not be
readable.
"""


@frozen
class FolderEntry:
    """One entry of a folder. Links are not followed."""

    name: str
    is_folder: bool
    is_link: bool


def resolved(path: Path) -> Path:
    """Return an absolute path with all links resolved. Parts that are missing or form a
    loop stay unchanged.

    :param path: absolute.
    """
    for _ in range(_MOST_CHANGES):
        # Before Python 3.12, `realpath` fails if a link is replaced by a folder while
        # it is being resolved.
        with suppress(OSError):
            return Path(os.path.realpath(path))
    return Path(os.path.realpath(path))


def open_exactly(path: Path, flags: int = os.O_RDONLY, mode: int = 0o666) -> int:
    """Open a path that contains no symbolic link. Never blocks on a named pipe.

    :param path: absolute and resolved.
    :param flags: as for `os.open`.
    :param mode: the mode of a file that is created, before the umask.
    :returns: a descriptor that child processes do not inherit.
    :raises OSError: if the path cannot be opened; with `errno.ELOOP` if a part of it is
        a link.
    """
    more = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
    opened = _opener() if "ctypes" in sys.modules else open_stepwise
    return opened(str(path), flags | more, mode if flags & os.O_CREAT else 0)


def prepare() -> None:
    """Load the binding for openat2. Without it, `open_exactly` opens folder by folder,
    at half the speed or less.
    """
    _opener()


@contextmanager
def folder_at(path: Path, *, make: bool = False) -> Generator[int]:
    """Open a folder inside the `with` block, for functions that take a `dir_fd`.

    :param path: absolute and resolved.
    :param make: whether to create missing folders.
    :raises OSError: see `open_exactly`; also if the path is not a folder.
    """
    descriptor = (
        _made(path) if make else open_exactly(path, os.O_RDONLY | os.O_DIRECTORY)
    )
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def make_folder(path: Path) -> None:
    """Create a folder and its missing parent folders, unless it exists.

    :param path: absolute and resolved.
    :raises OSError: see `folder_at`.
    """
    with folder_at(path, make=True):
        pass


def status_of(path: Path) -> os.stat_result:
    """Return the status of the file at a path; for a link, the status of the link
    itself.

    :param path: absolute and resolved.
    :raises OSError: see `open_exactly`.
    """
    with _parent_of(path) as folder:
        return os.stat(path.name or ".", dir_fd=folder, follow_symlinks=False)


def entries_of(path: Path) -> list[FolderEntry]:
    """Return the entries of a folder, sorted by name.

    :param path: absolute and resolved.
    :raises OSError: see `folder_at`.
    """
    with folder_at(path) as folder:
        return entries_in(folder)


def entries_in(folder: int) -> list[FolderEntry]:
    """Return the entries of an open folder, sorted by name.

    :raises OSError: if the folder cannot be read.
    """
    with os.scandir(folder) as found:
        entries = [
            FolderEntry(
                each.name, each.is_dir(follow_symlinks=False), each.is_symlink()
            )
            for each in found
        ]
    return sorted(entries, key=lambda entry: entry.name)


def remove(path: Path) -> None:
    """Remove a file. For a link, remove the link itself.

    :param path: absolute and resolved.
    :raises OSError: see `open_exactly`.
    """
    with _parent_of(path) as folder:
        os.unlink(path.name, dir_fd=folder)


def change_mode(name: str, change: Callable[[int], int], folder: int) -> None:
    """Change the permission bits of a file or folder. Fails for a link, and never
    changes its target.

    :param name: the name of the file or folder in `folder`.
    :param change: takes the old bits and returns the new ones.
    :param folder: descriptor of the parent folder.
    :raises OSError: if it cannot be changed; with `errno.ELOOP` if it is a link.
    """
    descriptor = os.open(
        name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder
    )
    try:
        os.fchmod(descriptor, change(stat.S_IMODE(os.fstat(descriptor).st_mode)))
    finally:
        os.close(descriptor)


@contextmanager
def temporary_folder() -> Generator[Path]:
    """Create a private temporary folder, and remove it with its contents after the
    `with` block.

    If `tempfile.TemporaryDirectory` cannot remove a file, it makes the file writable
    and follows links while doing so (CVE-2023-6597, fixed in Python 3.11.8 and 3.12.1).
    This function leaves such files in place.

    :returns: its resolved path.
    """
    import shutil
    import tempfile

    path = Path(tempfile.mkdtemp(prefix="acp-agent-")).resolve()
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)  # does not follow links


def _parent_of(path: Path) -> AbstractContextManager[int]:
    return folder_at(path.parent)


def _made(path: Path) -> int:
    """Open a folder, creating it and its parent folders if they are missing."""
    missing: list[str] = []
    while True:  # not recursive, since a path may have two thousand parts
        try:
            opened = open_exactly(path, os.O_RDONLY | os.O_DIRECTORY)
            break
        except FileNotFoundError:
            missing.append(path.name)
            path = path.parent
    for name in reversed(missing):
        above = opened
        try:
            with suppress(FileExistsError):
                os.mkdir(name, dir_fd=above)
            opened = os.open(name, os.O_RDONLY | _FOLDER, dir_fd=above)
        finally:
            os.close(above)
    return opened


@cache
def _opener() -> _Open:
    """Return the function that opens a path without following links: with openat2 if
    the kernel supports it.
    """
    by_kernel = _by_openat2() if sys.platform == "linux" else None
    if by_kernel is not None:
        # The kernel is older than 5.6, or seccomp refuses the system call.
        with suppress(OSError):
            os.close(by_kernel("/", os.O_RDONLY | _FOLDER, 0))
            return by_kernel
    return open_stepwise


def _by_openat2() -> _Open | None:
    import ctypes  # imported here, because it takes 10 ms

    class How(ctypes.Structure):
        _fields_ = (
            ("flags", ctypes.c_uint64),
            ("mode", ctypes.c_uint64),
            ("resolve", ctypes.c_uint64),
        )

    syscall = ctypes.CDLL(None, use_errno=True).syscall
    syscall.restype = ctypes.c_long
    syscall.argtypes = (
        ctypes.c_long,
        ctypes.c_int,
        ctypes.c_char_p,
        ctypes.POINTER(How),
        ctypes.c_size_t,
    )

    def opened(path: str, flags: int, mode: int) -> int:
        name = os.fsencode(path)
        how = How(flags, mode, _NO_LINKS)
        while True:
            descriptor = syscall(
                _SYSCALL_OPENAT2, _CURRENT, name, ctypes.byref(how), ctypes.sizeof(how)
            )
            if descriptor >= 0:
                return descriptor
            number = ctypes.get_errno()
            if number != errno.EINTR:
                raise OSError(number, os.strerror(number), path)

    return opened


def open_stepwise(path: str, flags: int, mode: int) -> int:
    """Open a path like `open_exactly`, folder by folder, for systems without openat2.

    :param path: absolute and resolved.
    :param flags: as for `os.open`, with `O_NOFOLLOW`.
    :param mode: the mode of a file that is created, before the umask.
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
        # Opening a link as a folder fails with ENOTDIR.
        number = (
            errno.ELOOP
            if error.errno == errno.ENOTDIR and _is_link(folder, name)
            else error.errno
        )
        raise OSError(number, os.strerror(number or errno.EIO), path) from error


def _is_link(folder: int, name: str) -> bool:
    try:
        return stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    except OSError:
        return False
