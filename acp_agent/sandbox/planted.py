"""Finds files and folders that a command created and that other programs act on
automatically, and makes them harmless.
"""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import (
    Collection,
    Generator,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import contextmanager, suppress
from dataclasses import field
from functools import partial
from pathlib import Path
from typing import Protocol

from acp_agent.frozen import frozen
from acp_agent.sandbox.aside import rename
from acp_agent.sandbox.blocked import GuardedFolder, Sweep, places
from acp_agent.sandbox.changes import (
    COARSE_NS,
    SETTINGS,
    changed,
    changed_by,
    earliest,
    latest,
    oldest,
    pointed_at,
    set_in,
)
from acp_agent.sandbox.further import Further, further_below
from acp_agent.sandbox.git_settings import RepositorySurroundings
from acp_agent.sandbox.index_file import IndexFile
from acp_agent.sandbox.listing import is_empty, restoring
from acp_agent.sandbox.nested import (
    Below,
    common_directory,
    every_git_directory,
    marks_below,
    repositories_in,
)
from acp_agent.sandbox.neutral import neutralise
from acp_agent.sandbox.obeyed import State, links_in, state_of
from acp_agent.sandbox.pointers import (
    PointerSurroundings,
    block_link,
    block_pointer,
    pointer_of,
)
from acp_agent.sandbox.policy import Policy
from acp_agent.sandbox.references import references_of
from acp_agent.sandbox.relative_programs import block_programs
from acp_agent.sandbox.repositories import Repository, repository_of
from acp_agent.sandbox.roots import line_of
from acp_agent.sandbox.staged import indexes_before, is_in_work_tree, restore_indexes
from acp_agent.sandbox.tips import Tips, TipStore
from acp_agent.sandbox.tracked import Tracked
from acp_agent.sandbox.walk import MARKS

_ANEW = ("", "config")
_NOTHING_FURTHER = Further({}, {}, is_whole=True)


@frozen
class Planted:
    """A repository, settings folder or gitlink that a command created.

    :ivar place: the folder that contains it or, for a gitlink, the folder that the
        gitlink names; absolute.
    :ivar mark: the path that was created there: a `.git`, a bare repository,
        `.acp-agent` or `.claude`; None for a gitlink.
    :ivar done: what was done about it, as texts for the user; empty if nothing needed
        to be done.
    """

    place: Path
    mark: Path | None
    done: tuple[str, ...] = ()


@frozen
class Findings:
    """The results of the search after a command.

    :ivar planted: repositories, settings folders and gitlinks.
    :ivar blocked: a line for each path that was renamed, `OLD → NEW`, relative to the
        folder it is in.
    :ivar kept: guarded paths that git has checked out from the user's own commits,
        absolute.
    :ivar replaced: for each object that git now replaces with another one, a command
        with which the user can undo that.
    :ivar unstaged: a text for each guarded path that the command had staged and that
        was removed from the index again.
    :ivar unchecked: a text for each index that could not be checked or restored.
    :ivar stuck: a text for each path that could not be renamed: the path, and why.
    """

    planted: tuple[Planted, ...] = ()
    blocked: tuple[str, ...] = ()
    kept: tuple[Path, ...] = ()
    unstaged: tuple[str, ...] = ()
    unchecked: tuple[str, ...] = ()
    replaced: tuple[str, ...] = ()
    stuck: tuple[str, ...] = ()


class Keeper(Protocol):
    """Records what commands create."""

    def is_made(self, path: Path) -> bool:
        """Return whether a command created this file or folder."""
        ...

    def keep(self, found: Findings) -> None:
        """Record what a command created, and tell the user."""
        ...

    def refuse_sockets(self, lost: Sequence[str]) -> None:
        """Tell the user that a command cannot use sockets with a path.

        :param lost: the names of sockets whose files could not be found.
        """
        ...


@frozen
class Before:
    """The state of the roots when a command started.

    :ivar marks: the marks, each with its inode.
    :ivar links: the gitlinks.
    :ivar is_whole: whether the walk was complete.
    :ivar at: the time of the walk, in nanoseconds since the epoch.
    :ivar further: the marks in package folders and behind links.
    """

    marks: Mapping[Path, int]
    links: frozenset[Path]
    is_whole: bool
    at: int
    further: Further = _NOTHING_FURTHER

    @property
    def all_marks(self) -> Mapping[Path, int]:
        """Return all marks."""
        return {**self.further.marks, **self.marks}


@frozen
class Watched:
    """The information needed to find out later what a command created. It is also
    written to disk; see `unfinished`.

    :ivar roots: the session's directories.
    :ivar writable: all folders that the command may write to.
    :ivar before: what the roots contained before the command.
    :ivar protected: the marks whose repositories the command could not change.
    :ivar places: the guarded paths.
    :ivar states: what git would have run in each git directory before the command.
    :ivar tips: the user's commits in the repositories of the roots.
    :ivar nested: the user's commits in all other repositories that the command may
        write to.
    :ivar network: whether the command had network access.
    :ivar indexes: the index of each git directory. The indexes are not written to disk.
    :ivar ends_with_agent: whether the command ends when the agent is killed. In an
        editor's terminal it may continue.
    """

    roots: tuple[Path, ...]
    writable: tuple[Path, ...]
    before: Before
    protected: frozenset[Path]
    places: tuple[GuardedFolder, ...]
    states: Mapping[Path, State]
    tips: tuple[Tips, ...]
    nested: tuple[Tips, ...]
    network: bool
    ends_with_agent: bool = True
    indexes: Mapping[Path, IndexFile] = field(
        default_factory=dict[Path, IndexFile], compare=False
    )


def look(roots: Sequence[Path], writable: Sequence[Path] = ()) -> Before:
    """Return the current state of some folders. Reads the disk.

    :param writable: further folders that commands may write to.
    """
    marks: dict[Path, int] = {}
    links: set[Path] = set()
    at = time.time_ns()
    is_whole = True
    found: dict[Path, Below] = {}
    for root in roots:
        try:
            below = found[root] = marks_below(root)
            marks.update(below.marks)
            is_whole &= below.is_whole
            links |= below.links
        except OSError:  # the other roots are examined anyway
            is_whole = False
    further = further_below(roots, found, (*roots, *writable))
    return Before(marks, frozenset(links), is_whole, at, further)


def watched(
    before: Before, policy: Policy, tips: TipStore, *, ends_with_agent: bool = True
) -> Watched:
    """Return what must be recorded before a command with this policy starts. Reads the
    disk.

    :param ends_with_agent: see `Watched`.
    """
    found = (repository_of(root) for root in policy.roots)
    repositories = [
        *dict.fromkeys(repository for repository in found if repository is not None)
    ]
    directories = every_git_directory(policy.roots, policy.repositories, before.marks)
    nested = _others_of(directories, repositories)
    further = every_git_directory((), (), before.further.marks)
    tips_of_all = tips.all_of_user([*repositories, *nested])
    of_roots = (
        tips.acquit(each, partial(is_in_work_tree, each.repository))
        for each in tips_of_all[: len(repositories)]
    )
    return Watched(
        policy.roots,
        (*policy.open, *policy.write),
        before,
        frozenset((*policy.nested, *(root / ".git" for root in policy.roots))),
        places(policy.roots, policy.run_elsewhere),
        {git: state for git in (*directories, *further) if (state := state_of(git))},
        tuple(of_roots),
        tips_of_all[len(repositories) :],
        policy.network,
        ends_with_agent,
        indexes_before(
            dict.fromkeys((*directories, *(each.folder for each in repositories)))
        ),
    )


def _others_of(
    directories: Iterable[Path], repositories: Iterable[Repository]
) -> list[Repository]:
    """Return the repositories of some git directories, except those that contain a work
    tree of `repositories`.
    """
    known = {each.common for each in repositories}
    commons = dict.fromkeys(map(common_directory, directories))
    return [Repository(each, each, each) for each in commons if each not in known]


def sweep_of(
    seen: Watched, blocked: list[str] | None = None, until: int | None = None
) -> Sweep:
    """Return the `Sweep` that renames the guarded paths that a command creates.

    :param blocked: see `Sweep`, also for `until`.
    """
    return Sweep(
        seen.places,
        [Tracked(tips) for tips in seen.tips],
        [] if blocked is None else blocked,
        until,
    )


@contextmanager
def watching(
    seen: Watched, sweep: Sweep, keeper: Keeper | None, tips: TipStore
) -> Generator[None]:
    """When the `with` block ends, find what a command created during the block, and
    make it harmless.

    :param sweep: must have ended when the block ends. It gets a line for each path that
        is renamed afterwards.
    """
    try:
        yield
    finally:
        settle(seen, sweep, keeper, tips)


def settle(
    seen: Watched,
    sweep: Sweep,
    keeper: Keeper | None,
    tips: TipStore,
    until: int | None = None,
) -> None:
    """Make everything that a finished command created harmless, and tell the user.

    :param sweep: see `watching`.
    :param until: the time after which the command cannot have created anything; see
        `Sweep`.
    """
    with restoring(_tops(seen)):
        after = look(seen.roots, seen.writable)
        planted: tuple[Planted, ...] = ()
        if keeper is not None:
            planted = tuple(_planted(seen, after, sweep, keeper, until))
        sweep.blocked += _unfinished(seen, after, sweep, until)
        unstaged, unchecked = restore_indexes(
            _work_trees(seen, after), seen.indexes, seen.places, seen.before.at, tips
        )
        replaced = tuple(_replaced(seen))
        marks = (each.mark for each in planted if each.mark is not None)
        made = [
            mark
            for mark in marks
            if seen.before.all_marks.get(mark) != after.all_marks.get(mark)
        ]
        for each in (*seen.tips, *seen.nested, *_of_made(seen, made)):
            with suppress(OSError):
                tips.after_command(each)
    stuck = tuple(f"{path} ({why})" for path, why in sweep.stuck.items())
    found = Findings(
        planted,
        tuple(sweep.blocked),
        tuple(sweep.kept),
        unstaged,
        unchecked,
        replaced,
        stuck,
    )
    if keeper is not None and found != Findings():
        with suppress(OSError):
            keeper.keep(found)


def _work_trees(seen: Watched, after: Before) -> Iterator[tuple[Repository, Tips]]:
    """Yield the repository of each work tree whose index the command could write, with
    the user's commits there.
    """
    by_common = {tips.repository.common: tips for tips in (*seen.nested, *seen.tips)}
    found = {tips.repository.folder: tips.repository for tips in seen.tips}
    for mark, git in repositories_in(after.marks):
        found.setdefault(git, Repository(_place(mark), git, common_directory(git)))
    for git in every_git_directory(seen.roots, (), after.marks):
        line = line_of(git / "gitdir")  # exists only for a linked work tree
        work_tree = Path(os.path.normpath(git / line)).parent if line else git
        found.setdefault(git, Repository(work_tree, git, common_directory(git)))
    for git, repository in found.items():
        if any(git.is_relative_to(folder) for folder in seen.writable):
            yield repository, by_common.get(repository.common, Tips(repository, {}))


def _replaced(seen: Watched) -> Iterator[str]:
    """For each object that a command has made git replace with another, yield a command
    that undoes this.
    """
    for tips in (*seen.tips, *seen.nested):
        for name, _ in sorted(references_of(tips.repository).replaced - tips.replaced):
            yield f"git --git-dir {shlex.quote(str(tips.repository.common))} replace -d {shlex.quote(name)}"


def _of_made(seen: Watched, made: Sequence[Path]) -> Iterator[Tips]:
    """Yield tips without commits for each repository that the command created, since
    all of its commits are the command's.
    """
    known = [tips.repository for tips in (*seen.tips, *seen.nested)]
    for repository in _others_of(every_git_directory((), (), made), known):
        yield Tips(repository, {})


def _tops(seen: Watched) -> tuple[Path, ...]:
    """Return the folders that this module examines and in which a command could have
    changed permissions.
    """
    common = (tips.repository.common for tips in seen.tips)
    return (
        *seen.roots,
        *(
            each
            for each in common
            if any(each.is_relative_to(folder) for folder in seen.writable)
        ),
    )


def _unfinished(
    seen: Watched, after: Before, sweep: Sweep, until: int | None
) -> Iterator[str]:
    """Rename the files that git would run when an operation continues, and the links
    that git would write through.
    """
    repositories = [tips.repository for tips in seen.tips]
    beside = [
        each
        for each in repositories
        if any(each.common.is_relative_to(folder) for folder in seen.writable)
    ]
    for git in every_git_directory(seen.roots, beside, after.all_marks):
        if not any(git.is_relative_to(folder) for folder in seen.writable):
            continue
        new = {path for path, _ in state_of(git) - seen.states.get(git, frozenset())}
        new.update(links_in(git, seen.before.at - COARSE_NS))
        for path in sorted(new):
            if until is None or oldest(git.joinpath(*path)) <= until:
                try:
                    yield from rename(git, path)
                except OSError as error:
                    sweep.note_stuck(git.joinpath(*path), error)


def _planted(
    seen: Watched, after: Before, sweep: Sweep, keeper: Keeper, until: int | None
) -> Iterator[Planted]:
    before = seen.before
    marks_before = before.all_marks
    made = [
        mark
        for mark, inode in after.all_marks.items()
        if marks_before.get(mark) != inode and _is_filled(mark)
    ]
    made = [
        mark
        for mark in made
        if _is_searched(before, after, mark) or latest(mark, _ANEW) >= before.at
    ]
    left = [
        mark
        for mark in after.all_marks
        if mark not in made and mark not in seen.protected
    ]
    again = [
        mark
        for mark in left
        if mark.name not in MARKS[1:]
        and (keeper.is_made(mark) or changed_by(mark) >= before.at)
    ]
    if until is not None:  # the user may have created others since then
        made = [
            mark
            for mark in made
            if earliest(mark) <= until and not keeper.is_made(mark)
        ]
        again = [
            mark for mark in again if keeper.is_made(mark) or earliest(mark) <= until
        ]
    done = _neutralised([*made, *again], seen, is_whole=after.is_whole)
    new = [
        mark
        for mark in (*made, *again)
        if mark in made or keeper.is_made(mark) or pointed_at(mark) >= before.at
    ]
    for mark, text in _blocked_pointers(new, seen, after, sweep, keeper, until):
        done[mark] = (*done.get(mark, ()), text)
    for mark, text in _blocked_programs({*made}, (*made, *left), seen, sweep, until):
        done[mark] = (*done.get(mark, ()), text)
    again = [mark for mark in left if mark in again or mark in done]
    for mark in made:
        if done.get(mark) or _is_in(mark, seen.roots):
            yield Planted(_place(mark), mark, done.get(mark, ()))
    for link, text in _blocked_links({*made, *again}, seen, after, sweep, until):
        yield Planted(link, link, (text,))
    for mark in again:
        if done.get(mark):
            yield Planted(_place(mark), mark, done[mark])
    for place in sorted(after.links - before.links):
        if until is None:
            yield Planted(place, None)


def _is_searched(before: Before, after: Before, mark: Path) -> bool:
    """Return whether a mark that is there now would have been found before, too."""
    if mark in after.marks:
        return before.is_whole
    is_behind_link = any(mark in marks for marks in after.further.behind.values())
    return before.is_whole and before.further.is_whole and not is_behind_link


def _neutralised(
    marks: Sequence[Path], seen: Watched, *, is_whole: bool
) -> dict[Path, tuple[str, ...]]:
    known = {common_directory(git) for _, git in repositories_in(seen.protected)}
    done: dict[Path, tuple[str, ...]] = {}
    for mark, git in repositories_in(marks):
        is_elsewhere = pointer_of(mark) is not None
        for each in dict.fromkeys((git, common_directory(git))):
            # What was there before is not changed because of a new pointer to it.
            is_old = is_elsewhere and set_in(each) < seen.before.at
            if each not in known and not is_old:
                may_fetch = seen.network or latest(each, SETTINGS[:2]) < seen.before.at
                around = RepositorySurroundings(
                    each, _place(mark), seen.roots, seen.writable, is_whole, may_fetch
                )
                with suppress(OSError):
                    done[mark] = (*done.get(mark, ()), *neutralise(around))
    return done


def _blocked_pointers(
    marks: Sequence[Path],
    seen: Watched,
    after: Before,
    sweep: Sweep,
    keeper: Keeper,
    until: int | None,
) -> Iterator[tuple[Path, str]]:
    """Rename the pointers of these marks that lead to programs or out of the session's
    directories; yield each such mark with a text for the user.
    """
    marks = [
        mark
        for mark in marks
        if mark.name not in MARKS[1:] and (pointer := pointer_of(mark)) is not None
        if until is None or changed(pointer) <= until
    ]
    if not marks:
        return
    there = (
        mark
        for mark, inode in seen.before.marks.items()
        if mark.name == ".git"
        and after.marks.get(mark) == inode
        and not keeper.is_made(mark)
    )
    own = {git for mark, git in repositories_in(there) if mark == git}
    own.update(tips.repository.common for tips in seen.tips)
    around = PointerSurroundings(seen.roots, own)
    for mark in marks:
        try:
            for text in block_pointer(mark, around):
                yield mark, text
        except OSError as error:
            sweep.note_stuck(mark, error)


def _blocked_programs(
    made: Collection[Path],
    marks: Iterable[Path],
    seen: Watched,
    sweep: Sweep,
    until: int | None,
) -> Iterator[tuple[Path, str]]:
    """Rename the files of a command that git would run in repositories; yield each such
    mark with a text for the user.

    :param made: the marks that the command has created. All files there count.
    """
    for mark in marks:
        since = 0 if mark in made else seen.before.at
        root = next((each for each in seen.roots if mark.is_relative_to(each)), None)
        if root is None or mark.name in MARKS[1:] or _place(mark) in seen.roots:
            continue

        def counts(time: int, since: int = since) -> bool:
            return since <= time and (until is None or time <= until)

        for text in block_programs(mark, root, counts, sweep.note_stuck):
            yield mark, text


def _blocked_links(
    changed_marks: Collection[Path],
    seen: Watched,
    after: Before,
    sweep: Sweep,
    until: int | None,
) -> Iterator[tuple[Path, str]]:
    """Rename the links that lead to a repository elsewhere in which git would run
    programs; yield each with a text for the user.

    A link that was there before counts only if the command has changed the repository,
    or has put it there.

    :param changed_marks: the marks that the command has made or changed.
    """
    for link, marks in after.further.behind.items():
        at = changed(link)
        if until is not None and at > until:
            continue
        is_new = at >= seen.before.at - COARSE_NS
        around = PointerSurroundings(seen.roots, ())
        counting = [
            mark
            for mark in marks
            if is_new
            or mark in changed_marks
            or _is_put_there(mark, seen.before, after)
        ]
        try:
            for text in block_link(link, counting, around):
                yield link, text
        except OSError as error:
            sweep.note_stuck(link, error)


def _is_put_there(mark: Path, before: Before, after: Before) -> bool:
    known = before.all_marks.get(mark)
    return before.further.has_all_behind and known != after.all_marks[mark]


def _is_in(path: Path, folders: Iterable[Path]) -> bool:
    return any(path.is_relative_to(folder) for folder in folders)


def _is_filled(mark: Path) -> bool:
    """Return whether a mark is not an empty folder. An empty folder has no effect, and
    may be a placeholder.
    """
    return not os.path.isdir(mark) or not is_empty(mark)  # noqa: PTH112 - does not fail in another user's folder


def _place(mark: Path) -> Path:
    return mark.parent if mark.name in MARKS else mark
