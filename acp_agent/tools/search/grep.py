"""The `grep` tool: lines of files by regular expression.

Searches the files on the disk by RE2, everywhere in the same way, whatever else is installed. A file is searched as a
whole, which is many times faster than line by line. Walk and search run in worker threads.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from anyio import from_thread
from pydantic import Field

from acp_agent.errors import ToolError
from acp_agent.patterns import Pattern, PatternError, compile_pattern
from acp_agent.regular import open_regular
from acp_agent.tools.arguments import Arguments, BuiltIn, titled
from acp_agent.tools.environment import Environment
from acp_agent.tools.paths import Target, refuse_keys, shown
from acp_agent.tools.search.walk import Walk
from acp_agent.tools.search.wildcards import matcher
from acp_agent.tools.text import clean, counted, cut_line, fitting
from acp_agent.tools.tool import PreparedCall

MAX_LINES = 300
MAX_CHARACTERS = 30_000
MAX_LINE = 500
MAX_FILE_BYTES = 10 * 1024 * 1024
MAX_SECONDS = 20.0


class _Grep(Arguments):
    pattern: str = Field(
        min_length=1,
        max_length=2000,
        description="Regular expression of RE2 (no lookaround, no backreferences), matched line by line.",
    )
    path: str = Field(".", description="Directory or file to search.")
    glob: str = Field("", min_length=1, description="Only files whose name matches, such as `*.{ts,tsx}`.")
    ignore_case: bool = False
    context: int = Field(0, ge=0, le=20, description="Lines to show before and after each match.")


async def _prepare(asked: _Grep, environment: Environment) -> PreparedCall:
    try:
        pattern = compile_pattern(asked.pattern, ignore_case=asked.ignore_case, multiline=True, within_lines=True)
    except PatternError as error:
        raise ToolError(f"grep: {error}. Put \\ before what is meant literally.") from error
    target = Target.of(asked.path, environment)
    matches = matcher(asked.glob, target.path) if asked.glob else None
    refuse_keys(target.path, environment.private, target.label)
    search = _Search(pattern, target, matches, asked.context)
    return target.search("grep", f"Search for {asked.pattern}{target.where}", "search", search.run)


@dataclass(slots=True)
class _Search:
    """One search, which runs in a worker thread."""

    pattern: Pattern
    target: Target
    matches: Callable[[Path], bool] | None
    context: int
    lines: list[str] = field(default_factory=list[str])
    cut: bool = False
    searched: int = 0
    skipped: int = 0

    def run(self) -> str:
        """Search, and return the answer; ends between two files when its caller is cancelled or the time is up.

        :raises ToolError: the target cannot be searched.
        """
        walk = None if self.target.path.is_file() else Walk(self.target.path, closed=self.target.closed)
        files = [
            entry.path
            for entry in walk or ()
            if not (entry.is_directory or entry.is_link) and (self.matches is None or self.matches(entry.path))
        ]
        late, deadline = False, time.monotonic() + MAX_SECONDS
        for path in files if walk else [self.target.path]:
            from_thread.check_cancelled()
            late = time.monotonic() > deadline
            if self.cut or late:
                break
            self._search(path)
        lines = fitting(map(clean, self.lines), MAX_CHARACTERS)
        if not self.lines:
            lines.append(f"No line matches in {counted(self.searched, 'file')}.")
        elif len(lines) < len(self.lines) or self.cut:
            lines.append("(there are more; narrow the pattern, the directory or the glob)")
        if late:
            lines.append(f"(stopped after {MAX_SECONDS:g} seconds; name fewer files with path or glob)")
        if walk and walk.cut:
            lines.append(f"(files were looked for until it stopped {walk.cut}; search a directory below)")
        skipped = self.skipped + (walk.unreadable if walk else 0)
        if skipped:
            places = counted(skipped, "place")
            lines.append(f"({places} not searched: unreadable, or larger than {MAX_FILE_BYTES >> 20} MiB)")
        return "\n".join(lines)

    def _search(self, path: Path) -> None:
        try:
            refuse_keys(path, self.target.environment.private, path.name)
            with open_regular(path) as file:
                data = file.read(MAX_FILE_BYTES + 1)
        except (OSError, ToolError):
            data = None
        if data is None or len(data) > MAX_FILE_BYTES:
            self.skipped += 1
            return
        self.searched += 1
        if data and b"\0" not in data[:8192]:
            text = data.decode("utf-8", "replace").replace("\r\n", "\n").removesuffix("\n")
            self._search_text(text.encode(), shown(path, self.target.environment.cwd))

    def _search_text(self, data: bytes, name: str) -> None:
        number = start = 0
        hits: list[int] = []
        while start <= len(data) and (span := self.pattern.search(data, start)) is not None:
            if len(self.lines) + len(hits) >= MAX_LINES:
                self.cut = True
                break
            number += data.count(b"\n", start, span[0]) + 1
            hits.append(number)
            end = data.find(b"\n", span[1])
            start = (len(data) if end < 0 else end) + 1
        lines = data.decode().split("\n") if hits else []
        for at in sorted({near for hit in hits for near in range(hit - self.context, hit + self.context + 1)}):
            if 0 < at <= len(lines):
                sign = ":" if at in hits else "-"
                self.lines.append(f"{name}{sign}{at}{sign}{cut_line(lines[at - 1], MAX_LINE)}")


GREP = BuiltIn(
    "grep",
    "Search files on the disk for a regular expression, line by line. Answers with `path:line:text`, context lines "
    "with `path-line-text`. "
    "What git ignores, binary files and symbolic links are left out; a file that `path` "
    f"names is searched in any case. At most {MAX_LINES} lines are shown.",
    _Grep,
    _prepare,
    title=titled("Search for", "pattern"),
    kind="search",
)
