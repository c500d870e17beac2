"""The `list` tool: lists the contents of a directory."""

from __future__ import annotations

from pydantic import Field

from acp_agent.tools.arguments import Arguments, BuiltIn, titled
from acp_agent.tools.environment import Environment
from acp_agent.tools.path_errors import printable
from acp_agent.tools.paths import Target
from acp_agent.tools.search.walk import Walk, unread_note
from acp_agent.tools.text import counted
from acp_agent.tools.tool import PreparedCall

_MAX_LISTED = 500
MAX_CHARACTERS = 30_000


class _List(Arguments):
    path: str = "."
    depth: int = Field(1, ge=1, le=20, description="Levels to show; default 1.")


async def _prepare(asked: _List, environment: Environment) -> PreparedCall:
    target = Target.of(asked.path, environment)
    return target.search(
        "list", f"List {target.label}", "read", lambda: _listing(target, asked.depth)
    )


def _listing(target: Target, depth: int) -> str:
    walk = Walk(
        target.path, depth, show_ignored=True, closed=target.closed, real=target.real
    )
    lines: list[str] = []
    size = ignored = 0
    for found in walk:
        name = printable(found.path.name) + (
            "/" if found.is_directory else " (link)" if found.is_link else ""
        )
        if found.ignored:
            ignored += found.path.name != ".git"
            continue
        line = "  " * (found.depth - 1) + name
        size += len(line) + 1
        if len(lines) >= _MAX_LISTED or size > MAX_CHARACTERS:
            lines.append(
                f"(cut after {counted(len(lines), 'entry')}; list a subdirectory, or use glob)"
            )
            break
        lines.append(line)
    if not lines:
        lines.append(f"({target.label} is empty.)")
    if ignored:
        lines.append(f"({counted(ignored, 'entry')} that git ignores not shown)")
    if walk.cut:
        lines.append(f"(stopped {walk.cut})")
    if note := unread_note(walk.unread, target.path):
        lines.append(f"({note})")
    if walk.unreadable:
        lines.append(f"({counted(walk.unreadable, 'directory')} could not be read)")
    return "\n".join(lines)


LIST = BuiltIn(
    "list",
    f"List a directory, at most {_MAX_LISTED} entries. Files that git ignores are only counted.",
    _List,
    _prepare,
    title=titled("List"),
    kind="read",
)
