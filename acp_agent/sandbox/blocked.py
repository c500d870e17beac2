"""Renames guarded paths that a command creates, both while the command runs and after
it has ended.

Mounts protect existing paths, and placeholders protect missing ones. But each
placeholder takes half a millisecond, and the user's editor shows it. That is too much
for the 150 paths that some program might obey one day. So a thread checks these paths
ten times a second, and renames each one that appears. No program obeys the new name.
Nothing is lost, and the user can rename the path back.

Files that git checks out from the user's own commits stay (see `tips`), and so do files
that the agent's tools have written (see `written`). Files that the command puts next to
them are moved to a folder with the new name.

If another program creates a guarded path in the meantime, such as the user's editor,
that path is renamed too.

Source: rename(2); open(2), `O_NOFOLLOW`
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from threading import Event, Thread
from typing import Literal, TypeAlias

from acp_agent.frozen import frozen
from acp_agent.sandbox.aside import (
    MOST_BYTES,
    MOST_ENTRIES,
    Part,
    content_of,
    exists,
    files_in,
    free_name,
    line,
    move_below,
    parent_of,
    rename,
    set_aside,
    times,
)
from acp_agent.sandbox.guarded_paths import guarded_paths, pattern_paths
from acp_agent.sandbox.guarded_patterns import PatternPaths
from acp_agent.sandbox.listing import changing, open_up, parents_of, restoring
from acp_agent.sandbox.tracked import Content, Tracked, blob_of
from acp_agent.sandbox.written import has_written, is_written, judging

_POLL_SECONDS = 0.1
_MOST_READ = 32 * 1024 * 1024
"""Maximum bytes that one check reads of one guarded path. A larger path counts as the
command's.
"""
_MOST_READ_FIRST = 256 * 1024
"""Maximum bytes to read of a path before all other paths have been checked."""
_MOST_MATCHING = 100
"""Maximum number of new paths matching patterns that are compared with the user's
commits. Each comparison takes a git process.
"""
_Version: TypeAlias = tuple[int, int, int]
_Verdict: TypeAlias = Literal["strange", "tracked", "written"]


class _TooMuchError(Exception):
    """More of a guarded path would have to be read than is allowed."""


@frozen
class GuardedFolder:
    """Guarded paths below a folder that commands may write to. The folder is absolute
    and resolved.

    :ivar paths: the parts of each path, relative to the folder. Paths that match a
        pattern are included only if they exist.
    :ivar targets: for each path that exists, the target if it is a link; empty for
        anything else.
    """

    folder: Path
    paths: tuple[Part, ...]
    targets: Mapping[Part, str]


def places(
    roots: Iterable[Path], more: Iterable[Path] = ()
) -> tuple[GuardedFolder, ...]:
    """Return the guarded paths to watch in a session's directories, in their current
    state.

    :param more: further paths that other programs run. Paths outside the roots are
        ignored.
    """
    patterns = pattern_paths("closed")
    rows = [row.parts for row in guarded_paths("closed") if row.parts not in patterns]
    found: list[GuardedFolder] = []
    for root in roots:
        named = (
            path.relative_to(root).parts
            for path in more
            if path != root and path.is_relative_to(root)
        )
        listed = tuple(dict.fromkeys((*rows, *named)))
        for parent in _parents(root, (*listed, *patterns)):
            open_up(parent)
        matching = PatternPaths(root, "closed").look()
        paths = tuple(dict.fromkeys((*listed, *matching)))
        targets = {
            path: target
            for path in paths
            if (target := _target(root, path)) is not None
        }
        found.append(GuardedFolder(root, paths, targets))
    return tuple(found)


class Sweep:
    """Renames guarded paths that a command plants.

    :param everything: the places to watch, in their state before the command.
    :param own: the content of the user's own commits.
    :param blocked: a list to which a line is added for each renamed path.
    :param until: the time after which the command cannot have created anything, in
        nanoseconds since the epoch; None if the command has just ended or is still
        running.
    :ivar kept: the absolute paths that git checked out and that are not renamed.
    :ivar stuck: the absolute paths that could not be renamed, each with the reason.
    """

    def __init__(
        self,
        everything: Sequence[GuardedFolder],
        own: Sequence[Tracked],
        blocked: list[str],
        until: int | None = None,
    ) -> None:
        self.blocked = blocked
        self.kept: dict[Path, None] = {}
        self.stuck: dict[Path, str] = {}
        self._everything = everything
        self._parents = {
            each.folder: _parents(each.folder, (*each.paths, *pattern_paths("closed")))
            for each in everything
        }
        self._named = {each.folder: frozenset(each.paths) for each in everything}
        self._matching = {
            each.folder: PatternPaths(each.folder, "closed") for each in everything
        }
        self._compared: dict[tuple[Path, Part], int] = {}
        self._own = own
        self._until = until
        self._is_last = False
        self._awaited: set[Path] = set()
        self._judged: dict[str, tuple[_Version, _Verdict]] = {}
        self._left_to_read = 0
        self._touch: Callable[[], None] = lambda: None

    def run(
        self, *, is_last: bool = False, touch: Callable[[], None] = lambda: None
    ) -> None:
        """Check each path once. Paths that require much reading come last.

        :param is_last: whether this is the last check, after which nothing can change.
            If so, all contents are read again.
        :param touch: called before each path that exists, and before each file that is
            read.
        """
        self._touch = touch
        self._is_last = is_last
        if is_last:
            self._judged.clear()
            self.kept.clear()
            self.stuck.clear()
        large: list[tuple[GuardedFolder, Part]] = []
        for place in self._everything:
            with restoring((place.folder,)):
                for parent in self._parents[place.folder]:
                    open_up(parent)
            for path in self._paths(place):
                self._left_to_read = _MOST_READ_FIRST
                try:
                    self.blocked.extend(self._blocked(place, path, is_first=True))
                except _TooMuchError:
                    large.append((place, path))
        for place, path in large:
            self._left_to_read = _MOST_READ
            self.blocked.extend(self._blocked(place, path))

    def _paths(self, place: GuardedFolder) -> Iterator[Part]:
        """Yield the guarded paths to check, including all new paths that match a
        pattern.
        """
        yield from place.paths
        for path in self._matching[place.folder].look(anew=self._is_last):
            if path not in self._named[place.folder]:
                yield path

    def _is_compared(self, place: GuardedFolder, path: Part) -> bool:
        """Return whether to compare a path with the user's commits. If many paths match
        patterns, only the first of them are compared.
        """
        if path in self._named[place.folder]:
            return True
        key = (place.folder, path)
        return self._compared.setdefault(key, len(self._compared)) < _MOST_MATCHING

    def _blocked(
        self, place: GuardedFolder, path: Part, *, is_first: bool = False
    ) -> Iterator[str]:
        """Rename a path that has changed, and yield a line for each rename.

        A path that already existed and is not a link is a mount, which no command can
        change.

        :param is_first: whether to postpone a path of which more than
            `_MOST_READ_FIRST` would have to be read.
        :raises _TooMuchError: if the path is postponed.
        """
        target = place.targets.get(path)
        if target == "" or (
            target is None and not os.path.lexists(f"{place.folder}/{'/'.join(path)}")
        ):
            return
        self._touch()
        try:
            with judging, parent_of(place.folder, path) as (folder, name):
                if target is None:
                    yield from self._new(place, path, folder, name, is_first=is_first)
                else:
                    yield from self._turned(path, folder, name, target)
        except NotADirectoryError:
            yield from self._blocked_link(place, path)
        except OSError as error:  # usually, the path does not exist
            if self._is_last:
                self.note_stuck(place.folder.joinpath(*path), error)

    def note_stuck(self, whole: Path, error: OSError) -> None:
        """Record a path that could not be renamed, if it exists."""
        if os.path.lexists(whole):
            self.stuck[whole] = error.strerror or type(error).__name__

    def _turned(self, path: Part, folder: int, name: str, target: str) -> Iterator[str]:
        """Restore a link that existed before, and rename whatever is in its place."""
        if not exists(folder, name):
            if self._until is None:
                with changing(folder):
                    os.symlink(target, name, dir_fd=folder)
            return
        found = os.lstat(name, dir_fd=folder)
        is_same = (
            stat.S_ISLNK(found.st_mode) and os.readlink(name, dir_fd=folder) == target
        )
        if not is_same and (self._until is None or found.st_ctime_ns <= self._until):
            yield line(path, (*path[:-1], set_aside(folder, name)))
            with changing(folder):
                os.symlink(target, name, dir_fd=folder)

    def _new(
        self,
        place: GuardedFolder,
        path: Part,
        folder: int,
        name: str,
        *,
        is_first: bool,
    ) -> Iterator[str]:
        """Rename a new path, or only the parts of it that the command wrote."""
        whole = place.folder.joinpath(*path)
        entries = list(islice(files_in(folder, name), MOST_ENTRIES + 1))
        if self._until is not None and not any(
            time <= self._until for time in times(folder, name, entries)
        ):
            return
        verdicts: Mapping[Part, _Verdict] = {}
        is_compared = self._is_compared(place, path)
        try:
            if is_compared:
                verdicts = self._verdicts(folder, name, whole, entries)
        except _TooMuchError:
            if is_first:
                raise
        strange = [
            each for each in entries if verdicts.get(each, "strange") == "strange"
        ]
        is_unexplained = bool(strange or not entries)
        if is_compared and is_unexplained and self._may_be_half_written(whole):
            return
        if len(strange) == len(entries):
            yield line(path, (*path[:-1], set_aside(folder, name)))
            return
        if "tracked" in verdicts.values():
            self.kept[whole] = None
        new = free_name(folder, name)
        for each in strange:
            try:
                move_below(folder, name, new, each)
            except (
                PermissionError
            ):  # a command has removed the permissions of a parent folder
                yield line(path, (*path[:-1], set_aside(folder, name)))
                return
            yield line((*path, *each), (*path[:-1], new, *each))

    def _verdicts(
        self, folder: int, name: str, whole: Path, entries: Sequence[Part]
    ) -> Mapping[Part, _Verdict]:
        """Return a verdict for each entry of a guarded path, or an empty result if
        there are too many entries to examine.
        """
        if len(entries) > MOST_ENTRIES:
            return {}
        return {
            each: self._verdict(folder, (name, *each), whole, each) for each in entries
        }

    def _may_be_half_written(self, whole: Path) -> bool:
        """Return whether git may still be checking out a path. This is assumed only
        once for each path.
        """
        if (
            self._is_last
            or whole in self._awaited
            or not any(own.at(whole) for own in self._own)
        ):
            return False
        self._awaited.add(whole)
        return True

    def _verdict(self, folder: int, path: Part, whole: Path, below: Part) -> _Verdict:
        """Return the verdict on a file or link at this path: whether its content is the
        user's, and why.

        :param path: relative to the open folder. `below` is the same path relative to
            the guarded path `whole`.
        """
        try:
            with parent_of(folder, path) as (inside, last):
                found = os.lstat(last, dir_fd=inside)
                version = (found.st_ino, found.st_ctime_ns, found.st_size)
                label = whole.joinpath(*below)
                judged = self._judged.get(str(label))
                if judged is None or judged[0] != version:
                    judged = self._judged[str(label)] = (
                        version,
                        self._judge(inside, last, found, whole, below),
                    )
                return judged[1]
        except OSError:  # it has changed in the meantime
            return "strange"

    def _judge(
        self, inside: int, last: str, found: os.stat_result, whole: Path, below: Part
    ) -> _Verdict:
        label = whole.joinpath(*below)
        if not has_written(str(label)) and not any(
            own.content(whole, below) for own in self._own
        ):
            return "strange"  # regardless of its content
        if stat.S_ISREG(found.st_mode) and found.st_size <= MOST_BYTES:
            self._left_to_read -= found.st_size
            if self._left_to_read < 0:
                raise _TooMuchError
        self._touch()
        data = content_of(inside, last, found)
        if data is None:
            return "strange"
        if stat.S_ISREG(found.st_mode) and is_written(str(label), data):
            return "written"
        kind = (
            "link"
            if stat.S_ISLNK(found.st_mode)
            else "program"
            if found.st_mode & 0o111
            else "file"
        )
        for own in self._own:
            contents = own.content(whole, below)
            forms = {data, without_carriage_returns(data)} if kind != "link" else {data}
            if any(
                Content(kind, blob_of(form, own.algorithm)) in contents
                for form in forms
            ):
                is_own = kind != "link" or self._leads_to_own(
                    own, label, os.fsdecode(data)
                )
                return "tracked" if is_own else "strange"
        return "strange"

    def _leads_to_own(self, own: Tracked, link: Path, target: str) -> bool:
        """Return whether everything that a link leads to is content from the user's
        commits.
        """
        place = Path(os.path.normpath(link.parent / target))
        with suppress(OSError), parent_of(None, place.parts) as (folder, name):
            entries = list(islice(files_in(folder, name), MOST_ENTRIES + 1))
            if not entries or len(entries) > MOST_ENTRIES or not own.at(place):
                return False
            for each in entries:
                with parent_of(folder, (name, *each)) as (inside, last):
                    found = os.lstat(last, dir_fd=inside)
                    if (
                        stat.S_ISLNK(found.st_mode)
                        or self._judge(inside, last, found, place, each) == "strange"
                    ):
                        return False
            return True
        return False

    def _blocked_link(self, place: GuardedFolder, path: Part) -> Iterator[str]:
        """Rename a link in place of a parent folder if the guarded path exists through
        that link.
        """
        if not os.path.lexists(place.folder.joinpath(*path)):
            return
        for length in range(1, len(path)):
            link = place.folder.joinpath(*path[:length])
            if link.is_symlink():
                try:
                    yield from rename(place.folder, path[:length])
                except OSError as error:
                    self.note_stuck(link, error)
                return


@contextmanager
def sweeping(sweep: Sweep, touch: Callable[[], None] = lambda: None) -> Generator[None]:
    """Rename planted paths while the `with` block is running, and when it ends.

    :param touch: called before each check of the paths, and often during the check; see
        `Sweep.run`.
    """
    ended = Event()

    def poll() -> None:
        while not ended.wait(_POLL_SECONDS):
            touch()
            sweep.run(touch=touch)

    thread = Thread(target=poll, name="planted", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        sweep.run(is_last=True, touch=touch)


def _parents(folder: Path, paths: Iterable[Part]) -> tuple[Path, ...]:
    return parents_of(folder, (f"{folder}/{'/'.join(path)}" for path in paths))


def _target(root: Path, path: Part) -> str | None:
    """Return the target of a link, an empty string for anything else, and None if the
    path does not exist.
    """
    if not os.path.lexists(f"{root}/{'/'.join(path)}"):  # true for nearly all paths
        return None
    with suppress(OSError), parent_of(root, path) as (folder, name):
        found = os.lstat(name, dir_fd=folder)
        return os.readlink(name, dir_fd=folder) if stat.S_ISLNK(found.st_mode) else ""
    return None


def without_carriage_returns(data: bytes) -> bytes:
    """Return the repository's form of a text that git has checked out with Windows line
    endings.
    """
    return (
        data.replace(b"\r\n", b"\n")
        if data.count(b"\r\n") == data.count(b"\n")
        else data
    )
