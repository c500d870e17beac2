"""The `grep` tool: finds lines of files by regular expression.

It searches files on disk with RE2, so it works the same on every machine. A file is
searched as a whole or in large blocks, which is many times faster than line by line.
The walk and the search run in a worker thread.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from dataclasses import dataclass
from pathlib import Path

from anyio import from_thread
from pydantic import Field

from acp_agent.errors import ToolError
from acp_agent.nofollow import status_of
from acp_agent.patterns import Pattern, PatternError, compile_pattern
from acp_agent.regular import open_resolved
from acp_agent.tools.arguments import Arguments, BuiltIn, titled
from acp_agent.tools.environment import Environment
from acp_agent.tools.matching.near import fold
from acp_agent.tools.path_errors import moved
from acp_agent.tools.paths import Target, refuse_keys, shown
from acp_agent.tools.search.matches import BLOCK, MAX_LINES, Matches, TooLongLineError
from acp_agent.tools.search.named import NamedFiles
from acp_agent.tools.search.wildcards import matcher
from acp_agent.tools.text import counted, fitting
from acp_agent.tools.tool import PreparedCall

MAX_CHARACTERS = 30_000
MAX_FILE_BYTES = BLOCK
"""Maximum size, in bytes, of a file that is searched unless `path` names it."""
MAX_SECONDS = 20.0


class _Grep(Arguments):
    pattern: str = Field(
        min_length=1,
        max_length=2000,
        description="RE2 syntax: no lookaround, no backreferences.",
    )
    path: str = Field(".", description="Directory or file.")
    glob: str = Field(
        "", min_length=1, description="Only these files, such as `*.{ts,tsx}`."
    )
    ignore_case: bool = False
    context: int = Field(0, ge=0, le=20, description="Lines around each match.")


async def _prepare(asked: _Grep, environment: Environment) -> PreparedCall:
    try:
        pattern = compile_pattern(
            asked.pattern,
            ignore_case=asked.ignore_case,
            multiline=True,
            within_lines=True,
        )
    except PatternError as error:
        raise ToolError(
            f"grep: {error}. Put \\ before characters that are meant literally."
        ) from error
    target = Target.of(asked.path, environment)
    named = NamedFiles(
        target,
        matcher(asked.glob, target.path) if asked.glob else None,
        with_links=False,
    )
    refuse_keys(target.real, environment.private, target.label)
    search = _Search(
        Matches(pattern, _near_pattern(asked), asked.context, asked.pattern.isascii()),
        target,
        named,
    )
    return target.search(
        "grep",
        f"Search for {asked.pattern}{target.where}",
        "search",
        search.run,
        asked.pattern,
    )


@dataclass(slots=True)
class _Search:
    """One search, which runs in a worker thread.

    :ivar moved: whether the last file was not opened because a part of its path has
        become a symbolic link.
    """

    matches: Matches
    target: Target
    named: NamedFiles
    cut_off: bool = False
    searched: int = 0
    skipped: int = 0
    moved: bool = False

    def run(self) -> str:
        """Search and return the answer. Cancellation and the time limit are checked
        after each file or block.

        :raises ToolError: if the target cannot be searched.
        """
        is_file = self._is_file()
        if not is_file:
            self.named.find()
        deadline = time.monotonic() + MAX_SECONDS
        for path in [self.target.path] if is_file else self.named.files:
            from_thread.check_cancelled()
            if self.matches.cut or self.cut_off or time.monotonic() > deadline:
                self.cut_off = not self.matches.cut
                break
            self._search(path, deadline, whole=is_file)
        if is_file and self.moved:
            raise moved(self.target.label)
        return "\n".join(self._answer())

    def _search(self, path: Path, deadline: float, *, whole: bool) -> None:
        """Search one file, in blocks if it is large.

        :param whole: whether to search the file regardless of its size.
        """
        try:
            real = self.target.real_of(path)
            refuse_keys(real, self.target.environment.private, path.name)
            if real in self.named.closed:
                return
            with open_resolved(real) as file:
                if not whole and os.fstat(file.fileno()).st_size > MAX_FILE_BYTES:
                    self.skipped += 1
                    return
                self.searched += 1
                for _ in self.matches.add(
                    shown(path, self.target.environment.cwd), file
                ):
                    from_thread.check_cancelled()
                    if time.monotonic() > deadline:
                        self.cut_off = True
                        return
        except (OSError, ToolError, TooLongLineError) as error:
            self.moved = isinstance(error, OSError) and error.errno == errno.ELOOP
            self.skipped += 1

    def _is_file(self) -> bool:
        try:
            return stat.S_ISREG(status_of(self.target.real).st_mode)
        except OSError:
            return False

    def _answer(self) -> list[str]:
        found = self.matches
        lines = fitting(found.lines, MAX_CHARACTERS)
        if not found.lines:
            lines.append(f"No line matches in {counted(self.searched, 'file')}.")
            if found.near:
                lines.append(
                    "These lines look like matches, but have other spaces, quotes, dashes or accents:"
                )
                lines += fitting(found.near, MAX_CHARACTERS)
        elif len(lines) < len(found.lines) or found.cut:
            lines.append(
                "(there are more matches; narrow the pattern, the directory or the glob)"
            )
        lines += (f"({note})" for note in (*found.legends, *self.named.notes))
        if self.cut_off:
            lines.append(
                f"(stopped after {MAX_SECONDS:g} seconds; search fewer files with path or glob)"
            )
        if self.named.cut:
            lines.append(
                f"(some files were not searched: finding them stopped {self.named.cut}; search a subdirectory)"
            )
        skipped = self.skipped + self.named.unreadable
        if skipped:
            skipped_paths = counted(skipped, "path")
            limit = f"{MAX_FILE_BYTES >> 20} MiB"
            lines.append(
                f"({skipped_paths} not searched: unreadable, or larger than {limit}; pass a large file as `path`)"
            )
        return lines


def _near_pattern(asked: _Grep) -> Pattern | None:
    """Return the folded pattern, to find lines that only look like a match, or None if
    it is not a valid pattern.
    """
    try:
        return compile_pattern(
            fold(asked.pattern),
            ignore_case=asked.ignore_case,
            multiline=True,
            within_lines=True,
        )
    except PatternError:
        return None


GREP = BuiltIn(
    "grep",
    "Search files on disk for a regular expression, line by line. Returns `path:line:text`, and `path-line-text` for "
    f"context, at most {MAX_LINES} lines. Skips binary files and files that git ignores, unless `path` names the file.",
    _Grep,
    _prepare,
    title=titled("Search for", "pattern"),
    kind="search",
)
