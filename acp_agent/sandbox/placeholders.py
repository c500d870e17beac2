"""Creates placeholders for missing closed paths, so that these can be covered while a
command runs.

Removing a mount point also removes its mount. So placeholders stay while another agent
runs a command in the same place, and as long as any process, for example of a killed
command, still has them mounted. Placeholders that remain after a second are removed
after the next command.

A command of another session may replace any of these paths with a link. So each folder
is opened without following links, and its entries are created, changed and removed
through the folder's descriptor.

Agents with the same home coordinate through locks on files in that home. Anyone who can
open a file can lock it, so a lock on a folder of the project would let a command block
every agent that works there.

Source: flock(2)
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import stat
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from threading import Lock

from acp_agent.nofollow import change_mode, entries_in, folder_at
from acp_agent.sandbox.listing import changing
from acp_agent.sandbox.repositories import TEXTS, Closed

_ENDING_SECONDS = 1.0
_POLL_SECONDS = 0.01

_held: dict[Path, int] = {}
"""Maps each placeholder to the number of commands of this process that need it."""
_holding = Lock()


@contextmanager
def placeholders(
    all_closed: Sequence[Closed], locks: Path | None = None
) -> Generator[None]:
    """Create placeholders for missing closed paths and mount points, and remove them
    after the `with` block.

    :param locks: folder for the locks, which commands can neither read nor write;
        created if missing. If None, other agents do not learn about the placeholders.
    """
    made: list[Path] = []
    with ExitStack() as held:
        for closed in all_closed:
            held.enter_context(_locked(locks, closed.place, fcntl.LOCK_SH))
        try:
            for closed in all_closed:
                made.extend(_make_missing(closed))
            yield
        finally:
            with _holding:
                for path in made:
                    _held[path] -= 1
    end = time.monotonic() + _ENDING_SECONDS
    with ExitStack() as alone:
        places: list[Path] = []
        for place in dict.fromkeys(closed.place for closed in all_closed):
            with suppress(BlockingIOError):
                alone.enter_context(
                    _locked(locks, place, fcntl.LOCK_EX | fcntl.LOCK_NB)
                )
                places.append(place)
        while _remove_unused(places) and time.monotonic() < end:
            time.sleep(_POLL_SECONDS)


def _make_missing(closed: Closed) -> Iterator[Path]:
    """Create the closed paths that are missing.

    Yields and counts all placeholders, including any that a killed agent left behind.
    """
    with _holding:
        for make, paths in (
            (_make_folder, closed.folders),
            (_make_file, (*closed.files, *closed.points)),
        ):
            for path in paths:
                try:
                    if not os.path.lexists(path):
                        make(path)
                    elif path not in _held and not _is_left_at(path):
                        continue
                except (
                    OSError
                ):  # the folder is not writable, so no command can write there either
                    continue
                _held[path] = _held.get(path, 0) + 1
                yield path


def _make_folder(path: Path) -> None:
    with folder_at(path.parent) as folder, changing(folder):
        os.mkdir(path.name, dir_fd=folder)
        change_mode(path.name, _marked, folder)


def _make_file(path: Path) -> None:
    # Git also creates `objects/info`, and never removes it.
    with (
        folder_at(path.parent, make=path.parent.parent.is_dir()) as folder,
        changing(folder),
    ):
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(path.name, flags, 0o666, dir_fd=folder), "w") as file:
            file.write(TEXTS.get(path.name, ""))
        change_mode(path.name, _marked, folder)


def _marked(mode: int) -> int:
    return mode | stat.S_ISVTX


def _unmarked(mode: int) -> int:
    return mode & ~stat.S_ISVTX


def _is_left_at(path: Path) -> bool:
    with folder_at(path.parent) as folder:
        return _is_left(path.name, folder)


def _is_left(name: str, folder: int) -> bool:
    """Return whether an entry of an open folder is a placeholder. No other empty file
    or folder has the sticky bit.
    """
    found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    return bool(found.st_mode & stat.S_ISVTX) and _is_empty(name, folder)


def _is_empty(name: str, folder: int) -> bool:
    """Return whether an entry of an open folder contains nothing but placeholders, or
    only a placeholder's text.

    :raises OSError: if the entry cannot be read; with `errno.ELOOP` if it is a link.
    """
    mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
    if not (stat.S_ISDIR(mode) or stat.S_ISREG(mode)):
        return False
    descriptor = os.open(
        name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder
    )
    try:
        found = os.fstat(descriptor)
        text = TEXTS.get(name, "").encode()
        if stat.S_ISDIR(found.st_mode):
            return all(
                _is_left(entry.name, descriptor) for entry in entries_in(descriptor)
            )
        return (
            stat.S_ISREG(found.st_mode)
            and found.st_size == len(text)
            and os.read(descriptor, len(text) + 1) == text
        )
    finally:
        os.close(descriptor)


@contextmanager
def _locked(locks: Path | None, place: Path, how: int) -> Generator[None]:
    """Hold the lock for a folder inside the `with` block. The lock is released when the
    process exits at the latest.

    :param locks: folder for the locks. If None, no lock is held.
    :param how: the operation for `fcntl.flock`. The holder of an exclusive lock is the
        last one, so the file is removed afterwards.
    :raises BlockingIOError: if another process holds the lock and `how` does not wait.
    """
    if locks is None:
        yield
        return
    locks.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = locks / hashlib.sha256(os.fsencode(place)).hexdigest()
    file = _open_locked(path, how)
    try:
        yield
    finally:
        if how & fcntl.LOCK_EX:
            path.unlink(missing_ok=True)
        os.close(file)


def _open_locked(path: Path, how: int) -> int:
    """Return the descriptor of a locked file, creating the file if it is missing."""
    while True:
        file = os.open(
            path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600
        )
        try:
            fcntl.flock(file, how)
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(file), path.stat()):
                    return file
        except BaseException:
            os.close(file)
            raise
        os.close(file)  # its last holder has removed the file in the meantime


def _remove_unused(places: Sequence[Path]) -> bool:
    """Remove the placeholders in the given places that no command needs.

    :returns: whether some placeholders are still covered in a process that is exiting.
    """
    with _holding:
        within = tuple(f"{place}/" for place in places)
        unused = [
            path
            for path, count in _held.items()
            if not count and str(path).startswith(within)
        ]
        mounts = other_mounts() if unused else ""
        if mounts is None:
            return True
        for path in reversed(unused):
            if f" {_escaped(path)} " not in mounts:
                del _held[path]
                # The placeholder is already gone, or something else is in its place.
                with suppress(OSError):
                    _remove(path)
    return any(path in _held for path in unused)


def _remove(path: Path) -> None:
    """Remove a placeholder, or only its mark if something else uses the path now."""
    with folder_at(path.parent) as folder, changing(folder):
        if not _is_empty(path.name, folder):
            change_mode(path.name, _unmarked, folder)
        elif stat.S_ISDIR(
            os.stat(path.name, dir_fd=folder, follow_symlinks=False).st_mode
        ):
            os.rmdir(path.name, dir_fd=folder)
        else:
            os.unlink(path.name, dir_fd=folder)


def other_mounts() -> str | None:
    """Return the mounts of all mount namespaces except the agent's.

    :returns: None while a process is exiting, since it no longer lists its mounts but
        may still write.
    """
    own = os.readlink("/proc/self/ns/mnt")  # noqa: PTH115 - as below: there are hundreds of processes
    found: list[str] = []
    for name in os.listdir("/proc"):  # noqa: PTH208
        if not name.isdecimal():
            continue
        try:
            with suppress(PermissionError):
                if os.readlink(f"/proc/{name}/ns/mnt") == own:  # noqa: PTH115
                    continue
            found.append(
                Path("/proc", name, "mountinfo").read_text(errors="surrogateescape")
            )
        except OSError:
            with suppress(OSError):  # the process is already gone
                if (
                    Path("/proc", name, "stat")
                    .read_text(errors="replace")
                    .rpartition(")")[2]
                    .split()[0]
                    not in "ZX"
                ):
                    return None
    return "\n".join(found)


def is_mounted_elsewhere(path: Path) -> bool:
    """Return whether a running process has its own mount at a path, as commands do."""
    mounts = other_mounts()
    return mounts is None or f" {_escaped(path)} " in mounts


def _escaped(path: Path) -> str:
    """Return a path in the format of proc_pid_mountinfo(5)."""
    return re.sub(r"[ \t\n\\]", lambda found: f"\\{ord(found[0]):03o}", str(path))
