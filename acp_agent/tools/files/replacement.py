"""Exact replacement in a text: several edits in order, all of them or none."""

from __future__ import annotations

import re
from collections.abc import Sequence

from pydantic import Field

from acp_agent.errors import ToolError
from acp_agent.tools.arguments import Arguments
from acp_agent.tools.text import clean, cut_line

_LINE_NUMBER = re.compile(r"^ *\d+\t", re.MULTILINE)
_MOST_LINES_QUOTED = 40
_MOST_PLACES_NAMED = 8


class Replacement(Arguments):
    old_text: str = Field(description="The text as it stands in the file, exactly, without line numbers.")
    new_text: str = Field(description="What replaces it; empty to delete.")
    replace_all: bool = Field(False, description="Change every place; otherwise there must be exactly one.")


def apply(text: str, replacements: Sequence[Replacement]) -> str:
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
        raise ToolError(f"{place}: {_not_found(text, old)}")
    # From the next character on, so that places which overlap count as two.
    if not replace_all and text.find(old, start + 1) >= 0:
        raise ToolError(f"{place}: {_not_unique(text, old)}")


def _with_plain_ends(text: str) -> str:
    return text.replace("\r\n", "\n")


def _not_unique(text: str, old: str) -> str:
    lines: list[str] = []
    start = text.find(old)
    while start >= 0 and len(lines) < _MOST_PLACES_NAMED:
        lines.append(str(text.count("\n", 0, start) + 1))
        start = text.find(old, start + 1)
    named = ", ".join(lines) + (" and more" if start >= 0 else "")
    return (
        f"this text is found at more than one place (lines {named}). Add lines around it to make it unique, or set "
        "replace_all to change every place. Nothing was changed."
    )


def _not_found(text: str, old: str) -> str:
    """Return the error for a text that was not found, with a hint at what was probably meant."""
    without_numbers = _LINE_NUMBER.sub("", old)
    if without_numbers != old and without_numbers in text:
        return (
            "this text is not in the file, but it is without the line numbers. The number and the tab at the start of "
            "each line that `read` shows do not belong to the file. Nothing was changed."
        )
    lines = text.split("\n")
    wanted = old.strip("\n").split("\n")
    start = _same_but_for_space(lines, wanted)
    if start is not None:
        last = start + len(wanted)
        quoted = "\n".join(cut_line(line, 500) for line in lines[start : min(last, start + _MOST_LINES_QUOTED)])
        return (
            f"this text is not in the file, but lines {start + 1} to {last} differ from it in white space only. "
            f"They are exactly:\n{clean(quoted)}\nNothing was changed."
        )
    return "this text is not in the file. Read the file again and copy the text exactly. Nothing was changed."


def _same_but_for_space(lines: list[str], wanted: list[str]) -> int | None:
    bare = ["".join(line.split()) for line in wanted]
    if not any(bare):
        return None
    squeezed = ["".join(line.split()) for line in lines]
    for start in range(len(lines) - len(bare) + 1):
        if squeezed[start] == bare[0] and squeezed[start : start + len(bare)] == bare:
            return start
    return None
