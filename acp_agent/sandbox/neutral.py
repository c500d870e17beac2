"""Disables the programs in a repository that a command created, so that git does not
run them outside the sandbox.

Nothing is deleted: a setting becomes a comment, and hooks keep their contents in a
renamed folder.

Source: githooks(5)
"""

from __future__ import annotations

import os
import stat
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from acp_agent.sandbox.git_settings import RepositorySurroundings, harmless
from acp_agent.sandbox.listing import changing, open_up

_OFF = ".off"
_MOST_BYTES = 1024 * 1024
_SAMPLE = ".sample"


def neutralise(around: RepositorySurroundings) -> tuple[str, ...]:
    """Disable the programs in a git directory, and return texts that tell the user what
    was changed.

    A directory that commands can no longer write to is left alone.
    """
    done: list[str] = []
    open_up(around.git / "hooks")
    with suppress(OSError), _opened(around.git, around.writable) as folder:
        for name in ("config", "config.worktree"):
            with suppress(OSError):
                done += _close_config(around, folder, name)
        with suppress(OSError):
            done += _close_hooks(around.git, folder)
    return tuple(done)


def programs_of(around: RepositorySurroundings) -> Iterator[str]:
    """Yield what git would run in a git directory, as texts for the user. Nothing is
    changed.

    :raises OSError: the directory does not exist or cannot be read.
    """
    folder = os.open(around.git, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for name in ("config", "config.worktree"):
            yield from _programs_in(around, folder, name)
        with suppress(FileNotFoundError):
            if names := _hooks_in(folder, follow=True):
                yield f"hooks: {', '.join(sorted(names))}"
    finally:
        os.close(folder)


def _programs_in(
    around: RepositorySurroundings, folder: int, name: str
) -> Iterator[str]:
    try:
        file = os.open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except FileNotFoundError:
        return
    with os.fdopen(file, "rb") as opened:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode) or status.st_size > _MOST_BYTES:
            yield f"{name}, which is no ordinary file"
        else:
            yield from harmless(opened.read(_MOST_BYTES + 1), around)[1]


@contextmanager
def _opened(git: Path, writable: Sequence[Path]) -> Generator[int]:
    folder = os.open(git, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        described = Path(f"/proc/self/fd/{folder}")
        real = described.readlink() if described.exists() else git
        if any(real.is_relative_to(each) for each in writable):
            with changing(folder):
                yield folder
        else:
            raise NotADirectoryError(str(real))
    finally:
        os.close(folder)


def _close_config(
    around: RepositorySurroundings, folder: int, name: str
) -> Iterator[str]:
    git = around.git
    try:
        file = os.open(
            name,
            os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC,
            dir_fd=folder,
        )
    except FileNotFoundError:
        return
    except OSError:  # a link, which git would follow
        yield f"{git / name} was a link and is now called {_set_aside(folder, name)}"
        return
    with os.fdopen(file, "rb") as opened:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode) or status.st_size > _MOST_BYTES:
            yield f"{git / name} is not a regular file and is now called {_set_aside(folder, name)}"
            return
        text, taken = harmless(opened.read(_MOST_BYTES + 1), around)
    if not taken:
        return
    temporary = f".{name}.{os.urandom(8).hex()}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(
        os.open(temporary, flags, stat.S_IMODE(status.st_mode) | 0o600, dir_fd=folder),
        "wb",
    ) as made:
        made.write(text)
    os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    yield f"these lines of {git / name} are now comments: {', '.join(taken)}"


def _close_hooks(git: Path, folder: int) -> Iterator[str]:
    try:
        names = _hooks_in(folder)
    except FileNotFoundError:
        return
    except OSError:  # a link, which git would follow
        yield f"{git / 'hooks'} was a link and is now called {_set_aside(folder, 'hooks')}"
        return
    if names:
        yield f"{git / 'hooks'} is now called {_set_aside(folder, 'hooks')}, since it has {', '.join(sorted(names))}"


def _hooks_in(folder: int, *, follow: bool = False) -> list[str]:
    """Return the names of the hooks in an open git directory.

    :param follow: whether `hooks` may be a link.
    :raises OSError: there is no such folder.
    """
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
    hooks = os.open("hooks", flags | (0 if follow else os.O_NOFOLLOW), dir_fd=folder)
    try:
        return [
            name
            for name in os.listdir(hooks)  # noqa: PTH208 - a descriptor
            if not name.endswith(_SAMPLE) and _may_run(name, hooks)
        ]
    finally:
        os.close(hooks)


def _may_run(name: str, folder: int) -> bool:
    found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    return stat.S_ISLNK(found.st_mode) or bool(
        found.st_mode & 0o111 and stat.S_ISREG(found.st_mode)
    )


def _set_aside(folder: int, name: str) -> str:
    new = name + _OFF
    while True:
        try:
            os.stat(new, dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            os.rename(name, new, src_dir_fd=folder, dst_dir_fd=folder)
            return new
        new = f"{name}.{os.urandom(4).hex()}{_OFF}"
