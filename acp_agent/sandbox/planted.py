"""Finds files and folders that a command created and that other programs act on
automatically, and makes them harmless.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import (
    Collection,
    Generator,
    Iterable,
    Iterator,
    Sequence,
)
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol

from acp_agent.frozen import frozen
from acp_agent.sandbox.aside import rename
from acp_agent.sandbox.baseline import Baseline, Survey, repositories_except, survey
from acp_agent.sandbox.blocked import Sweep
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
from acp_agent.sandbox.git_settings import RepositorySurroundings
from acp_agent.sandbox.listing import is_empty, restoring
from acp_agent.sandbox.nested import (
    common_directory,
    every_git_directory,
    repositories_in,
)
from acp_agent.sandbox.neutral import neutralise
from acp_agent.sandbox.obeyed import links_in, state_of
from acp_agent.sandbox.pointers import (
    PointerSurroundings,
    block_link,
    block_pointer,
    pointer_of,
)
from acp_agent.sandbox.references import references_of
from acp_agent.sandbox.relative_programs import block_programs
from acp_agent.sandbox.repositories import Repository
from acp_agent.sandbox.roots import line_of
from acp_agent.sandbox.staged import restore_indexes
from acp_agent.sandbox.tips import Tips, TipStore
from acp_agent.sandbox.tracked import Tracked
from acp_agent.sandbox.walk import MARKS

_ANEW = ("", "config")


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


def sweep_of(
    baseline: Baseline, blocked: list[str] | None = None, until: int | None = None
) -> Sweep:
    """Return the `Sweep` that renames the guarded paths that a command creates.

    :param blocked: see `Sweep`.
    :param until: see `Sweep`.
    """
    return Sweep(
        baseline.places,
        [Tracked(tips) for tips in baseline.tips],
        [] if blocked is None else blocked,
        until,
    )


@contextmanager
def settling(
    baseline: Baseline, sweep: Sweep, keeper: Keeper | None, tips: TipStore
) -> Generator[None]:
    """When the `with` block ends, find what a command created during the block, and
    make it harmless.

    :param sweep: must have ended when the block ends. It gets a line for each path that
        is renamed afterwards.
    """
    try:
        yield
    finally:
        settle(baseline, sweep, keeper, tips)


def settle(
    baseline: Baseline,
    sweep: Sweep,
    keeper: Keeper | None,
    tips: TipStore,
    until: int | None = None,
) -> None:
    """Make everything that a finished command created harmless, and tell the user.

    :param sweep: see `settling`.
    :param until: the time after which the command cannot have created anything; see
        `Sweep`.
    """
    with restoring(_tops(baseline)):
        after = survey(baseline.roots, baseline.writable)
        planted: tuple[Planted, ...] = ()
        if keeper is not None:
            planted = tuple(_planted(baseline, after, sweep, keeper, until))
        sweep.blocked += _unfinished(baseline, after, sweep, until)
        unstaged, unchecked = restore_indexes(
            _work_trees(baseline, after),
            baseline.indexes,
            baseline.places,
            baseline.before.at,
            tips,
        )
        replaced = tuple(_replaced(baseline))
        marks = (each.mark for each in planted if each.mark is not None)
        made = [
            mark
            for mark in marks
            if baseline.before.all_marks.get(mark) != after.all_marks.get(mark)
        ]
        for each in (*baseline.tips, *baseline.nested, *_of_made(baseline, made)):
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


def _work_trees(baseline: Baseline, after: Survey) -> Iterator[tuple[Repository, Tips]]:
    """Yield the repository of each work tree whose index the command could write, with
    the user's commits there.
    """
    by_common = {
        tips.repository.common: tips for tips in (*baseline.nested, *baseline.tips)
    }
    found = {tips.repository.folder: tips.repository for tips in baseline.tips}
    for mark, git in repositories_in(after.marks):
        found.setdefault(git, Repository(_place(mark), git, common_directory(git)))
    for git in every_git_directory(baseline.roots, (), after.marks):
        line = line_of(git / "gitdir")  # exists only for a linked work tree
        work_tree = Path(os.path.normpath(git / line)).parent if line else git
        found.setdefault(git, Repository(work_tree, git, common_directory(git)))
    for git, repository in found.items():
        if any(git.is_relative_to(folder) for folder in baseline.writable):
            yield repository, by_common.get(repository.common, Tips(repository, {}))


def _replaced(baseline: Baseline) -> Iterator[str]:
    """For each object that a command has made git replace with another, yield a command
    that undoes this.
    """
    for tips in (*baseline.tips, *baseline.nested):
        for name, _ in sorted(references_of(tips.repository).replaced - tips.replaced):
            yield f"git --git-dir {shlex.quote(str(tips.repository.common))} replace -d {shlex.quote(name)}"


def _of_made(baseline: Baseline, made: Sequence[Path]) -> Iterator[Tips]:
    """Yield tips without commits for each repository that the command created, since
    all of its commits are the command's.
    """
    known = [tips.repository for tips in (*baseline.tips, *baseline.nested)]
    for repository in repositories_except(every_git_directory((), (), made), known):
        yield Tips(repository, {})


def _tops(baseline: Baseline) -> tuple[Path, ...]:
    """Return the folders that this module examines and in which a command could have
    changed permissions.
    """
    common = (tips.repository.common for tips in baseline.tips)
    return (
        *baseline.roots,
        *(
            each
            for each in common
            if any(each.is_relative_to(folder) for folder in baseline.writable)
        ),
    )


def _unfinished(
    baseline: Baseline, after: Survey, sweep: Sweep, until: int | None
) -> Iterator[str]:
    """Rename the files that git would run when an operation continues, and the links
    that git would write through.
    """
    repositories = [tips.repository for tips in baseline.tips]
    beside = [
        each
        for each in repositories
        if any(each.common.is_relative_to(folder) for folder in baseline.writable)
    ]
    for git in every_git_directory(baseline.roots, beside, after.all_marks):
        if not any(git.is_relative_to(folder) for folder in baseline.writable):
            continue
        new = {
            path for path, _ in state_of(git) - baseline.states.get(git, frozenset())
        }
        new.update(links_in(git, baseline.before.at - COARSE_NS))
        for path in sorted(new):
            if until is None or oldest(git.joinpath(*path)) <= until:
                try:
                    yield from rename(git, path)
                except OSError as error:
                    sweep.note_stuck(git.joinpath(*path), error)


def _planted(
    baseline: Baseline, after: Survey, sweep: Sweep, keeper: Keeper, until: int | None
) -> Iterator[Planted]:
    before = baseline.before
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
        if mark not in made and mark not in baseline.protected
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
    done = _neutralised([*made, *again], baseline, is_whole=after.is_whole)
    new = [
        mark
        for mark in (*made, *again)
        if mark in made or keeper.is_made(mark) or pointed_at(mark) >= before.at
    ]
    for mark, text in _blocked_pointers(new, baseline, after, sweep, keeper, until):
        done[mark] = (*done.get(mark, ()), text)
    for mark, text in _blocked_programs(
        {*made}, (*made, *left), baseline, sweep, until
    ):
        done[mark] = (*done.get(mark, ()), text)
    again = [mark for mark in left if mark in again or mark in done]
    for mark in made:
        if done.get(mark) or _is_in(mark, baseline.roots):
            yield Planted(_place(mark), mark, done.get(mark, ()))
    for link, text in _blocked_links({*made, *again}, baseline, after, sweep, until):
        yield Planted(link, link, (text,))
    for mark in again:
        if done.get(mark):
            yield Planted(_place(mark), mark, done[mark])
    for place in sorted(after.links - before.links):
        if until is None:
            yield Planted(place, None)


def _is_searched(before: Survey, after: Survey, mark: Path) -> bool:
    """Return whether the search before the command would have found this mark if it had
    existed then.
    """
    if mark in after.marks:
        return before.is_whole
    is_behind_link = any(mark in marks for marks in after.further.behind.values())
    return before.is_whole and before.further.is_whole and not is_behind_link


def _neutralised(
    marks: Sequence[Path], baseline: Baseline, *, is_whole: bool
) -> dict[Path, tuple[str, ...]]:
    known = {common_directory(git) for _, git in repositories_in(baseline.protected)}
    done: dict[Path, tuple[str, ...]] = {}
    for mark, git in repositories_in(marks):
        is_elsewhere = pointer_of(mark) is not None
        for each in dict.fromkeys((git, common_directory(git))):
            # An older git directory is not changed just because of a new pointer to it.
            is_old = is_elsewhere and set_in(each) < baseline.before.at
            if each not in known and not is_old:
                may_fetch = (
                    baseline.network or latest(each, SETTINGS[:2]) < baseline.before.at
                )
                around = RepositorySurroundings(
                    each,
                    _place(mark),
                    baseline.roots,
                    baseline.writable,
                    is_whole,
                    may_fetch,
                )
                with suppress(OSError):
                    done[mark] = (*done.get(mark, ()), *neutralise(around))
    return done


def _blocked_pointers(
    marks: Sequence[Path],
    baseline: Baseline,
    after: Survey,
    sweep: Sweep,
    keeper: Keeper,
    until: int | None,
) -> Iterator[tuple[Path, str]]:
    """Rename the pointers of these marks that `block_pointer` considers dangerous.
    Yield the mark and a text for the user for each renamed pointer.
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
        for mark, inode in baseline.before.marks.items()
        if mark.name == ".git"
        and after.marks.get(mark) == inode
        and not keeper.is_made(mark)
    )
    own = {git for mark, git in repositories_in(there) if mark == git}
    own.update(tips.repository.common for tips in baseline.tips)
    around = PointerSurroundings(baseline.roots, own)
    for mark in marks:
        try:
            for text in block_pointer(mark, around):
                yield mark, text
        except OSError as error:
            sweep.note_stuck(mark, error)


def _blocked_programs(
    made: Collection[Path],
    marks: Iterable[Path],
    baseline: Baseline,
    sweep: Sweep,
    until: int | None,
) -> Iterator[tuple[Path, str]]:
    """Rename the command's files that git would run in repositories below the roots.
    Yield the repository's mark and a text for the user for each renamed file.

    :param made: the marks that the command has created. In these repositories, all
        files are treated as the command's.
    """
    for mark in marks:
        since = 0 if mark in made else baseline.before.at
        root = next(
            (each for each in baseline.roots if mark.is_relative_to(each)), None
        )
        if root is None or mark.name in MARKS[1:] or _place(mark) in baseline.roots:
            continue

        def counts(time: int, since: int = since) -> bool:
            return since <= time and (until is None or time <= until)

        for text in block_programs(mark, root, counts, sweep.note_stuck):
            yield mark, text


def _blocked_links(
    changed_marks: Collection[Path],
    baseline: Baseline,
    after: Survey,
    sweep: Sweep,
    until: int | None,
) -> Iterator[tuple[Path, str]]:
    """Rename the links that lead to a repository elsewhere in which git would run
    programs. Yield each renamed link with a text for the user.

    A link that is older than the command is renamed only if the command has created or
    changed the repository.

    :param changed_marks: the marks that the command has created or changed.
    """
    for link, marks in after.further.behind.items():
        at = changed(link)
        if until is not None and at > until:
            continue
        is_new = at >= baseline.before.at - COARSE_NS
        around = PointerSurroundings(baseline.roots, ())
        counting = [
            mark
            for mark in marks
            if is_new
            or mark in changed_marks
            or _is_put_there(mark, baseline.before, after)
        ]
        try:
            for text in block_link(link, counting, around):
                yield link, text
        except OSError as error:
            sweep.note_stuck(link, error)


def _is_put_there(mark: Path, before: Survey, after: Survey) -> bool:
    known = before.all_marks.get(mark)
    return before.further.has_all_behind and known != after.all_marks[mark]


def _is_in(path: Path, folders: Iterable[Path]) -> bool:
    return any(path.is_relative_to(folder) for folder in folders)


def _is_filled(mark: Path) -> bool:
    """Return False if a mark is an empty folder, which has no effect and may be a
    placeholder.
    """
    return not os.path.isdir(mark) or not is_empty(mark)  # noqa: PTH112 - does not fail in another user's folder


def _place(mark: Path) -> Path:
    return mark.parent if mark.name in MARKS else mark
