"""Runs a command inside an editor's terminal as the agent itself runs one: no input, no terminal.

Programs find a terminal in three places: stdin, `/dev/tty`, and stdout or stderr, from which pagers and editors read
keys where the others fail. So the command gets `/dev/null`, no controlling terminal, and a pipe whose content is copied
to the terminal.

The editor starts this file as a program of its own, with the standard library alone. It stays as the parent of the
command: the sandbox ends with the thread that started it, and threads of an editor may end before their terminals do.

Source: tty_ioctl(4), "Controlling terminal"; prctl(2), PR_SET_PDEATHSIG; POSIX.1-2017, 11.1.3
"""

from __future__ import annotations

import fcntl
import os
import select
import signal
import sys
import termios
from collections.abc import Sequence
from contextlib import suppress
from types import FrameType
from typing import NoReturn

_START = 'if [ -x "$1" ] && [ -f "$3" ]; then exec "$@"; fi; shift 3; exec "$@" < /dev/null'
"""Another machine may lack this file; the command has no input there either."""
_CHUNK = 1 << 16
_DRAIN_SECONDS = 0.1
"""How long output is waited for after the command has ended, while processes that it left hold the pipe."""
_NOT_FOUND, _NOT_STARTED = 127, 126
"""The exit statuses of a shell for a program that is missing, and for one that cannot be run."""
_PR_SET_PDEATHSIG = 1


def command_line(argv: Sequence[str]) -> tuple[str, ...]:
    """Return the command line that runs a program in an editor's terminal, as if there were none."""
    return ("/bin/sh", "-c", _START, "sh", sys.executable, "-IS", __file__, *argv)


def run(argv: Sequence[str]) -> NoReturn:
    """Run a program to its end, and end as it did: with its exit status, or by the same signal."""
    read_end, write_end = os.pipe()
    wake_read, wake_write = os.pipe()
    os.set_blocking(wake_write, False)
    signal.set_wakeup_fd(wake_write)
    # The terminal sends the first two to the command as well, which ends by them or goes on.
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGCHLD):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _note)
    child = os.fork()
    if child == 0:
        _become(argv, write_end)
    os.close(write_end)

    def pass_on(number: int, _: FrameType | None) -> None:
        """End the command and this process, for an editor that signals only the process that it has started."""
        os.kill(child, number)
        _end_by(number)

    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, pass_on)
    status = _copy_until_end(child, read_end, wake_read)
    if os.WIFSIGNALED(status):
        _end_by(os.WTERMSIG(status))
    os._exit(os.waitstatus_to_exitcode(status))


def _note(number: int, frame: FrameType | None) -> None:
    """Let a signal write to the wake-up descriptor. A program that is started gets the default action again, which it
    would not of a signal that is ignored."""


def _become(argv: Sequence[str], output: int) -> NoReturn:
    """Replace this process, a child of the one that the editor started, by the program."""
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # which Python ignores
        signal.signal(number, signal.SIG_DFL)
    _end_with_parent()
    # The kernel takes the terminal away from this process alone, since it is not the leader of its session. The process
    # group stays the same, so that the editor's signals still reach the command.
    with suppress(OSError):  # there is none
        terminal = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY)
        fcntl.ioctl(terminal, termios.TIOCNOTTY)
        os.close(terminal)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for descriptor in (1, 2):
        if os.isatty(descriptor):
            os.dup2(output, descriptor)
    try:
        os.execvp(argv[0], list(argv))
    except OSError as error:
        os.write(2, f"{argv[0]}: {error.strerror}\n".encode(errors="surrogateescape"))
        os._exit(_NOT_FOUND if isinstance(error, FileNotFoundError) else _NOT_STARTED)


def _end_with_parent() -> None:
    """Have the kernel kill this process when its parent is killed, which some editors do to that one alone."""
    if sys.platform == "linux":
        with suppress(ImportError, OSError):
            import ctypes

            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def _copy_until_end(child: int, output: int, wake: int) -> int:
    """Copy what the program prints until it has ended, and return its status as of `os.waitpid`."""
    status: int | None = None
    waited = None
    open_ends = [output, wake]
    while output in open_ends or status is None:
        readable, _, _ = select.select(open_ends, [], [], waited)
        if wake in readable:
            os.read(wake, _CHUNK)
        if output in readable:
            data = os.read(output, _CHUNK)
            if not data or not _write(data):
                open_ends.remove(output)
        elif status is not None:
            break
        if status is None:
            ended, found = os.waitpid(child, os.WNOHANG)
            if ended:
                status, waited = found, _DRAIN_SECONDS
    return status


def _write(data: bytes) -> bool:
    """Write to the terminal; return whether it is still there."""
    try:
        while data:
            data = data[os.write(1, data) :]
    except OSError:
        return False
    return True


def _end_by(number: int) -> NoReturn:
    """End by a signal, without a second memory dump."""
    import resource

    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    with suppress(OSError):  # SIGKILL
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    os._exit(128 + number)


if __name__ == "__main__":
    run(sys.argv[1:])
