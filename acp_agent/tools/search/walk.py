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
from acp_agent.nofollow import entries_of, resolved
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

    :ivar base: absolute path of an existing directory, as entries are named by.
    :ivar real: the same directory with all links resolved, which is what is read; a link that has appeared on the way
        since then is refused. None resolves `base`.
    :ivar depth: how many levels.
    :ivar show_ignored: whether what git ignores is among it.
    :ivar enter_ignored: whether to enter directories that git ignores as well; `.git` is never entered.
    :ivar closed: resolved paths of directories that are not entered.
    :ivar cut: why the walk ended early, as the end of a sentence; empty where it did not.
    :ivar unreadable: how many directories could not be read.
    :ivar unread: files of ignore rules that are too large, and so were not used.
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
            real = self.real or resolved(self.base)
            names = entries_of(real)[::-1]
        except OSError as error:
            raise ToolError(f"{printable(str(self.base))} cannot be listed: {because(error)}.") from error
        # A stack and no recursion: a tree can be deeper than Python's stack. The last name comes first, to be popped.
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
            yield Found(path, len(levels), is_directory, entry.is_link, ignored)
            is_open = not ignored or (self.enter_ignored and entry.name != ".git")
            below = real / entry.name
            if is_directory and is_open and len(levels) < self.depth and below not in self.closed:
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
    """Return a sentence without a full stop about ignore rules that were not used; empty if there are none.

    :param base: the directory that the walk started in.
    """
    if not files:
        return ""
    more = f" and {len(files) - 1} more" if len(files) > 1 else ""
    name = printable(os.path.relpath(files[0], base))
    return f"{name}{more} is too large to be read (256 KiB at most), so what it ignores is not left out"
