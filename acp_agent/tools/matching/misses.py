"""Explains why a file does not contain a model's text: what the model probably meant,
and how the two differ.
"""

from __future__ import annotations

import re

from acp_agent.tools.matching.controls import Notation, code
from acp_agent.tools.text import common_length, cut_line

_LINE_NUMBER = re.compile(r"^ *\d+\t", re.MULTILINE)
_QUOTE = 200
"""Maximum number of characters to quote from a line."""


def explained(text: str, old: str) -> str:
    """Explain why a file does not contain a text.

    :param text: the text of the file, with LF as its only line end.
    :param old: the text that the model looked for, with LF as its only line end.
    """
    without_numbers = _LINE_NUMBER.sub("", old)
    if without_numbers != old and without_numbers in text:
        return (
            "The file has it without the line numbers: the number and tab at the start of each line are added by "
            "`read` and are not part of the file."
        )
    at = _but_for_blanks(text, old)
    if at is not None:
        what = _first_difference(text[at:], old[len(old) - len(old.lstrip()) :])
        return (
            f"The file has a text that differs only in white space. It begins at line {_line(text, at)}; {what}. "
            "Copy it exactly."
        )
    return _nearest(text, old)


def _line(text: str, at: int) -> int:
    return text.count("\n", 0, at) + 1


def _but_for_blanks(text: str, old: str) -> int | None:
    """Return the index in `text` at which `old` begins if white space is ignored, or
    None if `text` does not contain it.
    """
    squeezed = "".join(old.split())
    start = "".join(text.split()).find(squeezed) if squeezed else -1
    if start < 0:
        return None
    at = 0
    for line in text.split("\n"):
        length = len("".join(line.split()))
        if start < length:
            inked = [
                index for index, character in enumerate(line) if not character.isspace()
            ]
            return at + inked[start]
        start -= length
        at += len(line) + 1
    return None


def _nearest(text: str, old: str) -> str:
    """Explain how much of the beginning of `old` is in the file, and what the file
    contains instead of the rest.
    """
    lines = old.split("\n")
    first = next((index for index, line in enumerate(lines) if line.strip()), 0)
    low = first
    high = len(lines)
    while low < high:  # binary search: if a beginning is found, so is every shorter one
        middle = (low + high + 1) // 2
        if "\n".join(lines[first:middle]) in text:
            low = middle
        else:
            high = middle - 1
    if low == first:
        return "Not even its first line is in the file. Read the file again and copy the text exactly."
    at = text.find("\n".join(lines[first:low]))
    line = _line(text, at) + low - first
    there = text.split("\n")[line - 1 : line]
    if not there:
        return f"The file ends before line {low + 1} of this text. Read the file again and copy the text exactly."
    quoted = cut_line(Notation.of(there[0]).show(there[0]), _QUOTE)
    return (
        f"It matches the file from line {_line(text, at)} on, but its line {low + 1} differs: line {line} of the file "
        f"is {quoted!r}, and {_first_difference(there[0], lines[low])}. Copy that line exactly."
    )


def _first_difference(there: str, written: str) -> str:
    """Return a clause with the code points at which two texts begin to differ."""
    at = common_length(there, written)
    return f"it has {_code(there, at)} where you wrote {_code(written, at)}"


def _code(text: str, at: int) -> str:
    return code(text[at]) if at < len(text) else "nothing more"
