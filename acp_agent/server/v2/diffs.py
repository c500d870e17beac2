"""Converts file changes for version 2: the operation on each file, and a patch in git's
format.

A patch contains absolute paths without prefixes.

ACP v2, "Tool Calls", "Diffs"; git-diff(1), "Generating patch text with -p".
"""

from __future__ import annotations

import os

from acp_agent.conversation.events import CallView
from acp_agent.conversation.views import Diff
from acp_agent.protocol import JsonObject, JsonValue
from acp_agent.protocol.updates import given
from acp_agent.tools.matching.hunks import hunks

_ESCAPES = {
    '"': '\\"',
    "\\": "\\\\",
    "\a": "\\a",
    "\b": "\\b",
    "\t": "\\t",
    "\n": "\\n",
    "\v": "\\v",
    "\f": "\\f",
    "\r": "\\r",
}


def diff_items(view: CallView) -> list[JsonObject]:
    """Return a call's file changes, whether made or proposed, as at most one item of
    its content.
    """
    if not view.diffs:
        return []
    changes: list[JsonValue] = [
        {
            "operation": "add" if diff.old_text is None else "modify",
            "path": diff.path,
            "fileType": "text",
        }
        for diff in view.diffs
    ]
    first_lines = {
        place.path: place.line for place in view.locations if place.line is not None
    }
    sections = [patch(diff, first_lines.get(diff.path)) for diff in view.diffs]
    text = "".join(section for section in sections if section is not None)
    whole: JsonValue = {"format": "git_patch", "text": text} if text else None
    return [{"type": "diff", "changes": changes, **given(patch=whole)}]


def change_items(view: CallView) -> list[JsonObject]:
    """Return the files that a call has deleted, moved or copied, as at most one item of
    its content.
    """
    if not view.changes:
        return []
    changes: list[JsonValue] = [
        {
            "operation": each.operation,
            **given(oldPath=each.former),
            "path": each.path,
            **given(fileType=each.kind),
        }
        for each in view.changes
    ]
    return [{"type": "diff", "changes": changes}]


def patch(diff: Diff, line: int | None = None) -> str | None:
    """Return one file's section of a patch; None if a text was truncated, or if nothing
    changes.

    :param line: the number of the first changed line, counted from 1; None if the texts
        are the whole file.
    """
    if diff.cut:
        return None
    name = _quoted(diff.path)
    head = f"diff --git {name} {name}\n"
    if diff.old_text is None:
        head += "new file mode 100644\n"
    changed = hunks(diff.old_text or "", diff.new_text, line)
    if not changed:
        return head if diff.old_text is None else None
    # Git adds a tab after a name that contains spaces.
    named = f"{name}\t" if " " in name else name
    return f"{head}--- {'/dev/null' if diff.old_text is None else named}\n+++ {named}\n{changed}"


def _quoted(name: str) -> str:
    """Return a file name as git writes it: in quotes with escapes if it contains
    quotes, backslashes or characters that do not print.

    Source: git-config(1), `core.quotePath`, set to false; quote.c, `quote_c_style`
    """
    if name.isprintable() and not {'"', "\\"} & {*name}:
        return name
    return f'"{"".join(map(_escaped, name))}"'


def _escaped(character: str) -> str:
    if character in _ESCAPES:
        return _ESCAPES[character]
    if character.isprintable():
        return character
    return "".join(f"\\{byte:03o}" for byte in os.fsencode(character))
