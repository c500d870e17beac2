"""Guarded paths that a command makes: they are renamed while it runs, and when it has ended.

A mount protects what is there, and a placeholder what is missing, for half a millisecond each and in the sight of the
user's editor. There are a hundred names that a program might obey one day. So they are looked at ten times a second,
and one that appears gets another name, which nothing obeys: nothing is lost, and the user can rename it back.

Whoever else makes one of them meanwhile, such as the user's editor, has it renamed too.

Source: rename(2); open(2), `O_NOFOLLOW`; git-rebase(1), "INTERACTIVE MODE"; githooks(5)
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from threading import Event, Thread

from acp_agent.frozen import frozen
from acp_agent.regular import open_regular
from acp_agent.sandbox.guarded_paths import guarded_paths

SUFFIX = ".blocked"
_POLL_SECONDS = 0.1
_MOST_TODO = 1024 * 1024
_MOST_ENTRIES = 5_000
"""Entries of a git directory that are looked at."""
_EXEC = re.compile(rb"^[ \t]*(?:exec|x)[ \t]+(.+)$", re.MULTILINE)
_STRATEGIES = frozenset((b"", b"ort", b"recursive", b"resolve", b"octopus", b"ours", b"subtree"))


@frozen
class Place:
    """Guarded paths below a folder that commands may write; all of it absolute and resolved.

    :ivar paths: relative to the folder, by their parts.
    """

    folder: Path
    paths: tuple[tuple[str, ...], ...]


def places(roots: Iterable[Path], more: Iterable[Path] = ()) -> tuple[Place, ...]:
    """Return what is looked at in a session's directories.

    :param more: further paths that other programs run; those outside of the roots are left out.
    """
    rows = tuple(row.parts for row in guarded_paths("closed"))
    found: list[Place] = []
    for root in roots:
        named = (path.relative_to(root).parts for path in more if path != root and path.is_relative_to(root))
        found.append(Place(root, tuple(dict.fromkeys((*rows, *named)))))
    return tuple(found)


@contextmanager
def blocking(everything: Sequence[Place], repositories: Sequence[Path], blocked: list[str]) -> Generator[None]:
    """Rename what is planted inside the `with` block, and when it ends.

    :param repositories: git directories whose unfinished rebase may get new commands, and whose files may become links:
        git writes through a link in the place of `FETCH_HEAD` or of a log.
    :param blocked: is filled with a line for each path that was renamed.
    """
    before = [(place, {path: _target(place, path) for path in place.paths}) for place in everything]
    commands = {git: _commands(git) for git in repositories}
    links = {git: _links_in(git) for git in repositories}
    ended = Event()

    def sweep() -> None:
        for place, targets in before:
            for path, target in targets.items():
                blocked.extend(_blocked(place, path, target))

    def poll() -> None:
        while not ended.wait(_POLL_SECONDS):
            sweep()

    thread = Thread(target=poll, name="planted", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        sweep()
        for git, known in commands.items():
            if not _commands(git) <= known:
                blocked.extend(_blocked(Place(git, ()), ("rebase-merge",), None))
        for git, known in links.items():
            for path in sorted(_links_in(git) - known):
                blocked.extend(_blocked(Place(git, ()), path, None))


def _target(place: Place, path: tuple[str, ...]) -> str | None:
    """Return where a path leads if it is a link, empty if it is something else, and None if nothing is there."""
    if not os.path.lexists(f"{place.folder}/{'/'.join(path)}"):  # as for nearly all
        return None
    with suppress(OSError), _parent_of(place.folder, path) as (folder, name):
        found = os.lstat(name, dir_fd=folder)
        return os.readlink(name, dir_fd=folder) if stat.S_ISLNK(found.st_mode) else ""
    return None


def _blocked(place: Place, path: tuple[str, ...], target: str | None) -> Iterator[str]:
    """Rename a path that is not what it was, and yield what has become of it.

    :param target: see `_target`. A path that was there and is no link is a mount, which no command changes.
    """
    if target == "" or (target is None and not os.path.lexists(f"{place.folder}/{'/'.join(path)}")):
        return
    try:
        with _parent_of(place.folder, path) as (folder, name):
            if target is not None and not _exists(folder, name):
                os.symlink(target, name, dir_fd=folder)
                return
            found = os.lstat(name, dir_fd=folder)
            if stat.S_ISLNK(found.st_mode) and os.readlink(name, dir_fd=folder) == target:
                return
            new = next(each for each in _names(name) if not _exists(folder, each))
            os.rename(name, new, src_dir_fd=folder, dst_dir_fd=folder)
            if target is not None:
                os.symlink(target, name, dir_fd=folder)
    except NotADirectoryError:
        yield from _blocked_link(place, path)
        return
    except OSError:  # mostly, it is not there
        return
    shown = "/".join(path[:-1])
    yield f"{'/'.join(path)} → {f'{shown}/' if shown else ''}{new}"


def _blocked_link(place: Place, path: tuple[str, ...]) -> Iterator[str]:
    """Rename the link on the way to a guarded path by which something is there."""
    if not os.path.lexists(place.folder.joinpath(*path)):
        return
    for length in range(1, len(path)):
        if place.folder.joinpath(*path[:length]).is_symlink():
            yield from _blocked(place, path[:length], None)
            return


@contextmanager
def _parent_of(folder: Path, path: tuple[str, ...]) -> Generator[tuple[int, str]]:
    """Open the folder that a path is in without following links, and yield it with the path's last name.

    :raises OSError: it is not there, or `NotADirectoryError` for a link on the way.
    """
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for part in path[:-1]:
            inner = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=opened)
            os.close(opened)
            opened = inner
        yield opened, path[-1]
    finally:
        os.close(opened)


def _names(name: str) -> Iterator[str]:
    yield f"{name}{SUFFIX}"
    yield from (f"{name}{SUFFIX}-{number}" for number in count(2))


def _exists(folder: int, name: str) -> bool:
    try:
        os.lstat(name, dir_fd=folder)
    except OSError:
        return False
    return True


def _links_in(git: Path) -> set[tuple[str, ...]]:
    """Return the links at the top of a git directory and among its logs, by their parts."""
    found: set[tuple[str, ...]] = set()
    folders: list[tuple[Path, tuple[str, ...]]] = [(git, ())]
    seen = 0
    while folders and seen < _MOST_ENTRIES:
        folder, parts = folders.pop()
        with suppress(OSError), os.scandir(folder) as entries:
            for entry in entries:
                seen += 1
                if entry.is_symlink():
                    found.add((*parts, entry.name))
                elif (parts or entry.name == "logs") and entry.is_dir(follow_symlinks=False):
                    folders.append((Path(entry.path), (*parts, entry.name)))
    return found


def _commands(git: Path) -> set[bytes]:
    """Return what `git rebase --continue` would run in a repository, besides git itself."""
    rebase = git / "rebase-merge"
    commands = {found.strip() for found in _EXEC.findall(_content(rebase / "git-rebase-todo"))}
    with suppress(OSError):
        if (rebase / "git-rebase-todo").lstat().st_size > _MOST_TODO:
            commands.add(b"what is behind the part that is read")
    strategy = _content(rebase / "strategy").strip()  # git runs `git-merge-STRATEGY`
    return commands if strategy in _STRATEGIES else {*commands, b"strategy " + strategy}


def _content(file: Path) -> bytes:
    try:
        with open_regular(file) as opened:
            return opened.read(_MOST_TODO)
    except (OSError, ValueError):
        return b""
