"""`piped_text`: what another program or a file gives to a command on stdin."""

from __future__ import annotations

import os
import select
import stat
import sys
from contextlib import suppress

import anyio.to_thread

from acp_agent.cli.terminal.process import aside
from acp_agent.errors import AgentError
from acp_agent.session.mailbox import MAX_CHARACTERS

_PATIENCE_SECONDS = 3.0
"""How long to wait for the first byte, since many programs start others with a pipe
that nobody writes into.
"""
_MAX_BYTES = 4 * MAX_CHARACTERS + 1
"""What is longer is no prompt."""
_PIECE = 1 << 20


async def piped_text(*, waits: bool, expected: bool) -> str:
    """Return the text on stdin; "" if there is none.

    :param waits: read until the end, whatever stdin is and however long it takes.
    :param expected: read stdin also without `waits`, if it is a pipe, a socket or a
        file that nobody has begun to read.
    :raises AgentError: it is not UTF-8 text, or cannot be read.
    """
    if not (waits or (expected and _is_piped())):
        return ""
    seconds = None if waits else _PATIENCE_SECONDS
    try:
        read = await anyio.to_thread.run_sync(_read, seconds, abandon_on_cancel=True)
        if read is None:
            aside(
                f"Nothing arrived on stdin within {_PATIENCE_SECONDS:.0f} seconds. The prompt is sent without it."
            )
        return (read or b"").decode("utf-8-sig")
    except UnicodeError as error:
        raise AgentError(
            "The piped input is not UTF-8 text. Save an image to a file, and attach it as @its/path."
        ) from error
    except OSError as error:
        raise AgentError(f"stdin cannot be read ({error.strerror}).") from error


def _is_piped() -> bool:
    """Return whether stdin holds something for this command.

    A file that has been read in part belongs to somebody else, such as a loop of the
    shell: `while read line`.
    """
    try:
        kind = os.fstat(sys.stdin.fileno()).st_mode
        if stat.S_ISREG(kind):
            return os.lseek(sys.stdin.fileno(), 0, os.SEEK_CUR) == 0
    except (OSError, ValueError):  # it is closed
        return False
    return stat.S_ISFIFO(kind) or stat.S_ISSOCK(kind)


def _read(seconds: float | None) -> bytes | None:
    """Return the bytes on stdin; None if the first one does not arrive in time. Call it
    in a thread.

    :param seconds: None to wait for ever.
    """
    stdin = sys.stdin.fileno()
    with suppress(ValueError):  # a descriptor beyond what `select` can take
        if seconds is not None and not select.select([stdin], [], [], seconds)[0]:
            return None
    read = bytearray()
    while len(read) < _MAX_BYTES and (piece := os.read(stdin, _PIECE)):
        read += piece
    return bytes(read)
