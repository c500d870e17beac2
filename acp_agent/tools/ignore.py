"""What git would leave out: `.gitignore` files, nested ones too, and a repository's `.git/info/exclude`.

Owns how their rules add up from a repository's top down to a directory. The rules count without a repository as well.
The user's global ignore file does not count. Knows nothing of walking.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from acp_agent.tools.patterns import git_rule

_LARGEST = 1024 * 1024
_MARK = "ps_d"  # pathspec's name for the slash behind a directory that a pattern matched


@dataclass(frozen=True, slots=True)
class _Rules:
    """The rules of one file, for what lies below `base` (a path with a slash at its end)."""

    base: str
    patterns: tuple[tuple[re.Pattern[str], bool], ...]

    def verdict(self, path: str) -> bool | None:
        relative = path[len(self.base) :]
        for regex, leaves_out in reversed(self.patterns):
            if _matches(regex, relative):
                return leaves_out
        return None


@dataclass(frozen=True, slots=True)
class Ignored:
    """The rules that count in one directory.

    :ivar levels: from the repository's top to this directory.
    """

    levels: tuple[_Rules, ...] = ()

    @classmethod
    def at(cls, directory: Path) -> Ignored:
        """The rules for a directory, with those of the directories above it up to the repository's top."""
        top = next((place for place in (directory, *directory.parents) if (place / ".git").exists()), directory)
        rules = cls()
        for place in reversed([directory, *directory.parents]):
            if place.is_relative_to(top):
                rules = rules.entering(place)
        return rules

    def entering(self, directory: Path) -> Ignored:
        """The rules one directory further down. A repository within another has only its own."""
        git = directory / ".git"
        repository = git.exists()
        found = [] if repository else list(self.levels)
        if repository:
            found.append(_load(git / "info" / "exclude", directory))
        found.append(_load(directory / ".gitignore", directory))
        return Ignored(tuple(rules for rules in found if rules.patterns))

    def covers(self, path: Path, is_directory: bool) -> bool:
        """Whether git would leave this entry out; its directory is not left out itself."""
        if path.name == ".git":
            return True
        name = f"{path}/" if is_directory else str(path)
        for rules in reversed(self.levels):
            verdict = rules.verdict(name)
            if verdict is not None:
                return verdict
        return False


def _load(file: Path, base: Path) -> _Rules:
    prefix = f"{str(base).rstrip('/')}/"
    try:
        if not file.is_file() or file.stat().st_size > _LARGEST:
            return _Rules(prefix, ())
        text = file.read_text("utf-8-sig", errors="surrogateescape")
    except OSError:
        return _Rules(prefix, ())
    rules = (git_rule(line) for line in text.split("\n"))
    return _Rules(prefix, tuple(rule for rule in rules if rule))


def _matches(regex: re.Pattern[str], path: str) -> bool:
    # pathspec also matches what lies below a directory that the pattern names. Git does not: there the directory was
    # left out already, or some other rule has taken it back in.
    for match in regex.finditer(path):
        mark = match.end(_MARK) if _MARK in regex.groupindex else -1
        if mark in (-1, len(path)):
            return True
    return False
