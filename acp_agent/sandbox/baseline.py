"""`Baseline`: what is recorded before a command starts, so that what the command has
created can be found afterwards, even by another process.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from functools import partial
from pathlib import Path

from acp_agent.frozen import frozen
from acp_agent.sandbox.blocked import GuardedFolder, places
from acp_agent.sandbox.further import Further, further_below
from acp_agent.sandbox.index_file import IndexFile
from acp_agent.sandbox.nested import (
    Below,
    common_directory,
    every_git_directory,
    marks_below,
)
from acp_agent.sandbox.obeyed import State, state_of
from acp_agent.sandbox.policy import Policy
from acp_agent.sandbox.repositories import Repository, repository_of
from acp_agent.sandbox.staged import indexes_before, is_in_work_tree
from acp_agent.sandbox.tips import Tips, TipStore

_NOTHING_FURTHER = Further({}, {}, is_whole=True)


@frozen
class Survey:
    """The state of the roots when a command started.

    :ivar marks: the marks below the roots, each with its inode; see `Below`.
    :ivar links: the folders that an index names as separate repositories.
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
        """Return the marks below the roots and those of `further`."""
        return {**self.further.marks, **self.marks}


@frozen
class Baseline:
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
    before: Survey
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


def survey(roots: Sequence[Path], writable: Sequence[Path] = ()) -> Survey:
    """Walk the roots and return their current state.

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
    return Survey(marks, frozenset(links), is_whole, at, further)


def baseline_of(
    before: Survey, policy: Policy, tips: TipStore, *, ends_with_agent: bool = True
) -> Baseline:
    """Return what must be recorded before a command with this policy starts. Reads the
    disk.

    :param ends_with_agent: see `Baseline`.
    """
    found = (repository_of(root) for root in policy.roots)
    repositories = [
        *dict.fromkeys(repository for repository in found if repository is not None)
    ]
    directories = every_git_directory(policy.roots, policy.repositories, before.marks)
    nested = repositories_except(directories, repositories)
    further = every_git_directory((), (), before.further.marks)
    tips_of_all = tips.all_of_user([*repositories, *nested])
    of_roots = (
        tips.acquit(each, partial(is_in_work_tree, each.repository))
        for each in tips_of_all[: len(repositories)]
    )
    return Baseline(
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


def repositories_except(
    directories: Iterable[Path], repositories: Iterable[Repository]
) -> list[Repository]:
    """Return the repository of each git directory, except those whose common directory
    belongs to one of `repositories`.
    """
    known = {each.common for each in repositories}
    commons = dict.fromkeys(map(common_directory, directories))
    return [Repository(each, each, each) for each in commons if each not in known]
