"""Run commands in pseudo-terminals, as editors with a real terminal do."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from collections.abc import Mapping, Sequence
from threading import Event, Thread

_WITH_TERMINAL = (
    "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); "
    "os.execvp(sys.argv[1], sys.argv[1:])"
)


def start_in_pseudo_terminal(
    argv: Sequence[str], cwd: str | None, env: Mapping[str, str] | None
) -> subprocess.Popen[bytes]:
    """Start a program as a session leader with a new pseudo-terminal as its controlling
    terminal.

    :returns: the process; its `stdout` is the other end of the terminal.
    """
    terminal, inside = pty.openpty()
    try:
        process = subprocess.Popen(
            [sys.executable, "-IS", "-c", _WITH_TERMINAL, *argv],
            cwd=cwd,
            env=env,
            stdin=inside,
            stdout=inside,
            stderr=inside,
            start_new_session=True,
        )
    except BaseException:
        os.close(terminal)
        raise
    finally:
        os.close(inside)
    process.stdout = os.fdopen(terminal, "r+b", buffering=0)
    return process


class EndingThread:
    """A thread that starts a program, and ends on request while the program keeps
    running.

    A process can be killed when the thread that started it ends: see PR_SET_PDEATHSIG
    in prctl(2).
    """

    def __init__(self, argv: Sequence[str], cwd: str | None) -> None:
        self._started: list[subprocess.Popen[bytes]] = []
        self._ready = Event()
        self._leave = Event()
        self._thread = Thread(target=self._run, args=(argv, cwd), daemon=True)
        self._thread.start()
        self._ready.wait(20)

    @property
    def process(self) -> subprocess.Popen[bytes]:
        [process] = self._started
        return process

    def end(self) -> None:
        self._leave.set()
        self._thread.join(20)

    def _run(self, argv: Sequence[str], cwd: str | None) -> None:
        try:
            self._started.append(start_in_pseudo_terminal(argv, cwd, None))
        finally:
            self._ready.set()
        self._leave.wait()
