"""Determines which commits of a repository are the user's: the tips of branches, remote
branches, tags and stashes.

The content of such a commit is the repository's own. No command wrote that content, so
git may check it out in the sandbox. Commands can create commits and branches too. So
the tips are read before each command, and the tips that a command adds are recorded as
the command's, for later commands as well. History is not searched, since a user's
commit may have a command's commit among its ancestors.

Pull requests and the like are other people's proposals. A remote branch counts only if
it was fetched from a branch; see `fetched_from_elsewhere`.

Source: gitrepository-layout(5); git-pack-refs(1); git-fetch(1), "CONFIGURED
REMOTE-TRACKING BRANCHES"
"""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from acp_agent.frozen import frozen
from acp_agent.programs import find_program, own_environment
from acp_agent.regular import open_regular
from acp_agent.sandbox.references import MOST, GitReferences, references_of
from acp_agent.sandbox.repositories import Repository

_MOST_KEPT = 4 * 1024 * 1024
_GIT_SECONDS = 5.0


@frozen
class Tips:
    """The tips of one repository.

    :ivar commits: the names of references, keyed by the commits or tags that they point
        to. The name is empty if a reference pointed there only earlier.
    :ivar others: objects that other work trees and unusual references pointed to. They
        are not the user's tips, but the command did not create them either.
    :ivar strange: contents of guarded paths that a command staged or committed; see
        `tracked.label_of`. They do not become the user's because of a commit on top of
        the command's.
    :ivar replaced: see `GitReferences`.
    """

    repository: Repository
    commits: Mapping[str, str]
    others: frozenset[str] = frozenset()
    strange: frozenset[str] = frozenset()
    replaced: frozenset[tuple[str, str]] = frozenset()


@frozen
class _Kept:
    """The record about a repository.

    :ivar by_commands: the tips that commands created.
    :ivar earlier: the user's earlier tips.
    :ivar strange: see `Tips`.
    :ivar is_whole: whether the record was read completely.
    :ivar is_closed: whether no later tip counts as the user's.
    """

    by_commands: AbstractSet[str] = frozenset()
    earlier: AbstractSet[str] = frozenset()
    strange: frozenset[str] = frozenset()
    is_whole: bool = True
    is_closed: bool = False


def tips_of(repository: Repository) -> dict[str, str]:
    """Return the current references of a repository, keyed by the objects that they
    point to. Only reads files.
    """
    return _by_object(references_of(repository))


def _by_object(references: GitReferences) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in references.direct[:MOST]:
        found.setdefault(value, name)
    return found


def _is_readable(references: GitReferences) -> bool:
    return references.is_whole and len(references.direct) <= MOST


class TipStore:
    """Records the tips that commands have created or moved, in files for each
    repository.

    There is one file for the path of a repository and one for its inode. So a project
    keeps its record if it is renamed, and also if it is restored from a copy.

    :param folder: a folder that commands can neither read nor write. If None, nothing
        is recorded.
    :param others: returns the user's tips of each repository, keyed by its common
        directory, as recorded for each command that is running.
    """

    def __init__(
        self,
        folder: Path | None = None,
        others: Callable[[], Mapping[Path, Sequence[AbstractSet[str]]]] = dict,
    ) -> None:
        self._folder = folder
        self._others = others
        self._before: dict[Repository, GitReferences] = {}

    def of_user(self, repository: Repository) -> Tips:
        """Return the tips of a repository that no command created, without any commits
        if they cannot be told apart from a command's.
        """
        return self.all_of_user((repository,))[0]

    def all_of_user(self, repositories: Sequence[Repository]) -> tuple[Tips, ...]:
        """Return the result of `of_user` for each repository."""
        # The order matters: if a running command has added a tip, either the command's
        # record still exists or the tip has been stored.
        for each in repositories:
            self._before[each] = references_of(each)
        known = self._others()
        names: set[str] | None = None
        with suppress(OSError):
            folder = self._folder
            names = (
                {each.name for each in folder.iterdir()}
                if folder is not None and folder.exists()
                else set()
            )
        return tuple(
            self._own(each, known.get(each.common, ()), names) for each in repositories
        )

    def _own(
        self,
        repository: Repository,
        known: Sequence[AbstractSet[str]],
        names: AbstractSet[str] | None,
    ) -> Tips:
        """See `of_user`.

        :param known: the user's tips, as recorded for each command that is running.
        :param names: see `_read`.
        """
        references = self._before[repository]
        tips = _by_object(references)
        kept = self._read(repository.common, names)
        others = frozenset(references.indirect - tips.keys())
        if not kept.is_whole:
            return Tips(repository, {}, others, kept.strange, references.replaced)
        if kept.is_closed and not known and _is_readable(references):
            unknown = {*tips, *others} - kept.earlier - kept.by_commands
            if not unknown:
                with suppress(OSError):
                    self._append(repository.common, ["open\n"])
                kept = replace(kept, is_closed=False)
        tips.update(dict.fromkeys(kept.earlier - tips.keys(), ""))
        if kept.is_closed:
            known = (*known, kept.earlier)
        own = {
            commit: name
            for commit, name in tips.items()
            if commit not in kept.by_commands and all(commit in each for each in known)
        }
        return Tips(repository, own, others, kept.strange, references.replaced)

    def after_command(self, before: Tips) -> None:
        """Record the tips that a command added to a repository, and the user's tips
        that the command moved.

        If some references cannot be read, a command's tip may be among them. Then, only
        the tips from before the command count as the user's, until all references can
        be read and all of them are known, or until `accept` is called.

        :param before: see `of_user`. Without commits, everything in the repository is
            the command's.
        """
        if self._folder is None:
            return
        common = before.repository.common
        references = references_of(before.repository)
        if (
            references is self._before.get(before.repository)
            and references.is_whole
            and before.commits
        ):
            return  # nothing has changed
        now = {*_by_object(references), *references.indirect}
        kept = self._read(common)
        made = now - before.commits.keys() - before.others - kept.by_commands
        is_closing = not kept.is_closed and not _is_readable(references)
        moved = before.commits.keys() - kept.earlier
        if not is_closing:
            moved -= now
        lines = [
            *(f"command {commit}\n" for commit in sorted(made)),
            *(f"user {commit}\n" for commit in sorted(moved)),
        ]
        if is_closing:
            lines.append("closed\n")
        self._append(common, lines)

    def blame(self, common: Path, contents: Collection[str]) -> None:
        """Record contents of guarded paths that a command staged or committed.

        :param contents: see `tracked.label_of`.
        """
        self._append(common, [f"content {each}\n" for each in sorted(contents)])

    def acquit(self, tips: Tips, is_there: Callable[[str], bool]) -> Tips:
        """Let contents that the user has put into the work tree count as the user's
        again.

        :param is_there: returns whether a content is in the work tree, where a command
            could not have put it.
        :returns: the new tips. They are the same as before while another command runs
            in the repository.
        """
        if not tips.strange or self._others().get(tips.repository.common):
            return tips
        there = frozenset(filter(is_there, tips.strange))
        with suppress(OSError):
            self._append(
                tips.repository.common, [f"accepted {each}\n" for each in sorted(there)]
            )
        return replace(tips, strange=tips.strange - there)

    def accept(self, repository: Repository, *, wholly: bool = False) -> bool:
        """Let the current and later tips of a repository count as the user's again, if
        they no longer do.

        :param wholly: whether to include tips that are known to be a command's.
        :returns: whether anything has changed.
        """
        kept = self._read(repository.common)
        tips = _by_object(references_of(repository)).keys() - kept.earlier
        if not wholly:
            tips -= kept.by_commands
        if not kept.is_closed and not (wholly and tips & kept.by_commands):
            return False
        self._append(
            repository.common,
            [*(f"user {commit}\n" for commit in sorted(tips)), "open\n"],
        )
        return True

    def _append(self, common: Path, lines: Sequence[str]) -> None:
        if self._folder is None or not lines:
            return
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for path in self._files(common):
            file = os.open(
                path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600
            )
            try:
                os.write(file, "".join(lines).encode())
            finally:
                os.close(file)

    def _files(self, common: Path) -> Iterator[Path]:
        """Yield the files for the path and for the inode of a repository."""
        assert self._folder is not None
        names = [os.fsencode(common)]
        with suppress(OSError):
            status = common.stat()
            names.append(b"inode %d %d" % (status.st_dev, status.st_ino))
        for name in names:
            yield self._folder / hashlib.sha256(name).hexdigest()

    def _read(self, common: Path, names: AbstractSet[str] | None = None) -> _Kept:
        """Return the record about a repository.

        :param names: the names of the files that exist; None if these are unknown.
        """
        if self._folder is None or (names is not None and not names):
            return _Kept()
        found: dict[str, set[str]] = {"command": set(), "user": set(), "content": set()}
        is_whole = True
        is_closed = False
        for path in self._files(common):
            if names is not None and path.name not in names:
                continue
            try:
                with open_regular(path) as file:
                    text = file.read(_MOST_KEPT + 1)
            except FileNotFoundError:
                continue
            except OSError:
                return _Kept(is_whole=False)
            is_whole &= len(text) <= _MOST_KEPT
            lines = [
                line.partition(" ")
                for line in text.decode("ascii", "replace").splitlines()
            ]
            for commit, kind in {
                commit: kind for kind, _, commit in lines if commit
            }.items():
                found.setdefault(kind, set()).add(commit)
            is_closed |= [kind for kind, _, commit in lines if not commit][-1:] == [
                "closed"
            ]
        return _Kept(
            found["command"],
            found["user"] - found["command"],
            frozenset(found["content"]),
            is_whole,
            is_closed,
        )


def fetched_from_elsewhere(common: Path) -> tuple[str, ...]:
    """Return the prefixes of references that are fetched from something other than
    branches. Runs git.

    :param common: a git directory whose settings apply.
    """
    git = find_program("git")
    if git is None:
        return ("refs/remotes/",)
    command = (
        git,
        "--git-dir",
        str(common),
        "config",
        "--null",
        "--get-regexp",
        r"^remote\..*\.fetch$",
    )
    nothing = subprocess.DEVNULL
    try:
        done = subprocess.run(
            command,
            cwd="/",
            env=own_environment(),
            stdin=nothing,
            stdout=subprocess.PIPE,
            stderr=nothing,
            timeout=_GIT_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ("refs/remotes/",)
    found: list[str] = []
    for each in done.stdout.decode(errors="surrogateescape").split("\0")[:-1]:
        source, _, target = each.partition("\n")[2].lstrip("+").partition(":")
        if target and not source.startswith("refs/heads/"):
            found.append(target.partition("*")[0])
    return tuple(found)
