"""What a sandbox found after its commands, kept in memory.

keeper = Kept()
with Sandbox((root,), (home,), keeper=keeper).wrap(...) as (_, words): ...
assert keeper.blocked == [".cursor → .cursor.blocked"]
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from acp_agent.sandbox.planted import Findings, Planted


class Kept:
    """Remembers what commands made.

    :ivar planted: repositories and settings that they created.
    :ivar blocked: a line for each guarded path that was renamed.
    :ivar unstaged: a text for each guarded path that a command staged and that was
        taken out of the index.
    :ivar unchecked: a text for each index that could not be checked or restored.
    :ivar replaced: a command for each object that a command made git replace by
        another.
    :ivar kept: names of guarded paths that git checked out and that stay.
    :ivar lost: names of sockets because of which commands could not create any.
    """

    def __init__(self) -> None:
        self.planted: list[Planted] = []
        self.blocked: list[str] = []
        self.kept: list[str] = []
        self.lost: list[str] = []
        self.unstaged: list[str] = []
        self.unchecked: list[str] = []
        self.replaced: list[str] = []

    @property
    def done(self) -> list[str]:
        """Return what was done about the planted things."""
        return [done for each in self.planted for done in each.done]

    def is_made(self, path: Path) -> bool:
        return path in [each.mark for each in self.planted]

    def refuse_sockets(self, lost: Sequence[str]) -> None:
        self.lost.extend(lost)

    def keep(self, found: Findings) -> None:
        self.planted += found.planted
        self.blocked += found.blocked
        self.unstaged += found.unstaged
        self.unchecked += found.unchecked
        self.replaced += found.replaced
        self.kept += [path.name for path in found.kept]

    def names(self, root: Path) -> list[str]:
        """Return the paths of the planted things, relative to a session's directory."""
        return [
            str((each.mark or each.place).relative_to(root)) for each in self.planted
        ]
