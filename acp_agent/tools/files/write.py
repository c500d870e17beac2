"""The `write` tool: a whole file, new or replaced."""

from __future__ import annotations

from functools import partial

import anyio.to_thread

from acp_agent.tools.arguments import Arguments, BuiltIn, titled
from acp_agent.tools.environment import Environment
from acp_agent.tools.files.changes import permitted_change, prepared_change, seen_text
from acp_agent.tools.matching.controls import added_pictures
from acp_agent.tools.matching.names import name_difference, names_alike
from acp_agent.tools.matching.replace import whole
from acp_agent.tools.paths import Target
from acp_agent.tools.text import counted
from acp_agent.tools.tool import PreparedCall


class _Write(Arguments):
    path: str
    content: str


async def _prepare(asked: _Write, environment: Environment) -> PreparedCall:
    target = Target.of(asked.path, environment, edited=True, exactly=True)
    near = Target.of(asked.path, environment, edited=True)
    # If the model has read a file whose name looks like this one, it means that file.
    if str(near.path) in environment.seen:
        target = near
    return await permitted_change(target, "Write", partial(_change, asked, target))


async def _change(asked: _Write, target: Target) -> PreparedCall:
    before = await seen_text(target)
    after = (
        asked.content
        if before is None
        else await anyio.to_thread.run_sync(whole, before, asked.content)
    )
    lines = counted(len(after.splitlines()), "line")
    done = (
        f"Created {target.label} ({lines})."
        if before is None
        else f"Wrote {target.label} ({lines})."
    )
    if before is None and (alike := names_alike(target.real.parent, target.path.name)):
        difference = name_difference(alike[0], target.path.name)
        done += f" The directory also has {alike[0]!r}, whose name has {difference}."
    if note := added_pictures(before or "", after):
        done += f" ({note})"
    if before == after:
        done = f"{target.label} already has exactly this text; nothing was written."
    return prepared_change(target, before, after, "Write", done)


WRITE = BuiltIn(
    "write",
    "Create a file and its directories, or replace the whole text of a file that you have read. To change parts of a "
    "file, use `edit`.",
    _Write,
    _prepare,
    title=titled("Write"),
    kind="edit",
)
