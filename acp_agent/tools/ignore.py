"""What git would leave out: `.gitignore` files, nested ones too, and a repository's `.git/info/exclude`.

Owns how their rules add up from a repository's top down to a directory. The rules count without a repository as well.
The user's global ignore file does not count. Knows nothing of walking.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from acp_agent.tools.wildcards import Rule, rule_of

_LARGEST = 256 * 1024


@dataclass(frozen=True, slots=True)
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
        return Ignored(tuple(level for level in found if level.rules))

    def covers(self, path: Path, is_directory: bool) -> bool:
        """Whether git would leave this entry out; its directory is not left out itself."""
        if path.name == ".git":
            return True
        for level in reversed(self.levels):
            verdict = level.verdict(str(path), is_directory)
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
    rules = (rule_of(line.removesuffix("\r")) for line in text.split("\n"))
    return _Rules(prefix, tuple(rule for rule in rules if rule))
