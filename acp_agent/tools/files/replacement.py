"""Exact replacement in a text: several edits in order, all of them or none."""

from __future__ import annotations

import re
from collections.abc import Sequence

from pydantic import Field

from acp_agent.errors import ToolError
from acp_agent.tools.arguments import Arguments

_LINE_NUMBER = re.compile(r"^ *\d+\t", re.MULTILINE)


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
