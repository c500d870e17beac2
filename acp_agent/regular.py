"""Reads paths of unknown type without blocking. Opening a named pipe in the usual way
would wait for a writer.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

from acp_agent.nofollow import open_exactly


class NotRegularError(OSError):
    """Raised if a path exists but is not a regular file."""


class TooLargeError(OSError):
    """Raised if a file is larger than the caller reads."""


def open_regular(path: Path) -> BinaryIO:
    """Open a file for reading, following links.

    :raises NotRegularError: if the path is a pipe, a socket or a device.
    :raises OSError: if the path cannot be opened or is a directory.
    """
    return _as_file(
        os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC), path
    )


def open_resolved(path: Path) -> BinaryIO:
    """Open a file for reading at exactly this path, without following links.

    :param path: absolute and resolved.
    :raises NotRegularError: if the path is a pipe, a socket or a device.
    :raises OSError: if the path cannot be opened or is a directory; with `errno.ELOOP`
        if a part of it is a link.
    """
    return _as_file(open_exactly(path), path)


def read_regular(path: Path, most: int) -> bytes:
    """Return the contents of a file, following links.

    :param most: maximum size in bytes. Anyone can create a sparse file of 100 GiB
        without using the disk.
    :raises TooLargeError: if the file is larger.
    :raises OSError: if the file cannot be read or is not a regular file.
    """
    with open_regular(path) as file:
        return _all_of(file, path, most)


def read_resolved(path: Path, most: int) -> bytes:
    """Return the contents of a file at exactly this path, without following links.

    :param path: absolute and resolved.
    :param most: maximum size in bytes.
    :raises TooLargeError: if the file is larger.
    :raises OSError: if the file cannot be read, is not a regular file, or a part of the
        path is a link.
    """
    with open_resolved(path) as file:
        return _all_of(file, path, most)


def _all_of(file: BinaryIO, path: Path, most: int) -> bytes:
    is_large = os.fstat(file.fileno()).st_size > most
    data = b"" if is_large else file.read(most + 1)
    if is_large or len(data) > most:  # it may have grown meanwhile
        raise TooLargeError(
            errno.EFBIG, f"it is larger than {most >> 10:,} KiB", str(path)
        )
    return data


def _as_file(descriptor: int, path: Path) -> BinaryIO:
    try:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if not stat.S_ISREG(mode):
            raise NotRegularError(errno.EINVAL, "it is not a regular file", str(path))
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise
