"""A question to the person at the terminal, if there is one."""

from __future__ import annotations

import os
import sys
import termios
import threading
from collections.abc import Callable
from typing import TypeVar

import anyio.to_thread

_LONGEST_ANSWER = 4_096
_SILENT_SECONDS = 1.5
_WAITING = "Waiting for the system's keyring, which may have to be unlocked … (ctrl-c ends this)"

T = TypeVar("T")


def is_somebody_here() -> bool:
    """Whether stdin is a terminal."""
    return sys.stdin is not None and sys.stdin.isatty()


async def with_keyring(work: Callable[[], T]) -> T:
    """Do in a thread what may wait for the system's keyring, and say so where it does. A cancel leaves it behind."""
    timer = threading.Timer(_SILENT_SECONDS, print, [_WAITING], {"file": sys.stderr, "flush": True})
    timer.daemon = True
    timer.start()
    try:
        return await anyio.to_thread.run_sync(work, abandon_on_cancel=True)
    finally:
        timer.cancel()


async def answered(question: str) -> str | None:
    """The first letter, in lower case, of what a person types; None where nobody is there to do it.

    :param question: printed to stderr, without a line end.
    """
    line = await typed(question)
    return None if line is None else line.lower()[:1]


async def typed_secret(question: str) -> str | None:
    """As `typed`, but what is typed is not shown. The terminal shows it again afterwards, however this ends.

    :param question: printed to stderr, without a line end.
    """
    if not is_somebody_here():
        return None
    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)
    quiet = [*before]
    quiet[3] = before[3] & ~termios.ECHO
    try:
        termios.tcsetattr(terminal, termios.TCSAFLUSH, quiet)
        return await typed(question)
    finally:
        termios.tcsetattr(terminal, termios.TCSAFLUSH, before)
        print(file=sys.stderr, flush=True)  # the line end was not shown either


async def typed(question: str) -> str | None:
    """The line that a person types, without blanks around it; None where nobody is there to do it.

    A cancel leaves the thread that reads behind: see `terminal.run_command`, which does not wait for it.

    :param question: printed to stderr, without a line end.
    """
    if not is_somebody_here():
        return None
    print(question, end="", file=sys.stderr, flush=True)
    try:
        line = await anyio.to_thread.run_sync(os.read, sys.stdin.fileno(), _LONGEST_ANSWER, abandon_on_cancel=True)
    except OSError:  # the terminal is gone, or belongs to another job
        line = b""
    if not line:  # ctrl-d
        print(file=sys.stderr, flush=True)
        return None
    return line.decode(errors="replace").strip()
