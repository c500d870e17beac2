"""Claims file descriptors 0 and 1 for the protocol, so that nothing else in the process
can use them.

This imports only the standard library, so that a process can claim them before anything
else is loaded.
"""

from __future__ import annotations

import errno
import fcntl
import os
import sys

_STDIN = 0
_STDOUT = 1
_STDERR = 2


def claim_descriptors() -> tuple[int, int]:
    """Duplicate fd 0 and fd 1 for the wire, then point fd 0 at the null device and fd 1
    at stderr.

    After that a stray `print`, a C library or a child process can neither consume input
    nor corrupt output. Children do not inherit the duplicates. If stderr leads to the
    same pipe as stdout (`2>&1`), it is silenced.

    :returns: the descriptor to read from and the one to write to; the caller owns both.
    :raises OSError: if the process has no stdout.
    """
    # `sys.__stdout__` is None if fd 1 was closed at startup; by now another file may
    # have been opened as fd 1.
    if sys.__stdout__ is None:
        raise OSError(errno.EBADF, "the process was started without a stdout")
    write_fd = _duplicate(_STDOUT)
    null = os.open(os.devnull, os.O_RDWR)
    try:
        if sys.__stdin__ is None:  # same as an empty input
            read_fd = _duplicate(null)
        else:
            read_fd = _duplicate(_STDIN)
            os.dup2(null, _STDIN)
        if sys.__stderr__ is None:
            os.dup2(null, _STDOUT)
        else:
            if os.path.sameopenfile(_STDOUT, _STDERR) and not os.isatty(_STDOUT):
                os.dup2(null, _STDERR)
            os.dup2(_STDERR, _STDOUT)
    finally:
        if null > _STDERR:
            os.close(null)
    return read_fd, write_fd


def _duplicate(fd: int) -> int:
    # Not inherited by children, and above the standard range even if one of the three
    # was closed at startup.
    return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _STDERR + 1)
