"""What a command has made that other programs act on by themselves: found after it, and made harmless."""

from __future__ import annotations

import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Protocol

from acp_agent.frozen import frozen
from acp_agent.sandbox.nested import MARKS, gitlinks_below, marks_below, repositories_in
from acp_agent.sandbox.neutral import common_directory, neutralise
from acp_agent.sandbox.policy import Policy

_COARSE_NS = 20_000_000
_ANEW = ("", "config")
_MOST_HOOKS = 100
_SETTINGS = ("config", "config.worktree", "commondir", "hooks")


@frozen
class Planted:
    """Something that a command has made.

    :ivar place: the folder that it is in, or for a gitlink the folder that it names; absolute.
    :ivar mark: what was made there: a `.git`, a bare repository, `.acp-agent` or `.claude`; None for a gitlink.
    :ivar done: what was done about it, as texts for the user; empty if nothing had to be done.
    """

    place: Path
    mark: Path | None
    done: tuple[str, ...] = ()


class Keeper(Protocol):
    """Remembers what commands make."""

    def is_made(self, path: Path) -> bool:
        """Return whether a command has made this file or folder."""
        ...

    def keep(self, planted: Sequence[Planted]) -> None:
        """Remember what a command has made, and have the user told of it."""
        ...


@frozen
class Before:
    """What there was in the roots when a command began.

    :ivar marks: each with its inode.
    :ivar links: the gitlinks.
    :ivar is_whole: whether the walk was not ended early.
    :ivar at: when it was, in nanoseconds since the epoch.
    """

    marks: Mapping[Path, int]
    links: frozenset[Path]
    is_whole: bool
    at: int


def look(roots: Sequence[Path]) -> Before:
    """Return what there is in some folders now. Touches the disk."""
    marks: dict[Path, int] = {}
    links: set[Path] = set()
    at, is_whole = time.time_ns(), True
    for root in roots:
        found, was_whole = marks_below(root)
        marks.update(found)
        is_whole &= was_whole
        links |= gitlinks_below(root, found)
    return Before(marks, frozenset(links), is_whole, at)


@contextmanager
def watched(before: Before, policy: Policy, keeper: Keeper) -> Generator[None]:
    """Find what a command makes inside the `with` block, and make it harmless at its end.

    :param policy: of the command.
    """
    protected = {*policy.nested, *(root / ".git" for root in policy.roots)}
    known = {common_directory(git) for _, git in repositories_in(protected)}
    try:
        yield
    finally:
        with suppress(OSError):
            after = look(policy.roots)
            made = [mark for mark, inode in after.marks.items() if before.marks.get(mark) != inode]
            made = [mark for mark in made if _is_filled(mark) and (before.is_whole or _times(mark, _ANEW) >= before.at)]
            left = [mark for mark in after.marks if mark not in made and mark not in protected]
            again = [mark for mark, git in repositories_in(left) if keeper.is_made(mark) or _set(git) >= before.at]
            done = _neutralised([*made, *again], known, (*policy.open, *policy.write))
            found = [Planted(_place(mark), mark, done.get(mark, ())) for mark in made]
            found += (Planted(_place(mark), mark, done[mark]) for mark in again if done.get(mark))
            found += (Planted(place, None) for place in sorted(after.links - before.links))
            if found:
                keeper.keep(found)


def _neutralised(marks: Sequence[Path], known: set[Path], writable: Sequence[Path]) -> dict[Path, tuple[str, ...]]:
    done: dict[Path, tuple[str, ...]] = {}
    for mark, git in repositories_in(marks):
        for each in dict.fromkeys((git, common_directory(git))):
            if each not in known:
                done[mark] = (*done.get(mark, ()), *neutralise(each, writable))
    return done


def _is_filled(mark: Path) -> bool:
    """Return whether something is in a folder; an empty one does nothing, and may be a placeholder."""
    return not mark.is_dir() or any(mark.iterdir())


def _set(git: Path) -> int:
    """Return when the settings or hooks of a git directory last changed."""
    common = common_directory(git)
    hooks = [f"hooks/{name}" for name in islice(_names_in(common / "hooks"), _MOST_HOOKS)]
    return _times(common, (*_SETTINGS, *hooks))


def _names_in(folder: Path) -> list[str]:
    try:
        return sorted(path.name for path in folder.iterdir())
    except OSError:
        return []


def _times(folder: Path, names: Sequence[str]) -> int:
    """Return when one of some paths last changed, in nanoseconds, and a little later since clocks of files are coarse.

    :param names: relative to the folder; an empty one is the folder itself.
    """
    times = [0]
    for name in names:
        with suppress(OSError):
            times.append((folder / name).lstat().st_ctime_ns + _COARSE_NS)
    return max(times)


def _place(mark: Path) -> Path:
    return mark.parent if mark.name in MARKS else mark
