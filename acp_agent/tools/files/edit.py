"""The `edit` tool: exact replacement in a file that was read, several edits in order, all of them or none."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial

import anyio.to_thread
from pydantic import Field

from acp_agent.errors import ToolError
from acp_agent.tools.arguments import Arguments, BuiltIn, titled
from acp_agent.tools.environment import Environment
from acp_agent.tools.files.changes import first_changed_line, permitted_change, prepared_change, seen_text
from acp_agent.tools.paths import Target
from acp_agent.tools.text import counted
from acp_agent.tools.tool import PreparedCall

_MOST_EDITS = 200
_LINE_NUMBER = re.compile(r"^ *\d+\t", re.MULTILINE)


class _Replacement(Arguments):
    old_text: str = Field(description="The text as it stands in the file, exactly, without line numbers.")
    new_text: str = Field(description="What replaces it; empty to delete.")
    replace_all: bool = Field(False, description="Change every place; otherwise there must be exactly one.")


class _Edit(Arguments):
    path: str = Field(description="The file.")
    edits: list[_Replacement] = Field(min_length=1, max_length=_MOST_EDITS, description="Applied in order.")


async def _prepare(asked: _Edit, environment: Environment) -> PreparedCall:
    target = Target.of(asked.path, environment, edited=True)
    return await permitted_change(target, "Edit", partial(_change, asked, target))


async def _change(asked: _Edit, target: Target) -> PreparedCall:
    before = await seen_text(target)
    if before is None:
        raise ToolError(f"{target.label} does not exist. Use `write` to make it, or `glob` to find the file you mean.")
    after = await anyio.to_thread.run_sync(_apply, before, asked.edits)
    line = first_changed_line(before, after)
    done = f"Edited {target.label}: {counted(len(asked.edits), 'edit')} applied, the first change is at line {line}."
    return prepared_change(target, before, after, "Edit", done)


def _apply(text: str, replacements: Sequence[_Replacement]) -> str:
    """Apply the edits in order, each to the result of the one before.

    :raises ToolError: one of them cannot be applied; says which and why, and what to do.
    """
    crlf = text.count("\r\n")
    is_mixed = crlf not in (0, text.count("\n"))
    result = text if is_mixed else _with_plain_ends(text)
    for index, each in enumerate(replacements):
        place = f"edits[{index}]" if len(replacements) > 1 else "old_text"
        old, new = (each.old_text, each.new_text) if is_mixed else map(_with_plain_ends, (each.old_text, each.new_text))
        _check(result, old, new, each.replace_all, place)
        result = result.replace(old, new)
    return result.replace("\n", "\r\n") if crlf and not is_mixed else result


def _check(text: str, old: str, new: str, replace_all: bool, place: str) -> None:
    """Refuse an edit without a place to change, and one with more unless all are to change."""
    if not old:
        raise ToolError(f"{place}: old_text is empty. Use `write` to make a file or to replace all of it.")
    if old == new:
        raise ToolError(f"{place}: old_text and new_text are the same, so there is nothing to change.")
    start = text.find(old)
    if start < 0:
        raise ToolError(f"{place}: this text is not in the file. {_hint(text, old)} Nothing was changed.")
    # From the next character on, so that places which overlap count as two.
    again = text.find(old, start + 1)
    if not replace_all and again >= 0:
        lines = " and ".join(str(text.count("\n", 0, at) + 1) for at in (start, again))
        raise ToolError(
            f"{place}: this text is found at more than one place, first at lines {lines}. Add lines around it to make "
            "it unique, or set replace_all to change every place. Nothing was changed."
        )


def _with_plain_ends(text: str) -> str:
    return text.replace("\r\n", "\n")


def _hint(text: str, old: str) -> str:
    """Return what was probably meant by a text that was not found."""
    without_numbers = _LINE_NUMBER.sub("", old)
    if without_numbers != old and without_numbers in text:
        return (
            "It is without the line numbers: the number and the tab at the start of each line that `read` shows do not "
            "belong to the file."
        )
    if "".join(old.split()) in "".join(text.split()):
        return "Lines of it differ in white space only. Read them again and copy them exactly."
    return "Read the file again and copy the text exactly."


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
