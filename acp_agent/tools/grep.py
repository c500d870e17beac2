"""The `grep` tool: lines of files by regular expression.

Searches the files on the disk with Python's `re`, everywhere in the same way, whatever else is installed. The walk runs
in a thread, the matching in a process of its own (see `grep_worker`).
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, cast

import anyio.to_thread
from pydantic import Field

from acp_agent.conversation.events import CallView, Location
from acp_agent.conversation.messages import JsonObject, Text
from acp_agent.errors import ToolError
from acp_agent.processes import Stream, run_group
from acp_agent.tools import grep_worker
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
from acp_agent.tools.patterns import matcher
from acp_agent.tools.text import clean, counted, one_line
from acp_agent.tools.tool import Access, Outcome, PreparedCall, Report
from acp_agent.tools.walk import Walk

MAX_LINES = 300
MAX_CHARACTERS = 30_000
MAX_LINE = 500
MAX_FILE_BYTES = 10 * 1024 * 1024
MAX_SECONDS = 20.0


class _GrepArguments(Arguments):
    pattern: str = Field(
        min_length=1, max_length=2000, description="Regular expression (Python's), matched line by line."
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
        """Check the file names' pattern; see `Tool.prepare`."""
        asked = _GrepArguments.read(self.name, arguments)
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
            answer = await _search(asked, files)
            return Outcome((Text(answer.text(files)),), view)

        return PreparedCall(view, Access("read", asked_for, self.name), run)


@dataclass(slots=True)
class _Files:
    """What to search: paths to open with names to print."""

    names: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    cut: str = ""
    unreadable: int = 0


@dataclass(slots=True)
class _Answer:
    """What the worker printed; `summary` is None where it was stopped."""

    lines: list[str]
    summary: grep_worker.Summary | None

    def text(self, files: _Files) -> str:
        shown_lines: list[str] = []
        size = 0
        for line in map(clean, self.lines):
            size += len(line) + 1
            if size > MAX_CHARACTERS:
                break
            shown_lines.append(line)
        summary = self.summary
        if not self.lines:
            searched = f" in {counted(summary['searched'], 'file')}" if summary else ""
            shown_lines.append(f"No line matches{searched}.")
        if len(shown_lines) < len(self.lines) or (summary and summary["cut"]):
            shown_lines.append("(there are more; narrow the pattern, the directory or the glob)")
        if summary is None:
            shown_lines.append(
                f"(stopped after {MAX_SECONDS:g} seconds; simplify the pattern, or name fewer files with path or glob)"
            )
        if files.cut:
            shown_lines.append(f"(files were looked for until it stopped {files.cut}; search a directory below)")
        skipped = files.unreadable + (summary["skipped"] if summary else 0)
        if skipped:
            shown_lines.append(
                f"({counted(skipped, 'place')} not searched: unreadable, or larger than {MAX_FILE_BYTES >> 20} MiB)"
            )
        return "\n".join(shown_lines)


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


async def _search(asked: _GrepArguments, files: _Files) -> _Answer:
    request = grep_worker.Request(
        pattern=asked.pattern,
        ignore_case=asked.ignore_case,
        context=asked.context,
        files=files.names,
        most_lines=MAX_LINES,
        longest_line=MAX_LINE,
        largest_file=MAX_FILE_BYTES,
    )
    printed = bytearray()

    def keep(stream: Stream, data: bytes) -> None:
        if stream == "stdout":
            printed.extend(data)

    argv = (sys.executable, "-I", "-S", "-X", "utf8", grep_worker.__file__)
    try:
        with await anyio.to_thread.run_sync(_as_stdin, request) as stdin:
            code = await run_group(argv, Path("/"), timeout=MAX_SECONDS, on_data=keep, stdin=stdin)
    except OSError as error:
        raise ToolError(f"The search could not be started: {because(error)}.") from error
    answer = _Answer([], None)
    for line in printed.splitlines(keepends=True):
        if not line.endswith(b"\n"):
            break
        value = cast("str | JsonObject", json.loads(line))
        if isinstance(value, str):
            answer.lines.append(value)
        elif "error" in value:
            raise ToolError(
                f"grep: `pattern` is no regular expression: {value['error']}. Escape what is meant literally."
            )
        else:
            answer.summary = cast("grep_worker.Summary", cast("object", value))
    if answer.summary is None and code is not None:
        raise ToolError(f"The search broke off (exit code {code}). Search fewer files with `path` or `glob`.")
    return answer


def _as_stdin(request: grep_worker.Request) -> IO[bytes]:
    import tempfile

    file = tempfile.TemporaryFile()  # noqa: SIM115 - the caller closes it
    try:
        file.write(json.dumps(request).encode("ascii"))
        file.seek(0)
    except BaseException:
        file.close()
        raise
    return file
