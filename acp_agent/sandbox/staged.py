"""Removes guarded paths from git's index if a command staged them and they are in
neither a commit nor the work tree.

A command may write to the index. Anything it stages becomes part of the user's next
commit, even if there is no such file. So after a command, each index that has changed
is compared with the index from before, with the user's own commits, and with the work
tree, where commands cannot create or change guarded paths. Any other content is the
command's. It is reset to what was staged before, or removed. `git add`, `switch`,
`merge`, `rebase` and `stash` work as usual with the user's content.

Content that the command has also committed stays staged. Otherwise the user's next
commit would undo that commit. Such content is recorded as the command's, so that it
does not count as the user's because of a later commit on top.

Paths with a conflict stay too, since git commits nothing until the user has resolved
the conflict.
"""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path

from acp_agent.frozen import frozen
from acp_agent.sandbox.aside import content_of, parent_of
from acp_agent.sandbox.blocked import GuardedFolder, without_carriage_returns
from acp_agent.sandbox.guarded_paths import (
    guarded_paths,
    matches_pattern,
    pattern_paths,
)
from acp_agent.sandbox.index_file import (
    IndexEntry,
    IndexFile,
    algorithm_of,
    entry_in,
    lines_of,
    read_index,
    replace_entries,
    version_of,
)
from acp_agent.sandbox.listing import open_up
from acp_agent.sandbox.references import references_of
from acp_agent.sandbox.repositories import Repository
from acp_agent.sandbox.tips import Tips, TipStore
from acp_agent.sandbox.tracked import Content, Part, Tracked, blob_of, label_of

KINDS = {"100644": "file", "100664": "file", "100755": "program", "120000": "link"}
MODE_OF = {"file": "100644", "program": "100755", "link": "120000"}
_MOST_HELD = 64 * 1024 * 1024
"""Maximum total bytes of the indexes that are kept in memory while a command runs."""
_COARSE_NS = 20_000_000
_pending: set[Path] = set()
"""Git directories whose index could not be repaired. The next command tries again."""


@frozen
class Guarded:
    """The guarded paths of one work tree.

    :ivar work_tree: absolute.
    :ivar bases: the folders in which guarded paths count, relative to the work tree.
    :ivar more: further guarded paths, relative to the work tree.
    """

    work_tree: Path
    bases: tuple[Part, ...]
    more: tuple[Part, ...] = ()

    @classmethod
    def of(cls, work_tree: Path, places: Iterable[GuardedFolder]) -> Guarded:
        """Return the guarded paths of a work tree and of the session's directories in
        it, including the targets of links.
        """
        bases: dict[Part, None] = {(): None}
        more: list[Path] = []
        for place in places:
            if place.folder.is_relative_to(work_tree):
                bases[place.folder.relative_to(work_tree).parts] = None
                links = (
                    place.folder.joinpath(*path)
                    for path, target in place.targets.items()
                    if target
                )
                more += (Path(os.path.realpath(link)) for link in links)
                more += (
                    place.folder.joinpath(*path)
                    for path in place.paths
                    if path not in _rows()
                    and not any(matches_pattern(path, row) for row in _patterns())
                )
        inside = (
            each.relative_to(work_tree).parts
            for each in more
            if each.is_relative_to(work_tree)
        )
        return cls(work_tree, tuple(bases), tuple(path for path in inside if path))

    def length(self, path: Part, *, is_link: bool) -> int | None:
        """Return how many parts of a path name the guarded path that contains it; None
        if none does.

        A link in place of a parent folder of a guarded path counts as guarded.
        """
        for base in self.bases:
            below = tuple(part.lower() for part in path[len(base) :])
            if path[: len(base)] != base or not below:
                continue
            for row in _patterns():
                if matches_pattern(path[len(base) : len(base) + len(row)], row):
                    return len(base) + len(row)
                if is_link and row[: len(below)] == below:
                    return len(path)
            for row in _rows_by_name().get(below[0], ()):
                if below[: len(row)] == row and self._counts(
                    path[: len(base) + len(row)], row
                ):
                    return len(base) + len(row)
                if is_link and row[: len(below)] == below:
                    return len(path)
        return next(
            (len(each) for each in self.more if path[: len(each)] == each), None
        )

    def _counts(self, whole: Part, row: Part) -> bool:
        """Return whether commands may not write to a path. Some paths are protected
        only if they exist.
        """
        return row not in _kept_rows() or os.path.lexists(
            self.work_tree.joinpath(*whole)
        )

    def may_be_in(self, index: IndexFile) -> bool:
        """Return whether an index may contain a guarded path. Only searches the index's
        bytes.
        """
        return (
            bool(self.more)
            or not index.is_plain
            or _names().search(index.files["index"]) is not None
        )

    def lines_in(self, lines: bytes) -> Iterator[IndexEntry]:
        """Yield the entries that may be guarded, from the output of `git ls-files`."""
        names = _names() if not self.more else re.compile(b"")
        for line in lines.split(b"\0"):
            if line and names.search(line):
                yield entry_in(line)


@cache
def _rows() -> frozenset[Part]:
    return frozenset(
        row.parts for row in guarded_paths("covered", "private", "closed", "kept")
    )


@cache
def _kept_rows() -> frozenset[Part]:
    return frozenset(
        tuple(part.lower() for part in row.parts) for row in guarded_paths("kept")
    )


@cache
def _rows_by_name() -> Mapping[str, Sequence[Part]]:
    found: dict[str, list[Part]] = {}
    for row in _rows():
        lower = tuple(part.lower() for part in row)
        found.setdefault(lower[0], []).append(lower)
    return found


def _patterns() -> tuple[Part, ...]:
    return pattern_paths("covered", "closed", "kept")


@cache
def _names() -> re.Pattern[bytes]:
    """Return a pattern that matches some part of every guarded path."""
    escaped: list[bytes] = []
    for name in sorted(_rows_by_name()):
        inner = re.escape(os.fsencode(name.strip("*")))
        escaped.append(inner.replace(rb"\*", rb"[^/\x00]*"))
    return re.compile(b"|".join(escaped), re.IGNORECASE)


def indexes_before(directories: Iterable[Path]) -> dict[Path, IndexFile]:
    """Return the index of each git directory. Indexes that are unreadable or too large
    are returned without content.
    """
    found: dict[Path, IndexFile] = {}
    held = 0
    for git in directories:
        found[git] = IndexFile(git, version_of(git), {})
        if found[git].version and held < _MOST_HELD:
            with suppress(OSError, ValueError):
                found[git] = read_index(git)
                held += sum(map(len, found[git].files.values()))
    return found


def restore_indexes(
    repositories: Iterable[tuple[Repository, Tips]],
    before: Mapping[Path, IndexFile],
    places: Sequence[GuardedFolder],
    since: int,
    store: TipStore,
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Restore guarded paths in each index that a command has changed.

    :param repositories: each work tree of each repository, with the user's commits from
        before the command.
    :param before: the indexes from before the command, keyed by git directory.
    :param since: when the command started, in nanoseconds since the epoch.
    :param store: records what the command committed.
    :returns: texts for the user about each path, and about each index that could not be
        checked or restored.
    """
    restored: list[str] = []
    failed: list[str] = []
    for repository, tips in repositories:
        git = repository.folder
        version = version_of(git)
        earlier = before.get(git)
        if earlier is None:
            is_changed = any(
                changed >= since - _COARSE_NS for _, _, changed, _ in version
            )
        else:
            is_changed = version != earlier.version
        if not version or not (is_changed or git in _pending):
            continue
        try:
            restored += _restored(
                replace(tips, repository=repository), earlier, places, store
            )
            _pending.discard(git)
        except (OSError, ValueError) as error:
            _pending.add(git)
            failed.append(f"{git / 'index'} ({error})")
    return tuple(restored), tuple(failed)


def is_in_work_tree(repository: Repository, label: str) -> bool:
    """Return whether the content is in the work tree.

    :param label: see `tracked.label_of`.
    """
    kind, blob, name = label.split(":")
    path = Path(os.fsdecode(bytes.fromhex(name))).parts
    return Content(kind, blob) in _contents_of(repository, path)


def _restored(
    tips: Tips,
    before: IndexFile | None,
    places: Sequence[GuardedFolder],
    store: TipStore,
) -> Iterator[str]:
    repository = tips.repository
    _make_readable(repository.folder)
    open_up(repository.common / "objects")
    index = read_index(repository.folder)
    judge = _Judge(tips, places)
    strange = [each for each in judge.entries_in(index) if judge.is_strange(each)]
    if not strange:
        return
    earlier: dict[bytes, IndexEntry] = {}
    if before is not None and before.files:
        with suppress(ValueError):  # git could not read the old index either
            for each in judge.entries_in(before):
                if each.stage == 0 and judge.label(each) not in tips.strange:
                    earlier[each.path] = each
    strange = [each for each in strange if earlier.get(each.path) != each]
    changes: dict[bytes, IndexEntry | None] = {}
    blamed = {judge.label(each) for each in strange}
    for each in strange:
        committed = judge.committed(each)
        if each.stage or committed == each:
            continue
        was = earlier.get(each.path)
        changes[each.path] = (
            was if was is not None and not judge.is_own(was) else committed
        )
        if committed is not None and judge.is_strange(committed):
            blamed.add(judge.label(committed))
    with suppress(OSError):  # the entry is removed anyway
        store.blame(repository.common, blamed - tips.strange)
    if changes:
        replace_entries(index, repository.common, changes)
    for each in strange:
        if each.path in changes:
            yield f"{repository.work_tree / os.fsdecode(each.path)} (`git cat-file -p {each.blob}`)"


class _Judge:
    """Decides whether entries of one index are the user's.

    :param tips: the user's commits in the repository of the work tree.
    """

    def __init__(self, tips: Tips, places: Sequence[GuardedFolder]) -> None:
        self._repository = tips.repository
        self._strange = tips.strange
        self._guarded = Guarded.of(tips.repository.work_tree, places)
        self._own = Tracked(tips)
        head = references_of(tips.repository).head
        self._head = Tracked(Tips(tips.repository, {} if head is None else {head: ""}))

    def entries_in(self, index: IndexFile) -> list[IndexEntry]:
        """Return the entries of an index that are guarded paths, except for those that
        are repositories.
        """
        if not index.files["index"] or not self._guarded.may_be_in(index):
            return []
        found = self._guarded.lines_in(lines_of(index, self._repository.common))
        return [
            each
            for each in found
            if each.mode in KINDS and self._place(each) is not None
        ]

    def is_own(self, entry: IndexEntry) -> bool:
        """Return whether an entry is in one of the user's commits."""
        return self._content(entry) in self._own.content(*self._split(entry))

    def is_strange(self, entry: IndexEntry) -> bool:
        """Return whether an entry is neither in one of the user's commits nor in the
        work tree.
        """
        if self.is_own(entry):
            return False
        there = _contents_of(self._repository, _parts(entry))
        # Created by `git add --intent-to-add`.
        is_announced = entry.blob == blob_of(b"", _algorithm(entry))
        return self._content(entry) not in there and not (is_announced and there)

    def committed(self, entry: IndexEntry) -> IndexEntry | None:
        """Return the entry with the same path in the checked-out commit; None if there
        is none.
        """
        for content in self._head.content(*self._split(entry)):
            return IndexEntry(entry.path, MODE_OF[content.kind], content.blob)
        return None

    def label(self, entry: IndexEntry) -> str:
        """See `tracked.label_of`."""
        return label_of(self._content(entry), Path(*_parts(entry)))

    def _content(self, entry: IndexEntry) -> Content:
        return Content(KINDS[entry.mode], entry.blob)

    def _place(self, entry: IndexEntry) -> int | None:
        return self._guarded.length(
            _parts(entry), is_link=entry.mode == MODE_OF["link"]
        )

    def _split(self, entry: IndexEntry) -> tuple[Path, Part]:
        """Return the guarded path that contains an entry, and the parts of the entry's
        path below it.
        """
        path = _parts(entry)
        length = self._place(entry) or len(path)
        return self._repository.work_tree.joinpath(*path[:length]), path[length:]


def _contents_of(repository: Repository, path: Part) -> frozenset[Content]:
    """Return the content of the work tree at a path, in each form in which git may
    store it; empty if there is nothing.

    :param path: relative to the work tree.
    """
    # The location of the work tree is unknown.
    if repository.work_tree == repository.folder or not path:
        return frozenset()
    with suppress(OSError), parent_of(repository.work_tree, path) as (folder, name):
        found = os.lstat(name, dir_fd=folder)
        data = content_of(folder, name, found)
        if data is not None:
            kind = (
                "link"
                if stat.S_ISLNK(found.st_mode)
                else "program"
                if found.st_mode & 0o111
                else "file"
            )
            forms = {data} if kind == "link" else {data, without_carriage_returns(data)}
            algorithm = algorithm_of(repository.common)
            return frozenset(Content(kind, blob_of(form, algorithm)) for form in forms)
    return frozenset()


def _parts(entry: IndexEntry) -> Part:
    return tuple(os.fsdecode(entry.path).split("/"))


def _algorithm(entry: IndexEntry) -> str:
    return "sha256" if len(entry.blob) == 64 else "sha1"


def _make_readable(git: Path) -> None:
    """Let the owner read an index again, if a command has removed that permission."""
    if sys.platform == "darwin":  # has no `O_PATH`
        return
    with suppress(OSError):
        file = os.open(git / "index", os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            status = os.fstat(file)
            if stat.S_ISREG(status.st_mode) and not status.st_mode & stat.S_IRUSR:
                mode = stat.S_IMODE(status.st_mode) | stat.S_IRUSR
                os.chmod(f"/proc/self/fd/{file}", mode)  # noqa: PTH101
        finally:
            os.close(file)
