"""Reads paths of unknown type without blocking: opening a named pipe normally would wait for a writer."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

from acp_agent.nofollow import open_exactly


class NotRegularError(OSError):
    """Raised if a path exists but is not a regular file."""


def open_regular(path: Path) -> BinaryIO:
    """Open a file for reading, following links.

    :raises NotRegularError: if it is a pipe, a socket or a device.
    :raises OSError: if it cannot be opened, or is a directory.
    """
    return _as_file(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC), path)


def open_resolved(path: Path) -> BinaryIO:
    """Open a file for reading at exactly this path, without following links.

    :param path: absolute and resolved.
    :raises NotRegularError: if it is a pipe, a socket or a device.
    :raises OSError: if it cannot be opened, or is a directory; with `errno.ELOOP` if a part of the path is a link.
    """
    return _as_file(open_exactly(path), path)


def read_regular(path: Path) -> bytes:
    """Return the contents of a file, following links.

    :raises OSError: if it cannot be read, or is not a regular file.
    """
    with open_regular(path) as file:
        return file.read()


def read_resolved(path: Path) -> bytes:
    """Return the contents of a file at exactly this path, without following links.

    :param path: absolute and resolved.
    :raises OSError: if it cannot be read, is not a regular file, or a part of the path is a link.
    """
    with open_resolved(path) as file:
        return file.read()


def _as_file(descriptor: int, path: Path) -> BinaryIO:
    try:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if not stat.S_ISREG(mode):
            raise NotRegularError(errno.EINVAL, "it is no regular file", str(path))
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise
