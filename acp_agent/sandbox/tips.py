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
import re
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from pathlib import Path

from acp_agent.frozen import frozen
from acp_agent.programs import find_program, own_environment
from acp_agent.regular import open_regular
from acp_agent.sandbox.listing import entries
from acp_agent.sandbox.repositories import Repository

_SPACES = ("refs/heads/", "refs/remotes/", "refs/tags/", "refs/stash")
_MOST_TIPS = 3_000
"""Maximum number of references that are read. In a repository with more, the others do not count."""
_MOST_PACKED = 8 * 1024 * 1024
_MOST_KEPT = 1024 * 1024
_ID = re.compile(rb"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_LONGEST_REF = 4096
_GIT_SECONDS = 5.0


@frozen
class Tips:
    """The tips of one repository.

    :ivar commits: the names of references, keyed by the commits or tags that they point to. A name is empty if a
        reference pointed there earlier.
    """

    repository: Repository
    commits: Mapping[str, str]


def tips_of(repository: Repository) -> dict[str, str]:
    """Return the current references of a repository, keyed by what they point to. Only reads files."""
    found: dict[str, str] = {}
    head = _line(repository.folder / "HEAD")
    if _ID.fullmatch(head):
        found[head.decode()] = "HEAD"
    for name, value in (*_loose(repository.common), *_packed(repository.common / "packed-refs")):
        found.setdefault(value, name)
        if len(found) >= _MOST_TIPS:
            break
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
        by_commands, earlier, is_whole = self._read(repository.common)
        if not is_whole:
            return Tips(repository, {})
        tips.update(dict.fromkeys(earlier - tips.keys(), ""))
        kept = {
            commit: name
            for commit, name in tips.items()
            if commit not in by_commands and all(commit in each for each in known)
        }
        return Tips(repository, kept)

    def after_command(self, before: Tips) -> None:
        """Record the tips that a command added to a repository, and the user's tips that it moved.

        :param before: see `of_user`.
        """
        if self._folder is None:
            return
        common = before.repository.common
        now = tips_of(before.repository)
        by_commands, earlier, _ = self._read(common)
        made = now.keys() - before.commits.keys() - by_commands
        moved = before.commits.keys() - now.keys() - earlier
        lines = [*(f"command {commit}\n" for commit in sorted(made)), *(f"user {commit}\n" for commit in sorted(moved))]
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

    def _read(self, common: Path) -> tuple[AbstractSet[str], AbstractSet[str], bool]:
        """Return the commands' tips, the user's earlier tips, and whether the file was read completely."""
        if self._folder is None:
            return set(), set(), True
        found: dict[str, set[str]] = {"command": set(), "user": set()}
        try:
            with open_regular(self._file(common)) as file:
                text = file.read(_MOST_KEPT + 1)
        except FileNotFoundError:
            return set(), set(), True
        except OSError:
            return set(), set(), False
        for line in text.decode("ascii", "replace").splitlines():
            kind, _, commit = line.partition(" ")
            found.setdefault(kind, set()).add(commit)
        return found["command"], found["user"] - found["command"], len(text) <= _MOST_KEPT


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


def _loose(common: Path) -> Iterator[tuple[str, str]]:
    folders = ["refs"]
    seen = 0
    while folders and seen < 2 * _MOST_TIPS:
        folder = folders.pop()
        for entry in entries(common / folder):
            seen += 1
            name = f"{folder}/{entry.name}"
            if entry.is_dir(follow_symlinks=False):
                if any(space.startswith(f"{name}/") or f"{name}/".startswith(space) for space in _SPACES):
                    folders.append(name)
            elif name.startswith(_SPACES) and _ID.fullmatch(value := _line(common / name)):
                yield name, value.decode()


def _packed(file: Path) -> Iterator[tuple[str, str]]:
    try:
        with open_regular(file) as opened:
            text = opened.read(_MOST_PACKED)
    except (OSError, ValueError):
        return
    for line in text.split(b"\n"):
        value, _, name = line.partition(b" ")
        if _ID.fullmatch(value) and (shown := os.fsdecode(name)).startswith(_SPACES):
            yield shown, value.decode()


def _line(file: Path) -> bytes:
    try:
        with open_regular(file) as opened:
            return opened.read(_LONGEST_REF).strip()
    except (OSError, ValueError):
        return b""
