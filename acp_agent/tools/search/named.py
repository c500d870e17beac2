"""Finds the files that match a glob, for `glob` and `grep`, and describes files that
almost match.

Files that git ignores are found only by their full name. If a glob matches nothing
else, the answer says how many ignored files match, because the model cannot know that
they were skipped.
"""

from __future__ import annotations

import stat
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from acp_agent.nofollow import status_of
from acp_agent.tools.matching.near import differences
from acp_agent.tools.paths import Target, shown
from acp_agent.tools.search.walk import FoundPath, Walk, unread_note
from acp_agent.tools.search.wildcards import Matcher
from acp_agent.tools.text import counted, one_line

_MOST_LISTED = 3


@dataclass(slots=True)
class NamedFiles:
    """The files below a directory that match a glob. Symbolic links to directories are
    not followed.

    :ivar files: the files, in the order of their names.
    :ivar notes: what the model should know about the files; each note is a sentence
        without a full stop.
    :ivar cut: why the search ended early, as the end of a sentence; empty if it did
        not.
    :ivar unreadable: how many directories could not be read.
    :ivar closed: resolved paths to skip.
    """

    target: Target
    matcher: Matcher | None
    with_links: bool
    files: list[Path] = field(default_factory=list[Path])
    notes: list[str] = field(default_factory=list[str])
    cut: str = ""
    unreadable: int = 0
    closed: frozenset[Path] = frozenset()

    def find(self) -> None:
        """Find the files. Call this only from an anyio worker thread.

        :raises ToolError: if the directory cannot be read.
        """
        self.closed = self.target.closed
        walk = Walk(self.target.path, closed=self.closed, real=self.target.real)
        near = list[Path]()
        for entry in walk:
            if not self._counts(entry):
                continue
            if self.matcher is None or self.matcher.matches(entry.path):
                self.files.append(entry.path)
            elif self.matcher.nearly(entry.path):
                near.append(entry.path)
        self.cut = walk.cut
        self.unreadable = walk.unreadable
        if note := unread_note(walk.unread, walk.base):
            self.notes.append(note)
        if self.matcher is None:
            return
        self._add_exact(self.matcher)
        if not self.files and near:
            self.files += near
            self.notes.append(self._about_near(self.matcher, near))
        if not self.files:
            self._look_into_ignored(self.matcher)

    def _counts(self, entry: FoundPath) -> bool:
        return not entry.is_directory and (self.with_links or not entry.is_link)

    def _add_exact(self, matcher: Matcher) -> None:
        """Add the file whose full name is the glob, even if git ignores it."""
        path = matcher.exact
        if (
            path in self.files
            or ".." in path.parts
            or not path.is_relative_to(self.target.path)
        ):
            return
        real = self.target.real_of(path)
        if any(real.is_relative_to(closed) for closed in self.closed):
            return
        # This fails if the file does not exist, or if its path has a symbolic link.
        with suppress(OSError):
            if stat.S_ISREG(status_of(real).st_mode):
                self.files.append(path)

    def _about_near(self, matcher: Matcher, near: list[Path]) -> str:
        if len(near) > 1 or not matcher.is_name:
            return "no file name matches exactly; these look like it, but have other spaces, quotes, dashes or accents"
        there = near[0].relative_to(matcher.base).as_posix()
        # A name without a slash is found at any depth.
        depth = len(Path(matcher.glob).parts)
        differing = differences("/".join(Path(there).parts[-depth:]), matcher.glob)
        return f"no file has exactly this name; this one looks like it, but has {', '.join(differing)}"

    def _look_into_ignored(self, matcher: Matcher) -> None:
        """Add the matching files that git ignores if the glob is a name; otherwise only
        count them.
        """
        walk = Walk(
            self.target.path,
            closed=self.closed,
            real=self.target.real,
            show_ignored=True,
            enter_ignored=True,
        )
        found = [
            entry.path
            for entry in walk
            if self._counts(entry) and entry.ignored and matcher.matches(entry.path)
        ]
        if not found:
            return
        many = counted(len(found), "file") + (" or more" if walk.cut else "")
        if matcher.is_name:
            self.files += found
            self.notes.append(
                f"git ignores {'this file' if len(found) == 1 else 'these files'}"
            )
            return
        names = ", ".join(
            one_line(shown(path, self.target.environment.cwd))
            for path in found[:_MOST_LISTED]
        )
        self.notes.append(
            f"{many} that git ignores {'matches' if len(found) == 1 else 'match'}, such as {names}; to find them, give "
            "a name without wildcards, or set `path` to an ignored directory"
        )
