"""The `glob` tool: files by name."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from pathlib import Path

import anyio.to_thread
from pydantic import Field

from acp_agent.conversation.messages import JsonObject, Text
from acp_agent.tools.arguments import Arguments, BuiltIn
from acp_agent.tools.environment import Environment
from acp_agent.tools.paths import Target, require_directory, shown, within
from acp_agent.tools.search.walk import Walk
from acp_agent.tools.search.wildcards import matcher
from acp_agent.tools.text import counted, fitting
from acp_agent.tools.tool import Outcome, PreparedCall

MAX_FILES = 200
MAX_CHARACTERS = 30_000


class _GlobArguments(Arguments):
    pattern: str = Field(description="Such as `*.py` (at any depth), `src/**/*.{ts,tsx}`.")
    path: str = Field(".", description="Directory to search; the pattern is relative to it.")


class GlobTool(BuiltIn):
    """Finds files by a pattern, the newest first."""

    name = "glob"
    description = (
        "Find files by name, the last changed first. What git ignores is left out, and symbolic links are not "
        f"followed. At most {MAX_FILES} files are shown."
    )
    arguments = _GlobArguments
    verb = "Find"
    titled_by = "pattern"
    kind = "search"

    async def prepare(self, arguments: JsonObject, environment: Environment) -> PreparedCall:
        """Check the pattern; see `Tool.prepare`."""
        asked = _GlobArguments.read(self.name, arguments)
        target = Target.of(asked.path, environment)
        matches = matcher(asked.pattern, target.path)
        view = target.view(f"Find {asked.pattern}{target.where}", "search")

        async def run() -> Outcome:
            return Outcome((Text(await anyio.to_thread.run_sync(_found, target, matches)),), view)

        return target.call(self.name, view, run)


def _found(target: Target, matches: Callable[[Path], bool]) -> str:
    require_directory(target.path, target.label)
    walk = Walk(target.path, closed=within(target.path, target.environment.private))
    files = (entry.path for entry in walk if not entry.is_directory)
    found = [path for path in files if matches(path)]
    newest = heapq.nsmallest(MAX_FILES, found, key=lambda path: (-_changed(path), path))
    lines = fitting((shown(path, target.environment.cwd) for path in newest), MAX_CHARACTERS)
    if not found:
        lines.append("No file matches.")
    if len(lines) < len(found):
        total = counted(len(found), "file")
        lines.append(f"({len(lines)} of {total}; narrow the pattern or the directory for the rest)")
    if walk.cut:
        lines.append(f"(the search stopped {walk.cut}; search a directory below)")
    return "\n".join(lines)


def _changed(path: Path) -> float:
    try:
        return path.lstat().st_mtime
    except OSError:
        return 0.0
