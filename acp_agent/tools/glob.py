"""The `glob` tool: files by name."""

from __future__ import annotations

import heapq
from pathlib import Path

import anyio.to_thread
from pydantic import Field

from acp_agent.conversation.events import CallView, Location
from acp_agent.conversation.messages import JsonObject, Text
from acp_agent.errors import ToolError
from acp_agent.tools.arguments import Arguments, schema_of, text_argument
from acp_agent.tools.environment import Environment
from acp_agent.tools.paths import absolute, led_to, outside, require_directory, require_same_place, shown, within
from acp_agent.tools.text import counted, one_line
from acp_agent.tools.tool import Access, Outcome, PreparedCall, Report
from acp_agent.tools.walk import Walk
from acp_agent.tools.wildcards import matcher

MAX_FILES = 200
MAX_CHARACTERS = 30_000


class _GlobArguments(Arguments):
    pattern: str = Field(description="Such as `*.py` (at any depth), `src/**/*.{ts,tsx}`.")
    path: str = Field(".", description="Directory to search; the pattern is relative to it.")


class GlobTool:
    """Finds files by a pattern, the newest first."""

    name = "glob"
    description = (
        "Find files by name, the last changed first. What git ignores is left out, and symbolic links are not "
        f"followed. At most {MAX_FILES} files are shown."
    )

    @property
    def input_schema(self) -> JsonObject:
        """JSON Schema of the arguments."""
        return schema_of(_GlobArguments)

    def preview(self, arguments: JsonObject) -> CallView:
        """Title and kind for the announcement."""
        return CallView(one_line(f"Find {text_argument(arguments, 'pattern')}".rstrip()), "search")

    async def prepare(self, arguments: JsonObject, environment: Environment) -> PreparedCall:
        """Check the pattern; see `Tool.prepare`."""
        asked = _GlobArguments.read(self.name, arguments)
        base = absolute(asked.path, environment.cwd)
        pattern = relative_pattern(asked.pattern, base)
        matcher(pattern)
        place = "" if base == environment.cwd else f" in {shown(base, environment.cwd)}"
        asked_for = outside((base,), environment.roots, environment.private)
        title = one_line(f"Find {asked.pattern}{place}") + led_to(base, asked_for, environment.cwd)
        view = CallView(title, "search", (Location(str(base)),))

        async def run(report: Report) -> Outcome:
            del report
            now = outside((base,), environment.roots, environment.private)
            require_same_place(base, asked_for, now, environment.cwd)
            text = await anyio.to_thread.run_sync(_found, base, pattern, environment)
            return Outcome((Text(text),), view)

        return PreparedCall(view, Access("read", asked_for, self.name), run)


def relative_pattern(pattern: str, base: Path) -> str:
    """The pattern without the directory that is searched, where a model put that in front.

    :raises ToolError: it begins with some other directory.
    """
    prefix = f"{str(base).rstrip('/')}/"
    if pattern.startswith(prefix):
        return pattern[len(prefix) :]
    if pattern.startswith(("/", "~/", "../")):
        raise ToolError(
            f"The pattern {one_line(pattern)!r} is not relative to the directory that is searched. Put the directory "
            "into `path` and the rest into `pattern`."
        )
    return pattern


def _found(base: Path, pattern: str, environment: Environment) -> str:
    cwd = environment.cwd
    require_directory(base, shown(base, cwd))
    matches = matcher(pattern)
    walk = Walk(base, closed=within(base, environment.private))
    found = [
        entry.path for entry in walk if not entry.is_directory and matches(entry.path.relative_to(base).as_posix())
    ]
    newest = heapq.nsmallest(MAX_FILES, found, key=lambda path: (-_changed(path), path))
    lines: list[str] = []
    size = 0
    for path in newest:
        line = shown(path, cwd)
        size += len(line) + 1
        if size > MAX_CHARACTERS:
            break
        lines.append(line)
    if not found:
        lines.append("No file matches.")
    if len(lines) < len(found):
        lines.append(
            f"({len(lines)} of {counted(len(found), 'file')}; narrow the pattern or the directory for the rest)"
        )
    if walk.cut:
        lines.append(f"(the search stopped {walk.cut}; search a directory below)")
    return "\n".join(lines)


def _changed(path: Path) -> float:
    try:
        return path.lstat().st_mtime
    except OSError:
        return 0.0
