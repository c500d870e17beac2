"""The `edit` tool: replaces exact text in a file that the model has read. Edits apply
in order, all or none.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import anyio.to_thread
from pydantic import Field

from acp_agent.tools.arguments import Arguments, BuiltIn, titled
from acp_agent.tools.environment import Environment
from acp_agent.tools.files.changes import (
    first_changed_line,
    permitted_change,
    prepared_change,
    seen_text,
)
from acp_agent.tools.matching.controls import added_pictures
from acp_agent.tools.matching.replace import Editing
from acp_agent.tools.paths import Target
from acp_agent.tools.text import counted
from acp_agent.tools.tool import PreparedCall

_MOST_EDITS = 200


class _Replacement(Arguments):
    old_text: str = Field(description="Exactly as in the file, without line numbers.")
    new_text: str
    replace_all: bool = False


class _Edit(Arguments):
    path: str
    edits: list[_Replacement] = Field(min_length=1, max_length=_MOST_EDITS)


async def _prepare(asked: _Edit, environment: Environment) -> PreparedCall:
    target = Target.of(asked.path, environment, edited=True)
    return await permitted_change(target, "Edit", partial(_change, asked, target))


async def _change(asked: _Edit, target: Target) -> PreparedCall:
    before = await seen_text(target)
    if before is None:
        raise target.missing(
            "Use `write` to create it, or `glob` to find the file you mean."
        )
    after, notes = await anyio.to_thread.run_sync(_apply, before, asked.edits)
    line = first_changed_line(before, after)
    done = f"Edited {target.label}: {counted(len(asked.edits), 'edit')} applied, the first change is at line {line}."
    return prepared_change(
        target,
        before,
        after,
        "Edit",
        "\n".join((done, *(f"({note})" for note in notes))),
    )


def _apply(text: str, replacements: Sequence[_Replacement]) -> tuple[str, list[str]]:
    """Apply the edits in order, each to the result of the previous one.

    :returns: the new text, and notes about it for the model.
    :raises ToolError: if an edit cannot be applied; the message names the edit, the
        reason and what to do.
    """
    editing = Editing(text)
    for index, each in enumerate(replacements):
        name = f"edits[{index}]" if len(replacements) > 1 else "old_text"
        editing.replace(
            each.old_text, each.new_text, everywhere=each.replace_all, name=name
        )
    notes = [*editing.notes, added_pictures(text, editing.text)]
    return editing.text, [note for note in notes if note]


EDIT = BuiltIn(
    "edit",
    "Replace exact text in a file. Read the file first, and again if it has changed. `old_text` must occur exactly "
    "once: include enough lines around the change, or set `replace_all`. Put all changes to a file into one call. They "
    "apply in order, all or none.",
    _Edit,
    _prepare,
    title=titled("Edit"),
    kind="edit",
)
