"""The `grep` tool: lines of files by regular expression.

Searches the files on the disk by RE2, everywhere in the same way, whatever else is installed. A file is searched as a
whole, which is many times faster than line by line. Walk and search run in worker threads.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import anyio.to_thread
from anyio import from_thread
from pydantic import Field

from acp_agent.conversation.events import CallView, Location
from acp_agent.conversation.messages import JsonObject, Text
from acp_agent.errors import ToolError
from acp_agent.patterns import Pattern, PatternError, compile_pattern
from acp_agent.tools.arguments import Arguments, schema_of, text_argument
from acp_agent.tools.environment import Environment
from acp_agent.tools.glob import relative_pattern
from acp_agent.tools.paths import (
    absolute,
    because,
    is_keys,
    keys_inode,
    led_to,
    outside,
    refuse_keys,
    require_directory,
    require_same_place,
    shown,
    within,
)
from acp_agent.tools.text import clean, counted, one_line
from acp_agent.tools.tool import Access, Outcome, PreparedCall, Report
from acp_agent.tools.walk import Walk
from acp_agent.tools.wildcards import matcher

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


class GrepTool:
    """Finds lines, as `path:line:text`."""

    name = "grep"
    description = (
        "Search files on the disk for a regular expression, line by line. Answers with `path:line:text`, context lines "
        "with `path-line-text`. What git ignores, binary files and symbolic links are left out; a file that `path` "
        f"names is searched in any case. At most {MAX_LINES} lines are shown."
    )

    @property
    def input_schema(self) -> JsonObject:
        """JSON Schema of the arguments."""
        return schema_of(_GrepArguments)

    def preview(self, arguments: JsonObject) -> CallView:
        """Title and kind for the announcement."""
        return CallView(one_line(f"Search for {text_argument(arguments, 'pattern')}".rstrip()), "search")

    async def prepare(self, arguments: JsonObject, environment: Environment) -> PreparedCall:
        """Check both patterns; see `Tool.prepare`."""
        asked = _GrepArguments.read(self.name, arguments)
        try:
            pattern = compile_pattern(asked.pattern, ignore_case=asked.ignore_case, multiline=True, within_lines=True)
        except PatternError as error:
            raise ToolError(f"grep: {error}. Put \\ before what is meant literally.") from error
        base = absolute(asked.path, environment.cwd)
        glob = None if asked.glob is None else relative_pattern(asked.glob, base)
        if glob is not None:
            matcher(glob)
        place = "" if base == environment.cwd else f" in {shown(base, environment.cwd)}"
        refuse_keys(base, environment.private, shown(base, environment.cwd))
        asked_for = outside((base,), environment.roots, environment.private)
        title = one_line(f"Search for {asked.pattern}{place}") + led_to(base, asked_for, environment.cwd)
        view = CallView(title, "search", (Location(str(base)),))

        async def run(report: Report) -> Outcome:
            del report
            now = outside((base,), environment.roots, environment.private)
            require_same_place(base, asked_for, now, environment.cwd)
            files = await anyio.to_thread.run_sync(_files, base, glob, environment)
            search = _Search(pattern, asked.context, files)
            with anyio.move_on_after(MAX_SECONDS):
                await anyio.to_thread.run_sync(search.run, abandon_on_cancel=True)
            return Outcome((Text(search.text()),), view)

        return PreparedCall(view, Access("read", asked_for, self.name), run)


@dataclass(slots=True)
class _Files:
    """What to search: paths to open with names to print."""

    names: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    cut: str = ""
    unreadable: int = 0


class _Search:
    """One search; runs in a worker thread, and what it has found by then may be read at any time.

    :ivar lines: what it has found, with what stands around it.
    :ivar ended: whether it has searched every file, or found as many lines as are shown.
    """

    def __init__(self, pattern: Pattern, context: int, files: _Files) -> None:
        self._pattern = pattern
        self._context = context
        self._files = files
        self.lines: list[str] = []
        self.ended = False
        self._cut = False
        self._left = MAX_LINES
        self._searched = 0
        self._skipped = 0

    def run(self) -> None:
        """Search; ends between two files when its caller is cancelled."""
        for path, name in self._files.names:
            from_thread.check_cancelled()
            self._file(path, name)
            if self._cut:
                break
        self.ended = True

    def text(self) -> str:
        """The answer, as far as it is known."""
        lines, files = list(self.lines), self._files
        shown_lines: list[str] = []
        size = 0
        for line in map(clean, lines):
            size += len(line) + 1
            if size > MAX_CHARACTERS:
                break
            shown_lines.append(line)
        if not lines:
            searched = f" in {counted(self._searched, 'file')}" if self.ended else ""
            shown_lines.append(f"No line matches{searched}.")
        if len(shown_lines) < len(lines) or self._cut:
            shown_lines.append("(there are more; narrow the pattern, the directory or the glob)")
        if not self.ended:
            shown_lines.append(f"(stopped after {MAX_SECONDS:g} seconds; name fewer files with path or glob)")
        if files.cut:
            shown_lines.append(f"(files were looked for until it stopped {files.cut}; search a directory below)")
        if skipped := files.unreadable + self._skipped:
            shown_lines.append(
                f"({counted(skipped, 'place')} not searched: unreadable, or larger than {MAX_FILE_BYTES >> 20} MiB)"
            )
        return "\n".join(shown_lines)

    def _file(self, path: str, name: str) -> None:
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
            with os.fdopen(descriptor, "rb") as file:
                status = os.fstat(descriptor)
                if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_FILE_BYTES:
                    self._skipped += 1
                    return
                data = file.read(MAX_FILE_BYTES)
        except OSError:
            self._skipped += 1
            return
        self._searched += 1
        if data and b"\0" not in data[:8192]:
            self._text(data.decode("utf-8", "replace").replace("\r\n", "\n").removesuffix("\n").encode(), name)

    def _text(self, data: bytes, name: str) -> None:
        found = list(islice(self._matching(data), self._left + 1))
        lines = data.decode().split("\n") if found else []
        passed = 0  # index of the first line that is neither shown nor passed over
        for number, index in enumerate(found):
            if self._left <= 0:
                self._cut = True
                return
            first = max(passed, index - self._context)
            if self._context and self.lines and (first > passed or not passed):
                self.lines.append("--")
            following = found[number + 1] if number + 1 < len(found) else len(lines)
            passed = min(index + 1 + self._context, following, len(lines))
            for place in range(first, passed):
                self._show(name, place, ":" if place == index else "-", lines[place])

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

    def _show(self, name: str, index: int, mark: str, line: str) -> None:
        if len(line) > MAX_LINE:
            line = f"{line[:MAX_LINE]}… [{len(line)} characters]"
        self.lines.append(f"{name}{mark}{index + 1}{mark}{line}")
        self._left -= 1


def _files(base: Path, glob: str | None, environment: Environment) -> _Files:
    cwd, private = environment.cwd, environment.private
    try:
        if base.is_file():
            return _Files([(str(base), shown(base, cwd))])
    except OSError as error:
        raise ToolError(f"{shown(base, cwd)} cannot be looked at: {because(error)}.") from error
    require_directory(base, shown(base, cwd))
    matches = None if glob is None else matcher(glob)
    walk, keys = Walk(base, closed=within(base, private)), keys_inode(private)
    found = _Files()
    for entry in walk:
        if entry.is_directory or entry.is_link:
            continue
        if entry.inode == keys and is_keys(entry.path, private):
            continue
        if matches is None or matches(entry.path.relative_to(base).as_posix()):
            found.names.append((str(entry.path), shown(entry.path, cwd)))
    found.cut, found.unreadable = walk.cut, walk.unreadable
    return found
