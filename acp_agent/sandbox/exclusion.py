"""Prevents sandboxed commands and the editor from working on the same files at the same
time, since an editor that accesses a file for the agent follows links.

The agent opens the files that it has checked by descriptor, but it can only give the
editor a path. At that moment, a command of another session of this process could
replace a folder of the path with a link. So a command waits while the editor works on a
file that the command could redirect. While such a command is running, the agent does
not use the editor.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from threading import Condition

from acp_agent.errors import SandboxError

_LONGEST_WAIT = 60.0
"""Maximum wait in seconds, which is longer than the agent waits for an answer from the
editor.
"""

_changed = Condition()
_commands: list[tuple[Path, ...]] = []
"""The writable folders of each running command."""
_accesses: list[Path] = []
"""The paths that the editor is working on."""


@contextmanager
def without_editor(folders: Iterable[Path]) -> Generator[None]:
    """Wait until the editor is no longer working on any file in the folders. Inside the
    `with` block, in which a command runs, the agent does not use the editor for them.

    :param folders: the folders that the command may write to, absolute and resolved.
    :raises SandboxError: if the editor does not finish in time.
    """
    writable = tuple(folders)
    with _changed:
        if not _changed.wait_for(
            lambda: not any(_is_in(path, writable) for path in _accesses), _LONGEST_WAIT
        ):
            raise SandboxError(
                "The command was not run: the editor has been working on a file in a folder that the command may "
                f"write to for {_LONGEST_WAIT:.0f} seconds. Save or close the file there, then repeat the call."
            )
        _commands.append(writable)
    try:
        yield
    finally:
        with _changed:
            _commands.remove(writable)


@contextmanager
def editor_access(path: Path) -> Generator[bool]:
    """Let the editor access a path inside the `with` block.

    :param path: absolute and resolved.
    :returns: whether no running command could redirect the path. If so, no such command
        starts inside the block.
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
