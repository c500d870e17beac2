"""Keeps sandboxed commands and the editor apart: an editor that reads or writes a file for the agent follows links.

The agent opens what it has decided on by descriptor, but can only name a path to the editor. A command of another
session of this process could exchange a folder of the path for a link in that moment. So a command waits while the
editor works on a file that it could lead elsewhere, and while such a command runs, the editor is not relied on.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from threading import Condition

_LONGEST_WAIT = 60.0
"""Seconds, which is longer than the agent waits for an answer of the editor."""

_changed = Condition()
_commands: list[tuple[Path, ...]] = []
"""The writable folders of each command that runs."""
_accesses: list[Path] = []
"""The paths that the editor works on."""


@contextmanager
def command_in(folders: Iterable[Path]) -> Generator[None]:
    """Run a command inside the `with` block; waits until the editor works on nothing in the folders.

    :param folders: what the command may write, absolute and resolved.
    :raises TimeoutError: the editor did not come to an end.
    """
    writable = tuple(folders)
    with _changed:
        if not _changed.wait_for(lambda: not any(_is_in(path, writable) for path in _accesses), _LONGEST_WAIT):
            raise TimeoutError("the editor has been working on a file in this folder for a minute")
        _commands.append(writable)
    try:
        yield
    finally:
        with _changed:
            _commands.remove(writable)


@contextmanager
def editor_access(path: Path) -> Generator[bool]:
    """Let the editor work on a path inside the `with` block.

    :param path: absolute and resolved.
    :returns: whether no command runs that could lead the path elsewhere, and none begins inside the block.
    """
    with _changed:
        is_alone = not any(_is_in(path, writable) for writable in _commands)
        if is_alone:
            _accesses.append(path)
    try:
        yield is_alone
    finally:
        if is_alone:
            with _changed:
                _accesses.remove(path)
                _changed.notify_all()


def _is_in(path: Path, folders: Iterable[Path]) -> bool:
    return any(path.is_relative_to(folder) for folder in folders)
