"""Walking a directory tree within bounds, without what git ignores.

Symbolic links are listed and never followed, so that a loop or a link out of the tree does no harm. A walk runs in a
worker thread and ends when its caller is cancelled.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from anyio import from_thread

from acp_agent.errors import ToolError
from acp_agent.frozen import frozen
from acp_agent.tools.paths import because, printable
from acp_agent.tools.search.wildcards import Ignored

MAX_SECONDS = 10.0


@frozen
class Found:
    """One entry of a tree; `path` begins with the directory that the walk started in."""

    path: Path
    depth: int
    is_directory: bool
    is_link: bool
    ignored: bool = False


@dataclass(slots=True)
class Walk:
    """One walk, in the order of names, a directory before what is in it.

    :ivar base: absolute path of an existing directory.
    :ivar depth: how many levels.
    :ivar show_ignored: whether what git ignores is among it.
    :ivar enter_ignored: whether to enter directories that git ignores as well; `.git` is never entered.
    :ivar closed: a directory that is not entered, as the walk comes to it; None: every one is.
    :ivar cut: why the walk ended early, as the end of a sentence; empty where it did not.
    :ivar unreadable: how many directories could not be read.
    """

    base: Path
    depth: int = 100
    show_ignored: bool = False
    enter_ignored: bool = False
    closed: Path | None = None
    cut: str = ""
    unreadable: int = 0

    def __iter__(self) -> Iterator[Found]:
        """Walk the folder; call it in a worker thread of anyio only.

        :raises ToolError: the directory to start in cannot be read.
        """
        from_thread.check_cancelled()
        deadline = time.monotonic() + MAX_SECONDS
        try:
            names = _scan(self.base)
        except OSError as error:
            raise ToolError(f"{printable(str(self.base))} cannot be listed: {because(error)}.") from error
        # A stack of iterators and no recursion: a tree can be deeper than Python's stack.
        levels = [(names, Ignored.at(self.base), False)]
        while levels:
            entries, rules, within = levels[-1]
            if not entries:
                levels.pop()
                continue
            entry = entries.pop()
            is_directory = entry.is_dir(follow_symlinks=False)
            path = Path(entry.path)
            ignored = within or rules.covers(path, is_directory)
            if ignored and not self.show_ignored:
                continue
            yield Found(path, len(levels), is_directory, entry.is_symlink(), ignored)
            is_open = not ignored or (self.enter_ignored and entry.name != ".git")
            if is_directory and is_open and path != self.closed and len(levels) < self.depth:
                from_thread.check_cancelled()
                if time.monotonic() > deadline:
                    self.cut = f"after {MAX_SECONDS:g} seconds"
                    return
                try:
                    levels.append((_scan(path), rules if ignored else rules.entering(path), ignored))
                except OSError:
                    self.unreadable += 1


def _scan(directory: Path) -> list[os.DirEntry[str]]:
    """Return the entries of a directory, the last by name first, so that they can be popped."""
    with os.scandir(directory) as entries:
        return sorted(entries, key=lambda entry: entry.name, reverse=True)
