"""The `write` tool: a whole file, new or replaced."""

from __future__ import annotations

from functools import partial

from pydantic import Field

from acp_agent.tools.arguments import Arguments, BuiltIn, titled
from acp_agent.tools.environment import Environment
from acp_agent.tools.files.changes import permitted_change, prepared_change, seen_text
from acp_agent.tools.paths import Target
from acp_agent.tools.text import counted
from acp_agent.tools.tool import PreparedCall

_BOM = "\ufeff"


class _Write(Arguments):
    path: str = Field(description="The file; directories on the way are made.")
    content: str = Field(description="All of its text.")


async def _prepare(asked: _Write, environment: Environment) -> PreparedCall:
    target = Target.of(asked.path, environment, edited=True)
    return await permitted_change(target, "Write", partial(_change, asked, target))


async def _change(asked: _Write, target: Target) -> PreparedCall:
    before = await seen_text(target)
    after = asked.content if before is None else _in_the_form_of(before, asked.content)
    lines = counted(len(after.splitlines()), "line")
    done = f"Made {target.label} ({lines})." if before is None else f"Wrote {target.label} ({lines})."
    if before == after:
        done = f"{target.label} already has exactly this text; nothing was written."
    return prepared_change(target, before, after, "Write", done)


def _in_the_form_of(before: str, after: str) -> str:
    """Return the new text with the byte order mark and the CRLF line ends of the old, which models leave out."""
    if before.startswith(_BOM) and not after.startswith(_BOM):
        after = _BOM + after
    crlf = before.count("\r\n")
    if crlf and crlf == before.count("\n") and "\r\n" not in after:
        after = after.replace("\n", "\r\n")
    return after


WRITE = BuiltIn(
    "write",
    "Make a file, or replace the whole text of one. An existing file must have been read before, and read again "
    "when it has changed since. To change parts of a file, use `edit` instead.",
    _Write,
    _prepare,
    title=titled("Write"),
    kind="edit",
)
