"""Reading of paths that may be anything, without blocking: opening a named pipe would wait for a writer."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO


class NotRegularError(OSError):
    """It is there, and is no regular file."""


def open_regular(path: Path, *, follow: bool = True) -> BinaryIO:
    """Open a file for reading.

    :param follow: whether it may be a link itself.
    :raises NotRegularError: it is a pipe, a socket or a device.
    :raises OSError: it cannot be opened, or is a directory.
    """
    more = os.O_NONBLOCK if follow else os.O_NONBLOCK | os.O_NOFOLLOW
    file = open(path, "rb", opener=lambda name, flags: os.open(name, flags | more))  # noqa: SIM115 - returned open
    if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        return file
    file.close()
    raise NotRegularError(errno.EINVAL, "it is no regular file", str(path))


def read_regular(path: Path) -> bytes:
    """Return all of a file, links followed.

    :raises OSError: it cannot be read, or is no regular file.
    """
    with open_regular(path) as file:
        return file.read()
