"""Walks a directory tree within limits, skipping files that git ignores.

Symbolic links are listed but never followed, so a loop or a link out of the tree does
no harm. A walk runs in a worker thread and ends when its caller is cancelled.
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
from acp_agent.nofollow import entries_of, resolved
from acp_agent.tools.path_errors import because, printable
from acp_agent.tools.search.wildcards import Ignored

MAX_SECONDS = 10.0


@frozen
class FoundPath:
    """One entry of a tree; `path` begins with the directory that the walk started in."""

    path: Path
    depth: int
    is_directory: bool
    is_link: bool
    ignored: bool = False


class _LateError(Exception):
    """Raised when the time limit has passed."""


@dataclass(slots=True)
class Walk:
    """One walk, sorted by name, with each directory before its contents.

    :ivar base: absolute path of an existing directory. The paths of all entries begin
        with it.
    :ivar real: the same directory with all links resolved. This path is read, and a
        link that has appeared in it since is refused. None resolves `base`.
    :ivar depth: maximum number of levels.
    :ivar show_ignored: whether to include entries that git ignores.
    :ivar enter_ignored: whether to enter directories that git ignores; `.git` is never
        entered.
    :ivar closed: resolved paths of directories that are not entered.
    :ivar cut: why the walk ended early, as the end of a sentence; empty if it did not.
    :ivar unreadable: how many directories could not be read.
    :ivar unread: ignore files that are too large and were not used.
    """

    base: Path
    depth: int = 100
    show_ignored: bool = False
    enter_ignored: bool = False
    closed: frozenset[Path] = frozenset()
    real: Path | None = None
    cut: str = ""
    unreadable: int = 0
    unread: list[Path] = field(default_factory=list[Path])

    def __iter__(self) -> Iterator[FoundPath]:
        """Walk the folder. Call this only from an anyio worker thread.

        :raises ToolError: if the directory to start in cannot be read.
        """
        from_thread.check_cancelled()
        deadline = time.monotonic() + MAX_SECONDS

        def check() -> None:
            from_thread.check_cancelled()
            if time.monotonic() > deadline:
                raise _LateError

        try:
            real = self.real or resolved(self.base)
            names = entries_of(real)[::-1]
        except OSError as error:
            raise ToolError(
                f"{printable(str(self.base))} cannot be listed: {because(error)}."
            ) from error
        # A stack, since a tree can be deeper than Python's recursion limit. Names are
        # reversed, to be popped in order.
        top = Ignored.at(self.base)
        self.unread += top.unread
        levels = [(self.base, real, names, top, False)]
        while levels:
            above, real, entries, rules, within = levels[-1]
            if not entries:
                levels.pop()
                continue
            entry = entries.pop()
            is_directory = entry.is_folder
            path = above / entry.name
            try:
                check()
                ignored = within or rules.covers(path, is_directory, check)
            except _LateError:
                self.cut = f"after {MAX_SECONDS:g} seconds"
                return
            if ignored and not self.show_ignored:
                continue
            yield FoundPath(path, len(levels), is_directory, entry.is_link, ignored)
            is_open = not ignored or (self.enter_ignored and entry.name != ".git")
            below = real / entry.name
            if (
                is_directory
                and is_open
                and len(levels) < self.depth
                and below not in self.closed
            ):
                try:
                    names = entries_of(below)[::-1]
                except OSError:
                    self.unreadable += 1
                    continue
                inner = rules if ignored else rules.entering(path)
                if not ignored:
                    self.unread += inner.unread
                levels.append((path, below, names, inner, ignored))


def unread_note(files: Sequence[Path], base: Path) -> str:
    """Return a sentence without a full stop about ignore files that were not used;
    empty if there are none.

    :param base: the directory that the walk started in.
    """
    if not files:
        return ""
    more = f" and {len(files) - 1} more" if len(files) > 1 else ""
    name = printable(os.path.relpath(files[0], base))
    return f"the rules in {name}{more} were not applied, since an ignore file may have at most 256 KiB"
