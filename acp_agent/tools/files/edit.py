"""The `edit` tool: exact replacement in a file that was read."""

from __future__ import annotations

import anyio.to_thread
from pydantic import Field

from acp_agent.errors import ToolError
from acp_agent.tools.arguments import Arguments, BuiltIn, titled
from acp_agent.tools.environment import Environment
from acp_agent.tools.files.changes import first_changed_line, prepared_change, require_seen, text_to_change
from acp_agent.tools.files.replacement import Replacement, apply
from acp_agent.tools.paths import absolute, shown
from acp_agent.tools.text import counted, one_line
from acp_agent.tools.tool import PreparedCall

_MOST_EDITS = 200


class _Edit(Arguments):
    path: str = Field(description="The file.")
    edits: list[Replacement] = Field(min_length=1, max_length=_MOST_EDITS, description="Applied in order.")


async def _prepare(asked: _Edit, environment: Environment) -> PreparedCall:
    path = absolute(asked.path, environment.cwd)
    label = shown(path, environment.cwd)
    before = await text_to_change(environment, path)
    if before is None:
        raise ToolError(f"{label} does not exist. Use `write` to make it, or `glob` to find the file you mean.")
    require_seen(environment, path, before)
    after = await anyio.to_thread.run_sync(apply, before, asked.edits)
    line = first_changed_line(before, after)
    done = f"Edited {label}: {counted(len(asked.edits), 'edit')} applied, the first change is at line {line}."
    return prepared_change(environment, path, before, after, one_line(f"Edit {label}"), done)


EDIT = BuiltIn(
    "edit",
    "Replace exact text in a file. The file must have been read before, and read again when it has changed since. "
    "`old_text` must occur exactly once, so take enough lines around the change, or set `replace_all`. Put all "
    "changes of one file into one call: they are applied in order, each to the result of the one before, and "
    "either all of them or none. Line ends (LF or CRLF) are kept as they are.",
    _Edit,
    _prepare,
    title=titled("Edit"),
    kind="edit",
)
