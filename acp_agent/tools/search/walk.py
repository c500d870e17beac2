"""Walking a directory tree within bounds, without what git ignores.

Symbolic links are listed and never followed, so that a loop or a link out of the tree does no harm. A walk runs in a
worker thread and ends when its caller is cancelled.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
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


class _LateError(Exception):
    """The time is up."""


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
    :ivar unread: files of ignore rules that are too large, and so were not used.
    """

    base: Path
    depth: int = 100
    show_ignored: bool = False
    enter_ignored: bool = False
    closed: Path | None = None
    cut: str = ""
    unreadable: int = 0
    unread: list[Path] = field(default_factory=list[Path])

    def __iter__(self) -> Iterator[Found]:
        """Walk the folder; call it in a worker thread of anyio only.

        :raises ToolError: the directory to start in cannot be read.
        """
        from_thread.check_cancelled()
        deadline = time.monotonic() + MAX_SECONDS

        def check() -> None:
            from_thread.check_cancelled()
            if time.monotonic() > deadline:
                raise _LateError

        try:
            names = _scan(self.base)
        except OSError as error:
            raise ToolError(f"{printable(str(self.base))} cannot be listed: {because(error)}.") from error
        # A stack of iterators and no recursion: a tree can be deeper than Python's stack.
        top = Ignored.at(self.base)
        self.unread += top.unread
        levels = [(names, top, False)]
        while levels:
            entries, rules, within = levels[-1]
            if not entries:
                levels.pop()
                continue
            entry = entries.pop()
            is_directory = entry.is_dir(follow_symlinks=False)
            path = Path(entry.path)
            try:
                check()
                ignored = within or rules.covers(path, is_directory, check)
            except _LateError:
                self.cut = f"after {MAX_SECONDS:g} seconds"
                return
            if ignored and not self.show_ignored:
                continue
            yield Found(path, len(levels), is_directory, entry.is_symlink(), ignored)
            is_open = not ignored or (self.enter_ignored and entry.name != ".git")
            if is_directory and is_open and path != self.closed and len(levels) < self.depth:
                try:
                    names = _scan(path)
                except OSError:
                    self.unreadable += 1
                    continue
                below = rules if ignored else rules.entering(path)
                if not ignored:
                    self.unread += below.unread
                levels.append((names, below, ignored))


def unread_note(files: Sequence[Path], base: Path) -> str:
    """Return a sentence without a full stop about ignore rules that were not used; empty if there are none.

    :param base: the directory that the walk started in.
    """
    if not files:
        return ""
    more = f" and {len(files) - 1} more" if len(files) > 1 else ""
    name = printable(os.path.relpath(files[0], base))
    return f"{name}{more} is too large to be read (256 KiB at most), so what it ignores is not left out"


def _scan(directory: Path) -> list[os.DirEntry[str]]:
    """Return the entries of a directory, the last by name first, so that they can be popped."""
    with os.scandir(directory) as entries:
        return sorted(entries, key=lambda entry: entry.name, reverse=True)
