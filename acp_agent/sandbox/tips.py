"""Determines which commits of a repository are the user's: the tips of branches, remote branches, tags and stashes.

The content of such a commit is the repository's own. No command wrote it, so git may check it out in the sandbox.
Commands can create commits and branches too. So the tips are read before each command, and the tips that a command adds
are recorded as the command's, for later commands as well. History is not searched, since a user's commit may have a
command's commit among its ancestors.

Pull requests and the like are other people's proposals. A remote branch counts only if it was fetched from a branch;
see `fetched_from_elsewhere`.

Source: gitrepository-layout(5); git-pack-refs(1); git-fetch(1), "CONFIGURED REMOTE-TRACKING BRANCHES"
"""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from pathlib import Path

from acp_agent.frozen import frozen
from acp_agent.programs import find_program, own_environment
from acp_agent.regular import open_regular
from acp_agent.sandbox.references import MOST, References
from acp_agent.sandbox.repositories import Repository

_MOST_KEPT = 4 * 1024 * 1024
_GIT_SECONDS = 5.0


@frozen
class Tips:
    """The tips of one repository.

    :ivar commits: the names of references, keyed by the commits or tags that they point to. A name is empty if a
        reference pointed there earlier.
    """

    repository: Repository
    commits: Mapping[str, str]


@frozen
class _Kept:
    """What the file of a repository says.

    :ivar by_commands: the commands' tips.
    :ivar earlier: the user's earlier tips.
    :ivar is_whole: whether the file was read completely.
    :ivar is_closed: whether no later tip counts as the user's.
    """

    by_commands: AbstractSet[str] = frozenset()
    earlier: AbstractSet[str] = frozenset()
    is_whole: bool = True
    is_closed: bool = False


def tips_of(repository: Repository) -> dict[str, str]:
    """Return the current references of a repository, keyed by what they point to. Only reads files."""
    return _by_object(References(repository))


def _by_object(references: References) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in references.direct[:MOST]:
        found.setdefault(value, name)
    return found


class TipStore:
    """Records the tips that commands have created or moved, in one file for each repository.

    :param folder: a folder that commands can neither read nor write. If None, nothing is recorded.
    :param others: returns the user's tips of a repository, as recorded for each command that is running there.
    """

    def __init__(
        self, folder: Path | None = None, others: Callable[[Path], Iterable[AbstractSet[str]]] = lambda _: ()
    ) -> None:
        self._folder = folder
        self._others = others

    def of_user(self, repository: Repository) -> Tips:
        """Return the tips of a repository that no command created; none if they cannot be told apart."""
        # The order matters: if a running command has added a tip, its record is still there, or the tip is stored.
        tips = tips_of(repository)
        known = tuple(self._others(repository.common))
        kept = self._read(repository.common)
        if not kept.is_whole:
            return Tips(repository, {})
        tips.update(dict.fromkeys(kept.earlier - tips.keys(), ""))
        if kept.is_closed:
            known = (*known, kept.earlier)
        own = {
            commit: name
            for commit, name in tips.items()
            if commit not in kept.by_commands and all(commit in each for each in known)
        }
        return Tips(repository, own)

    def after_command(self, before: Tips) -> None:
        """Record the tips that a command added to a repository, and the user's tips that it moved.

        If some references cannot be read, a command's tip may be among them. Then only the tips from before the command
        count as the user's from now on.

        :param before: see `of_user`.
        """
        if self._folder is None:
            return
        common = before.repository.common
        references = References(before.repository)
        now = {*_by_object(references), *references.indirect}
        kept = self._read(common)
        made = now - before.commits.keys() - kept.by_commands
        is_closing = not kept.is_closed and (not references.is_whole or len(references.direct) > MOST)
        moved = before.commits.keys() - kept.earlier
        if not is_closing:
            moved -= now
        lines = [*(f"command {commit}\n" for commit in sorted(made)), *(f"user {commit}\n" for commit in sorted(moved))]
        if is_closing:
            lines.append("closed\n")
        if lines:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            file = os.open(self._file(common), os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            try:
                os.write(file, "".join(lines).encode())
            finally:
                os.close(file)

    def _file(self, common: Path) -> Path:
        assert self._folder is not None
        return self._folder / hashlib.sha256(os.fsencode(common)).hexdigest()

    def _read(self, common: Path) -> _Kept:
        if self._folder is None:
            return _Kept()
        found: dict[str, set[str]] = {"command": set(), "user": set()}
        try:
            with open_regular(self._file(common)) as file:
                text = file.read(_MOST_KEPT + 1)
        except FileNotFoundError:
            return _Kept()
        except OSError:
            return _Kept(is_whole=False)
        for line in text.decode("ascii", "replace").splitlines():
            kind, _, commit = line.partition(" ")
            found.setdefault(kind, set()).add(commit)
        is_whole = len(text) <= _MOST_KEPT
        return _Kept(found["command"], found["user"] - found["command"], is_whole, "closed" in found)


def fetched_from_elsewhere(common: Path) -> tuple[str, ...]:
    """Return the prefixes of references that are fetched from something other than branches. Runs git.

    :param common: a git directory whose settings apply.
    """
    git = find_program("git")
    if git is None:
        return ("refs/remotes/",)
    command = (git, "--git-dir", str(common), "config", "--null", "--get-regexp", r"^remote\..*\.fetch$")
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
