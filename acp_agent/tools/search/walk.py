"""Walking a directory tree within bounds, without what git ignores.

Symbolic links are listed and never followed, so that a loop or a link out of the tree does no harm. A walk runs in a
worker thread and ends when its caller is cancelled.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

from anyio import from_thread

from acp_agent.errors import ToolError
from acp_agent.frozen import frozen
from acp_agent.tools.paths import because, printable
from acp_agent.tools.search.ignore import Ignored

MAX_SECONDS = 10.0
_MAX_DEPTH = 100


@frozen
class Found:
    """One entry of a tree; `path` begins with the directory that the walk started in."""

    path: Path
    depth: int
    is_directory: bool
    is_link: bool
    ignored: bool = False


class Walk:
    """One walk, in the order of names, a directory before what is in it.

    :param base: absolute path of an existing directory.
    :param depth: how many levels; all that there may be where None.
    :param closed: a directory that is not entered, as the walk comes to it; None: every one is.
    :ivar cut: why the walk ended early, as the end of a sentence; empty where it did not.
    """

    def __init__(
        self, base: Path, depth: int | None = None, *, show_ignored: bool = False, closed: Path | None = None
    ) -> None:
        self.base = base
        self._closed = closed
        self.cut = ""
        self.unreadable = 0
        self._depth = depth or _MAX_DEPTH
        self._show_ignored = show_ignored
        self._deadline = time.monotonic() + MAX_SECONDS

    def __iter__(self) -> Iterator[Found]:
        """Walk; call it in a worker thread of anyio only.

        :raises ToolError: the directory to start in cannot be read.
        """
        from_thread.check_cancelled()
        try:
            names = _scan(self.base)
        except OSError as error:
            raise ToolError(f"{printable(str(self.base))} cannot be listed: {because(error)}.") from error
        # A stack of iterators and no recursion: a tree can be deeper than Python's stack.
        levels = [(names, Ignored.at(self.base))]
        while levels:
            entries, rules = levels[-1]
            if not entries:
                levels.pop()
                continue
            entry = entries.pop()
            is_directory = entry.is_dir(follow_symlinks=False)
            path = Path(entry.path)
            ignored = rules.covers(path, is_directory)
            if ignored and not self._show_ignored:
                continue
            yield Found(path, len(levels), is_directory, entry.is_symlink(), ignored)
            if is_directory and not ignored and path != self._closed and len(levels) < self._depth:
                from_thread.check_cancelled()
                if time.monotonic() > self._deadline:
                    self.cut = f"after {MAX_SECONDS:g} seconds"
                    return
                try:
                    levels.append((_scan(path), rules.entering(path)))
                except OSError:
                    self.unreadable += 1


def _scan(directory: Path) -> list[os.DirEntry[str]]:
    """Return the entries of a directory, the last by name first, so that they can be popped."""
    with os.scandir(directory) as entries:
        return sorted(entries, key=lambda entry: entry.name, reverse=True)
