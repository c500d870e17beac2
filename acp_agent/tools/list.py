"""The `list` tool: what is in a directory."""

from __future__ import annotations

from pathlib import Path

import anyio.to_thread
from pydantic import Field

from acp_agent.conversation.events import CallView, Location
from acp_agent.conversation.messages import JsonObject, Text
from acp_agent.tools.arguments import Arguments, schema_of, text_argument
from acp_agent.tools.environment import Environment
from acp_agent.tools.paths import (
    absolute,
    led_to,
    outside,
    printable,
    require_directory,
    require_same_place,
    shown,
    within,
)
from acp_agent.tools.text import counted, one_line
from acp_agent.tools.tool import Access, Outcome, PreparedCall, Report
from acp_agent.tools.walk import Walk

MAX_LISTED = 500
MAX_CHARACTERS = 30_000
_MOST_IGNORED_NAMED = 5


class _ListArguments(Arguments):
    path: str = Field(".", description="The directory.")
    depth: int = Field(1, ge=1, le=20, description="How many levels to show.")


class ListTool:
    """Shows a directory as an indented tree."""

    name = "list"
    description = (
        "List a directory. Directories end with a slash; what git ignores is only counted. "
        f"At most {MAX_LISTED} entries are shown."
    )

    @property
    def input_schema(self) -> JsonObject:
        """JSON Schema of the arguments."""
        return schema_of(_ListArguments)

    def preview(self, arguments: JsonObject) -> CallView:
        """Title and kind for the announcement."""
        return CallView(one_line(f"List {text_argument(arguments, 'path') or '.'}"), "read")

    async def prepare(self, arguments: JsonObject, environment: Environment) -> PreparedCall:
        """Find out which directory; see `Tool.prepare`."""
        asked = _ListArguments.read(self.name, arguments)
        path = absolute(asked.path, environment.cwd)
        label = shown(path, environment.cwd)
        asked_for = outside((path,), environment.roots, environment.private)
        title = one_line(f"List {label}") + led_to(path, asked_for, environment.cwd)
        view = CallView(title, "read", (Location(str(path)),))

        async def run(report: Report) -> Outcome:
            del report
            now = outside((path,), environment.roots, environment.private)
            require_same_place(path, asked_for, now, environment.cwd)
            text = await anyio.to_thread.run_sync(_listing, path, label, asked.depth, environment.private)
            return Outcome((Text(text),), view)

        return PreparedCall(view, Access("read", asked_for, self.name), run)


def _listing(path: Path, label: str, depth: int, private: Path | None) -> str:
    require_directory(path, label)
    walk = Walk(path, depth, show_ignored=True, closed=within(path, private))
    lines: list[str] = []
    ignored: list[str] = []
    size = hidden = 0
    for found in walk:
        name = printable(found.path.name) + ("/" if found.is_directory else " (link)" if found.is_link else "")
        if found.ignored:
            if found.path.name != ".git":
                hidden += 1
                ignored.append(printable(str(found.path.relative_to(path))) + ("/" if found.is_directory else ""))
                del ignored[_MOST_IGNORED_NAMED:]
            continue
        line = "  " * (found.depth - 1) + name
        size += len(line) + 1
        if len(lines) >= MAX_LISTED or size > MAX_CHARACTERS:
            lines.append(f"(cut after {counted(len(lines), 'entry')}; list a directory below, or use glob)")
            break
        lines.append(line)
    if not lines:
        lines.append(f"({label} is empty.)")
    if hidden:
        names = ", ".join(ignored) + (", …" if hidden > len(ignored) else "")
        lines.append(f"({counted(hidden, 'entry')} ignored by git not shown: {names})")
    if walk.cut:
        lines.append(f"(stopped {walk.cut})")
    if walk.unreadable:
        lines.append(f"({counted(walk.unreadable, 'directory')} could not be read)")
    return "\n".join(lines)
