"""Runs a command in an editor's terminal the way the agent runs its own commands:
without input or a terminal.

Programs find a terminal in three places: stdin, `/dev/tty`, and stdout or stderr, from
which pagers and editors read keys if the others fail. So the command gets `/dev/null`,
no controlling terminal, and a pipe whose content is copied to the terminal.

The editor starts this file as a separate program, which uses only the standard library.
It stays the parent of the command: the sandbox ends with the thread that started it,
and an editor's threads may end before their terminals do.

Source: tty_ioctl(4), "Controlling terminal"; prctl(2), PR_SET_PDEATHSIG; POSIX.1-2017,
11.1.3
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

_START = (
    'if [ -x "$1" ] && [ -f "$3" ]; then exec "$@"; fi; shift 3; exec "$@" < /dev/null'
)
"""This file may be missing on another machine; even then, the command has no input."""
_CHUNK = 1 << 16
_DRAIN_SECONDS = 0.1
"""How long to wait for output after the command has ended, if processes that it left
behind hold the pipe open.
"""
_NOT_FOUND = 127
_NOT_STARTED = 126
"""A shell's exit statuses for a missing program, and for a program that cannot be run."""
_PR_SET_PDEATHSIG = 1


def command_line(argv: Sequence[str]) -> tuple[str, ...]:
    """Return the command line that runs a program in an editor's terminal as if it had
    no terminal.
    """
    return ("/bin/sh", "-c", _START, "sh", sys.executable, "-IS", __file__, *argv)


def run(argv: Sequence[str]) -> NoReturn:
    """Run a program to its end, then end in the same way: with its exit status, or by
    the same signal.
    """
    read_end, write_end = os.pipe()
    wake_read, wake_write = os.pipe()
    os.set_blocking(wake_write, False)
    signal.set_wakeup_fd(wake_write)
    # The terminal also sends SIGINT and SIGQUIT to the command, which decides whether
    # to exit.
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGCHLD):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _note)
    child = os.fork()
    if child == 0:
        _become(argv, write_end)
    os.close(write_end)

    def pass_on(number: int, _: FrameType | None) -> None:
        """End the command and this process, for editors that signal only the process
        that they started.
        """
        os.kill(child, number)
        _end_by(number)

    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, pass_on)
    status = _copy_until_end(child, read_end, wake_read)
    if os.WIFSIGNALED(status):
        _end_by(os.WTERMSIG(status))
    os._exit(os.waitstatus_to_exitcode(status))


def _note(number: int, frame: FrameType | None) -> None:
    """Let a signal write to the wake-up descriptor.

    A program started by `exec` gets the default action for a handled signal. An ignored
    signal would stay ignored.
    """


def _become(argv: Sequence[str], output: int) -> NoReturn:
    """Replace this process, a child of the one that the editor started, with the
    program.
    """
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores these
        signal.signal(number, signal.SIG_DFL)
    _end_with_parent()
    # This process is not the session leader, so the kernel takes the terminal away from
    # this process only. The process group stays the same, so the editor's signals still
    # reach the command.
    with suppress(OSError):  # there is no terminal
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
    """Ask the kernel to kill this process when its parent is killed, since some editors
    kill only the parent.
    """
    if sys.platform == "linux":
        with suppress(ImportError, OSError):
            import ctypes

            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def _copy_until_end(child: int, output: int, wake: int) -> int:
    """Copy the program's output until the program has ended, and return its status as
    given by `os.waitpid`.
    """
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
                status = found
                waited = _DRAIN_SECONDS
    return status


def _write(data: bytes) -> bool:
    """Write to the terminal, and return whether it still exists."""
    try:
        while data:
            data = data[os.write(1, data) :]
    except OSError:
        return False
    return True


def _end_by(number: int) -> NoReturn:
    """End this process by a signal, without a second core dump."""
    import resource

    with suppress(ValueError, OSError):
        resource.setrlimit(
            resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1])
        )
    with suppress(OSError):  # SIGKILL cannot be changed
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    os._exit(128 + number)


if __name__ == "__main__":
    run(sys.argv[1:])
