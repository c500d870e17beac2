"""Errors about paths, and how paths are shown in them."""

from __future__ import annotations

import errno
import stat
from pathlib import Path

from acp_agent.errors import ToolError
from acp_agent.nofollow import status_of
from acp_agent.tools.text import one_line

LONGEST_PATH = 4095
"""Maximum length of a path in bytes; see path_resolution(7)."""


def printable(name: str) -> str:
    """Return a file name on one line, with U+FFFD in place of characters that cannot be
    shown.
    """
    return one_line(name, LONGEST_PATH)


def moved(label: str) -> ToolError:
    """Return the error for a path that no longer leads to the file for which the call
    was permitted.

    :param label: the path as shown.
    """
    return ToolError(
        f"{label} now leads somewhere else than when this call was permitted, because a symbolic link in the path was "
        "created or changed. Nothing was done. Repeat the call."
    )


def because(error: OSError) -> str:
    """Return the operating system's reason, as the end of a sentence."""
    if error.errno == errno.ELOOP:
        return "the path has a symbolic link that was just created, or symbolic links that form a loop"
    return (error.strerror or type(error).__name__).lower()


def refuse_special(real: Path, label: str) -> None:
    """Refuse a path that exists but is not a regular file: reading a pipe or a device
    could block forever.

    :param real: absolute and resolved.
    :param label: the path as shown.
    :raises ToolError: if it is a directory, device, pipe or socket; the message says
        so.
    """
    try:
        mode = status_of(real).st_mode
    except OSError:
        return
    if stat.S_ISLNK(mode):  # opening it fails later with a clear error
        return
    if stat.S_ISDIR(mode):
        raise ToolError(f"{label} is a directory. Use `list` to see its contents.")
    if not stat.S_ISREG(mode):
        raise ToolError(
            f"{label} is a device, pipe or socket and not a regular file, so it cannot be read or written."
        )
