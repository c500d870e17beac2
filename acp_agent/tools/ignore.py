"""What git would leave out: by `.gitignore` files, nested ones too, by `.git/info/exclude`, and by the user's own file.

Owns how their rules add up from a repository's top down to a directory. The rules count without a repository as well.
Knows nothing of walking.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from acp_agent.frozen import frozen
from acp_agent.tools.wildcards import Rule, rule_of

_LARGEST = 256 * 1024
_GIT_SECONDS = 2.0


@frozen
class _Rules:
    """The rules of one file, for what lies below `base` (a path with a slash at its end)."""

    base: str
    rules: tuple[Rule, ...]

    def verdict(self, path: str, is_directory: bool) -> bool | None:
        names = path[len(self.base) :].split("/")
        for rule in reversed(self.rules):
            if rule.matches(names, is_directory):
                return rule.leaves_out
        return None


@frozen
class Ignored:
    """The rules that count in one directory.

    :ivar levels: the user's own rules, then those from the repository's top to this directory.
    :ivar users: the user's own, for repositories within this one.
    """

    levels: tuple[_Rules, ...] = ()
    users: tuple[Rule, ...] = ()

    @classmethod
    def at(cls, directory: Path) -> Ignored:
        """The rules for a directory, with those of the directories above it up to the repository's top."""
        top = next((place for place in (directory, *directory.parents) if (place / ".git").exists()), directory)
        users = _load(_users_file(top), top)
        rules = cls((users,), users.rules)
        for place in reversed([directory, *directory.parents]):
            if place.is_relative_to(top):
                rules = rules.entering(place)
        return rules

    def entering(self, directory: Path) -> Ignored:
        """The rules one directory further down. A repository within another has only its own and the user's."""
        git = directory / ".git"
        found = list(self.levels)
        if git.exists():
            found = [_Rules(_prefix(directory), self.users), _load(git / "info" / "exclude", directory)]
        found.append(_load(directory / ".gitignore", directory))
        return Ignored(tuple(level for level in found if level.rules), self.users)

    def covers(self, path: Path, is_directory: bool) -> bool:
        """Whether git would leave this entry out; its directory is not left out itself."""
        if path.name == ".git":
            return True
        for level in reversed(self.levels):
            verdict = level.verdict(str(path), is_directory)
            if verdict is not None:
                return verdict
        return False


def _users_file(directory: Path) -> Path | None:
    """The user's own ignore file, which counts in every repository: what `core.excludesFile` says, or git's default.

    Asked of git, since its configuration is spread over files that include one another. Where there is no git, or it
    does not answer, the default counts.
    """
    command = ["git", "config", "--null", "--type=path", "--get", "core.excludesFile"]
    try:
        asked = subprocess.run(
            command, cwd=directory, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=_GIT_SECONDS
        )
    except (OSError, subprocess.SubprocessError):
        answer = b""
    else:
        answer = asked.stdout
    if answer:
        name = os.fsdecode(answer.removesuffix(b"\0"))
        return directory / name if name else None
    home = os.environ.get("HOME")
    config = os.environ.get("XDG_CONFIG_HOME") or (f"{home}/.config" if home else None)
    return Path(config, "git", "ignore") if config else None


def _prefix(base: Path) -> str:
    return f"{str(base).rstrip('/')}/"


def _load(file: Path | None, base: Path) -> _Rules:
    prefix = _prefix(base)
    try:
        if file is None or not file.is_file() or file.stat().st_size > _LARGEST:
            return _Rules(prefix, ())
        text = file.read_text("utf-8-sig", errors="surrogateescape")
    except OSError:
        return _Rules(prefix, ())
    rules = (rule_of(line.removesuffix("\r")) for line in text.split("\n"))
    return _Rules(prefix, tuple(rule for rule in rules if rule))
