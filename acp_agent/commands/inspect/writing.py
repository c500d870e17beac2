"""Where a page is put: a file of its own, or a stream that somebody reads.

Knows nothing of what is in a page but how it begins.
"""

from __future__ import annotations

import errno
import os
import select
import stat
import sys
from pathlib import Path

import anyio
from anyio.to_thread import run_sync

from acp_agent.commands.inspect.page import MARK
from acp_agent.commands.terminal import aside
from acp_agent.config.state_file import replacing
from acp_agent.errors import AgentError
from acp_agent.regular import open_regular

_POLL_SECONDS = 0.1


async def put(path: Path, page: str) -> None:
    """Put the page there and print where: for the user alone, only in the place of another such page. A pipe or a
    device gets it as it is, and where that is stdout, nothing else is printed there.

    :raises AgentError: there is something else, or it cannot be written.
    :raises BrokenPipeError: whoever read has seen enough.
    """
    try:
        if _is_stdout(path):
            sys.stdout.flush()
            await _stream(sys.stdout.fileno(), page)
            return
        mode = _mode(path)
        if stat.S_ISFIFO(mode) or stat.S_ISCHR(mode):
            descriptor = await _opened(path, waits=stat.S_ISFIFO(mode))
            try:
                await _stream(descriptor, page)
            finally:
                os.close(descriptor)
        else:
            await run_sync(_replace, path, page)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise AgentError(f"{path} cannot be written ({error.strerror}).") from error
    print(path)


def _replace(path: Path, page: str) -> None:
    if os.path.lexists(path):
        with open_regular(path) as file:
            if file.read(len(MARK)) != MARK.encode():
                raise AgentError(f"{path} is there already, and is no page of this command. Name another with -o.")
    with replacing(path) as file:
        file.write(page.encode())


def _is_stdout(path: Path) -> bool:
    """Whether it is a name of what stdout is, as /dev/stdout is one."""
    try:
        return os.path.samestat(path.stat(), os.fstat(sys.stdout.fileno()))
    except (OSError, ValueError):
        return False


def _mode(path: Path) -> int:
    """What is there; 0 for nothing."""
    try:
        return path.stat().st_mode
    except OSError:
        return 0


async def _opened(path: Path, *, waits: bool) -> int:
    """Open it for writing.

    :param waits: it is a pipe, of which there may be nobody yet who reads.
    """
    told = False
    while True:
        try:
            return os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        except OSError as error:
            if error.errno != errno.ENXIO or not waits:
                raise
        if not told:
            aside(f"Nobody reads {path} yet. Ctrl-c ends the waiting.")
            told = True
        await anyio.sleep(_POLL_SECONDS)


async def _stream(descriptor: int, page: str) -> None:
    """Write all of it, without keeping the event loop waiting for whoever reads."""
    mode = os.fstat(descriptor).st_mode
    may_wait = stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(descriptor)
    rest = memoryview(page.encode())
    while rest:
        if may_wait:
            await anyio.wait_writable(descriptor)
        try:
            # So much a pipe takes at once when it takes anything.
            rest = rest[os.write(descriptor, rest[: select.PIPE_BUF]) :]
        except BlockingIOError:
            continue  # somebody else was faster
