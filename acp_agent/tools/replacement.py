"""Exact replacement in a text: several edits in order, all of them or none.

Pure. Owns finding the text to replace, which line ends it takes, and the words for the model where it is not found or
found more than once.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence

from acp_agent.errors import ToolError
from acp_agent.frozen import frozen
from acp_agent.tools.text import clean, cut_line

_LINE_NUMBER = re.compile(r"^ *\d+\t", re.MULTILINE)
_MOST_LINES_COMPARED = 5000
_MOST_LINES_QUOTED = 40
_MOST_PLACES_NAMED = 8


@frozen
class Replacement:
    """One edit.

    :ivar old: what stands in the text now, exactly; its line ends match both `\\n` and `\\r\\n`.
    :ivar new: what shall stand there; takes the line ends of the place.
    """

    old: str
    new: str
    replace_all: bool = False


def apply(text: str, replacements: Sequence[Replacement]) -> str:
    """Apply the edits in order, each to the result of the one before.

    :raises ToolError: one of them cannot be applied; says which and why, and what to do.
    """
    # Worked on with plain line ends; `ends` holds what stood in their places, where any is CRLF.
    crlf = "\r\n" in text
    ends: list[str] = re.findall(r"\r?\n", text) if crlf else []
    usual = "\r\n" if ends.count("\r\n") * 2 > len(ends) else "\n"
    plain = _with_plain_ends(text)
    for index, replacement in enumerate(replacements):
        place = f"edits[{index}]" if len(replacements) > 1 else "old_text"
        old, new = _with_plain_ends(replacement.old), _with_plain_ends(replacement.new)
        starts = _starts(plain, old, new, replacement.replace_all, place)
        if crlf:
            ends = _new_ends(plain, ends, starts, old, new, usual)
        plain = plain.replace(old, new) if len(starts) > 1 else plain[: starts[0]] + new + plain[starts[0] + len(old) :]
    if not crlf:
        return plain
    lines = plain.split("\n")
    return "".join(line + end for line, end in zip(lines, [*ends, ""], strict=True))


def _starts(text: str, old: str, new: str, replace_all: bool, place: str) -> list[int]:
    """Where the text to replace begins; one place unless all are to change."""
    if not old:
        raise ToolError(f"{place}: old_text is empty. Use `write` to make a file or to replace all of it.")
    if old == new:
        raise ToolError(f"{place}: old_text and new_text are the same, so there is nothing to change.")
    start = text.find(old)
    if start < 0:
        raise ToolError(f"{place}: {_not_found(text, old)}")
    starts = [start]
    if replace_all:
        while (start := text.find(old, start + len(old))) >= 0:
            starts.append(start)
    # From the next character on, so that places which overlap count as two.
    elif text.find(old, start + 1) >= 0:
        raise ToolError(f"{place}: {_not_unique(text, old)}")
    return starts


def _new_ends(text: str, ends: list[str], starts: list[int], old: str, new: str, usual: str) -> list[str]:
    """The line ends after a replacement: new lines take those of the lines that they replace."""
    result: list[str] = []
    taken = position = 0
    for start in starts:
        kept = taken + text.count("\n", position, start)
        replaced = kept + old.count("\n")
        result += ends[taken:kept]
        result += [ends[kept] if replaced > kept else usual] * new.count("\n")
        taken, position = replaced, start + len(old)
    return result + ends[taken:]


def _with_plain_ends(text: str) -> str:
    return text.replace("\r\n", "\n")


def _not_unique(text: str, old: str) -> str:
    lines: list[int] = []
    start = text.find(old)
    while start >= 0 and len(lines) <= _MOST_PLACES_NAMED:
        lines.append(text.count("\n", 0, start) + 1)
        start = text.find(old, start + 1)
    more = len(lines) > _MOST_PLACES_NAMED
    named = ", ".join(map(str, lines[:_MOST_PLACES_NAMED])) + (" and more" if more else "")
    return (
        f"this text is found at more than one place (lines {named}). Add lines around it to make it unique, or set "
        "replace_all to change every place. Nothing was changed."
    )


def _not_found(text: str, old: str) -> str:
    """Say so, with the most helpful thing that can be said about the text that was meant."""
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
        if len(wanted) <= _MOST_LINES_QUOTED:
            quote = clean("\n".join(cut_line(line, 500) for line in lines[start:last]))
            return (
                f"this text is not in the file, but lines {start + 1} to {last} differ from it in white space only. "
                f"They are exactly:\n{quote}\nNothing was changed."
            )
        return (
            f"this text is not in the file, but lines {start + 1} to {last} differ from it in white space only. Read "
            "them and copy them exactly. Nothing was changed."
        )
    hint = _nearest(lines, wanted)
    return f"this text is not in the file. {hint}Read the file again and copy the text exactly. Nothing was changed."


def _same_but_for_space(lines: list[str], wanted: list[str]) -> int | None:
    bare = ["".join(line.split()) for line in wanted]
    if not any(bare):
        return None
    squeezed = ["".join(line.split()) for line in lines]
    for start in range(len(lines) - len(bare) + 1):
        if squeezed[start] == bare[0] and squeezed[start : start + len(bare)] == bare:
            return start
    return None


def _nearest(lines: list[str], wanted: list[str]) -> str:
    """Name the line that is most like the longest one asked for."""
    target = max((line.strip() for line in wanted), key=len)[:300]
    stripped = [line.strip()[:300] for line in lines[:_MOST_LINES_COMPARED]]
    found = difflib.get_close_matches(target, set(stripped), n=1, cutoff=0.6)
    if not found:
        return ""
    line = stripped.index(found[0])
    return f"The nearest is line {line + 1}: {clean(lines[line].strip())[:300]!r}. "
