"""The `list` tool: what is in a directory."""

from __future__ import annotations

import anyio.to_thread
from pydantic import Field

from acp_agent.conversation.messages import JsonObject, Text
from acp_agent.tools.arguments import Arguments, BuiltIn
from acp_agent.tools.environment import Environment
from acp_agent.tools.paths import Target, printable, require_directory, within
from acp_agent.tools.search.walk import Walk
from acp_agent.tools.text import counted
from acp_agent.tools.tool import Outcome, PreparedCall

_MAX_LISTED = 500
MAX_CHARACTERS = 30_000
_MOST_IGNORED_NAMED = 5


class _ListArguments(Arguments):
    path: str = Field(".", description="The directory.")
    depth: int = Field(1, ge=1, le=20, description="How many levels to show.")


class ListTool(BuiltIn):
    """Shows a directory as an indented tree."""

    name = "list"
    description = (
        "List a directory. Directories end with a slash; what git ignores is only counted. "
        f"At most {_MAX_LISTED} entries are shown."
    )
    arguments = _ListArguments
    verb = "List"

    async def prepare(self, arguments: JsonObject, environment: Environment) -> PreparedCall:
        """Find out which directory; see `Tool.prepare`."""
        asked = _ListArguments.read(self.name, arguments)
        target = Target.of(asked.path, environment)
        view = target.view(f"List {target.label}", "read")

        async def run() -> Outcome:
            return Outcome((Text(await anyio.to_thread.run_sync(_listing, target, asked.depth)),), view)

        return target.call(self.name, view, run)


def _listing(target: Target, depth: int) -> str:
    require_directory(target.path, target.label)
    walk = Walk(target.path, depth, show_ignored=True, closed=within(target.path, target.environment.private))
    lines: list[str] = []
    ignored: list[str] = []
    size = hidden = 0
    for found in walk:
        name = printable(found.path.name) + ("/" if found.is_directory else " (link)" if found.is_link else "")
        if found.ignored:
            if found.path.name != ".git":
                hidden += 1
                ignored.append(printable(str(found.path.relative_to(target.path))) + "/" * found.is_directory)
                del ignored[_MOST_IGNORED_NAMED:]
            continue
        line = "  " * (found.depth - 1) + name
        size += len(line) + 1
        if len(lines) >= _MAX_LISTED or size > MAX_CHARACTERS:
            lines.append(f"(cut after {counted(len(lines), 'entry')}; list a directory below, or use glob)")
            break
        lines.append(line)
    if not lines:
        lines.append(f"({target.label} is empty.)")
    if hidden:
        names = ", ".join(ignored) + (", …" if hidden > len(ignored) else "")
        lines.append(f"({counted(hidden, 'entry')} ignored by git not shown: {names})")
    if walk.cut:
        lines.append(f"(stopped {walk.cut})")
    if walk.unreadable:
        lines.append(f"({counted(walk.unreadable, 'directory')} could not be read)")
    return "\n".join(lines)
