"""A change of a file as lines of a patch, each with what it is."""

from __future__ import annotations

from typing import Literal, TypeAlias

from acp_agent.commands.safe import Safe
from acp_agent.conversation.events import CallView, Diff
from acp_agent.server.v2.diffs import patch
from acp_agent.tools.text import counted

LONGEST = 60
"""Lines of one change that are shown."""

Change: TypeAlias = Literal["file", "place", "added", "removed", "same"]
_KINDS: dict[str, Change] = {"+": "added", "-": "removed", "@": "place"}


def change_lines(view: CallView, cwd: str, safe: Safe) -> list[tuple[Change, str]]:
    """What a call changes, or would change: for each file its name, and the lines around what is another one.

    :param cwd: paths below it are shown relative to it.
    :param safe: makes a text safe to be shown, before it is lines.
    """
    first_lines = {place.path: place.line for place in view.locations if place.line is not None}
    lines: list[tuple[Change, str]] = []
    for diff in view.diffs:
        lines.append(("file", diff.path.removeprefix(f"{cwd.rstrip('/')}/")))
        lines += _lines(diff, first_lines.get(diff.path), safe)
    return lines


def _lines(diff: Diff, line: int | None, safe: Safe) -> list[tuple[Change, str]]:
    text = patch(diff, line)
    if text is None:
        return [("same", "(the change is too large to be shown)")]
    text = safe(text)
    # Before the first hunk stands what git wants to know.
    begins = text.find("@@ -")
    hunks = text[begins:].removesuffix("\n").split("\n") if begins >= 0 else []
    shown: list[tuple[Change, str]] = [(_KINDS.get(each[:1], "same"), each) for each in hunks]
    if len(shown) > LONGEST:
        left = len(shown) - LONGEST
        shown[LONGEST:] = [("same", f"(and {counted(left, 'line')} more)")]
    return shown
