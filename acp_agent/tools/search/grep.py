"""The `grep` tool: lines of files by regular expression.

Searches the files on the disk by RE2, everywhere in the same way, whatever else is installed. A file is searched as a
whole, which is many times faster than line by line. Walk and search run in worker threads.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

import anyio.to_thread
from anyio import from_thread
from pydantic import Field

from acp_agent.config.home import KEYS_FILE
from acp_agent.conversation.messages import JsonObject, Text
from acp_agent.errors import ToolError
from acp_agent.patterns import Pattern, PatternError, compile_pattern
from acp_agent.tools.arguments import Arguments, BuiltIn
from acp_agent.tools.environment import Environment
from acp_agent.tools.paths import Target, because, refuse_keys, require_directory, shown, within
from acp_agent.tools.search.walk import Walk
from acp_agent.tools.search.wildcards import matcher
from acp_agent.tools.text import clean, counted, fitting
from acp_agent.tools.tool import Outcome, PreparedCall

MAX_LINES = 300
MAX_CHARACTERS = 30_000
MAX_LINE = 500
MAX_FILE_BYTES = 10 * 1024 * 1024
MAX_SECONDS = 20.0


class _GrepArguments(Arguments):
    pattern: str = Field(
        min_length=1,
        max_length=2000,
        description="Regular expression of RE2 (no lookaround, no backreferences), matched line by line.",
    )
    path: str = Field(".", description="Directory or file to search.")
    glob: str | None = Field(None, description="Only files whose name matches, such as `*.{ts,tsx}`.")
    ignore_case: bool = False
    context: int = Field(0, ge=0, le=20, description="Lines to show before and after each match.")


class GrepTool(BuiltIn):
    """Finds lines, as `path:line:text`."""

    name = "grep"
    description = (
        "Search files on the disk for a regular expression, line by line. Answers with `path:line:text`, context lines "
        "with `path-line-text`. What git ignores, binary files and symbolic links are left out; a file that `path` "
        f"names is searched in any case. At most {MAX_LINES} lines are shown."
    )
    arguments = _GrepArguments
    verb = "Search for"
    titled_by = "pattern"
    kind = "search"

    async def prepare(self, arguments: JsonObject, environment: Environment) -> PreparedCall:
        """Check both patterns; see `Tool.prepare`."""
        asked = _GrepArguments.read(self.name, arguments)
        try:
            pattern = compile_pattern(asked.pattern, ignore_case=asked.ignore_case, multiline=True, within_lines=True)
        except PatternError as error:
            raise ToolError(f"grep: {error}. Put \\ before what is meant literally.") from error
        target = Target.of(asked.path, environment)
        matches = None if asked.glob is None else matcher(asked.glob, target.path)
        refuse_keys(target.path, environment.private, target.label)
        view = target.view(f"Search for {asked.pattern}{target.where}", "search")

        async def run() -> Outcome:
            search = _Search(pattern, asked.context, target)
            await anyio.to_thread.run_sync(search.find_files, matches)
            with anyio.move_on_after(MAX_SECONDS):
                await anyio.to_thread.run_sync(search.run, abandon_on_cancel=True)
            return Outcome((Text(search.text()),), view)

        return target.call(self.name, view, run)


class _Search:
    """One search; runs in a worker thread, and what it has found by then may be read at any time."""

    def __init__(self, pattern: Pattern, context: int, target: Target) -> None:
        self._pattern = pattern
        self._context = context
        self._target = target
        self._keys = _status(target.environment.private)
        self._files: list[Path] = []
        self._walk_cut = ""
        self._lines: list[str] = []
        self._ended = False
        self._cut = False
        self._left = MAX_LINES
        self._searched = 0
        self._skipped = 0

    def find_files(self, matches: Callable[[Path], bool] | None) -> None:
        """Find out which files to search.

        :raises ToolError: the target cannot be searched.
        """
        base, label = self._target.path, self._target.label
        try:
            if base.is_file():
                self._files = [base]
                return
        except OSError as error:
            raise ToolError(f"{label} cannot be looked at: {because(error)}.") from error
        require_directory(base, label)
        walk = Walk(base, closed=within(base, self._target.environment.private))
        self._files = [
            entry.path
            for entry in walk
            if not (entry.is_directory or entry.is_link) and (matches is None or matches(entry.path))
        ]
        self._walk_cut, self._skipped = walk.cut, walk.unreadable

    def run(self) -> None:
        """Search; ends between two files when its caller is cancelled."""
        for path in self._files:
            from_thread.check_cancelled()
            self._search(path)
            if self._cut:
                break
        self._ended = True

    def text(self) -> str:
        """Return the answer, as far as it is known."""
        found = list(self._lines)
        lines = fitting(map(clean, found), MAX_CHARACTERS)
        if not found:
            searched = f" in {counted(self._searched, 'file')}" if self._ended else ""
            lines.append(f"No line matches{searched}.")
        elif len(lines) < len(found) or self._cut:
            lines.append("(there are more; narrow the pattern, the directory or the glob)")
        if not self._ended:
            lines.append(f"(stopped after {MAX_SECONDS:g} seconds; name fewer files with path or glob)")
        if self._walk_cut:
            lines.append(f"(files were looked for until it stopped {self._walk_cut}; search a directory below)")
        if self._skipped:
            places = counted(self._skipped, "place")
            lines.append(f"({places} not searched: unreadable, or larger than {MAX_FILE_BYTES >> 20} MiB)")
        return "\n".join(lines)

    def _search(self, path: Path) -> None:
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
            with os.fdopen(descriptor, "rb") as file:
                status = os.fstat(descriptor)
                if self._keys is not None and os.path.samestat(status, self._keys):
                    return
                if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_FILE_BYTES:
                    self._skipped += 1
                    return
                data = file.read(MAX_FILE_BYTES)
        except OSError:
            self._skipped += 1
            return
        self._searched += 1
        if data and b"\0" not in data[:8192]:
            text = data.decode("utf-8", "replace").replace("\r\n", "\n").removesuffix("\n")
            self._search_text(text.encode(), shown(path, self._target.environment.cwd))

    def _search_text(self, data: bytes, name: str) -> None:
        found = list(islice(self._matching(data), self._left + 1))
        lines = data.decode().split("\n") if found else []
        passed = 0  # index of the first line that is neither shown nor passed over
        for number, index in enumerate(found):
            if self._left <= 0:
                self._cut = True
                return
            first = max(passed, index - self._context)
            if self._context and self._lines and (first > passed or not passed):
                self._lines.append("--")
            following = found[number + 1] if number + 1 < len(found) else len(lines)
            passed = min(index + 1 + self._context, following, len(lines))
            for at in range(first, passed):
                line, mark = lines[at], ":" if at == index else "-"
                if len(line) > MAX_LINE:
                    line = f"{line[:MAX_LINE]}… [{len(line)} characters]"
                self._lines.append(f"{name}{mark}{at + 1}{mark}{line}")
                self._left -= 1

    def _matching(self, data: bytes) -> Iterator[int]:
        """Yield the indexes of the lines with a match."""
        index = start = 0
        while (span := self._pattern.search(data, start)) is not None:
            index += data.count(b"\n", start, span[0])
            yield index
            end = data.find(b"\n", span[1])
            if end < 0:
                return
            index, start = index + 1, end + 1


def _status(private: Path | None) -> os.stat_result | None:
    """Return the status of the file with the providers' keys, by which it is known under any name."""
    try:
        return None if private is None else (private / KEYS_FILE).stat()
    except OSError:
        return None
