"""The blocks of a summary's Markdown: headings, paragraphs and fenced code; and whether its sections are there.

Reads only as much Markdown as that takes, in one pass over the lines. It does not know what a recipe is, nor what a
summary says.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Literal

from acp_agent.frozen import frozen

_LIST_MARKER = re.compile(r"(?:[-*+]|\d{1,9}[.)])(?=[ \t])")
_HEADING = re.compile(r"(#{1,6})(?:[ \t]|$)")
_NUMBERING = re.compile(r"\d+(?:\.\d+)*[.)]?\s+")


@frozen
class Block:
    """A part of a Markdown text; `text[start:end]` is what it says, without fences, markers of lists and `#`.

    :ivar outer: where the block begins with all its markers; for a fence the start of its opening line.
    :ivar after: for a fence, the end of its closing line, or None where it is never closed; otherwise `end`.
    :ivar prefix: what a line has to begin with to stand where the block does: its indentation and quote marks.
    :ivar level: of a heading; 0 for other blocks.
    """

    kind: Literal["text", "heading", "fence"]
    start: int
    end: int
    outer: int
    after: int | None
    prefix: str = ""
    level: int = 0


def blocks(text: str) -> Iterator[Block]:
    """The blocks of a Markdown text in order; each item of a list and each row of a table is a block of its own."""
    open_text: tuple[int, int, int] | None = None  # start, end, outer
    fence: tuple[str, int, int, str] | None = None  # mark, start of the opening line, start of the code, prefix
    for start, end in _lines(text):
        line = text[start:end]
        body = line.lstrip(" \t>")
        at = start + len(line) - len(body)
        if fence is not None:
            mark, outer, inner, prefix = fence
            if _closes(body, mark):
                yield Block("fence", min(inner, start), start, outer, end, prefix)
                fence = None
            continue
        marker = _LIST_MARKER.match(body)
        if marker:
            rest = body[marker.end() :].lstrip(" \t")
            at, body = at + len(body) - len(rest), rest
        mark = _opens(body)
        heading = None if mark or marker else _HEADING.match(body)
        underline = open_text is not None and _is_underline(body) and "\n" not in text[open_text[0] : open_text[1]]
        if open_text is not None and (mark or heading or marker or underline or not body.strip() or body[0] == "|"):
            kind = "heading" if underline else "text"
            level = (1 if body[0] == "=" else 2) if underline else 0
            yield Block(kind, open_text[0], open_text[1], open_text[2], open_text[1], level=level)
            open_text = None
        if underline:
            continue
        if mark:
            prefix = re.sub(r"[^>\t]", " ", text[start:at])
            fence = (mark, start, min(end + 1, len(text)), prefix)
        elif heading:
            title = body[heading.end() :].rstrip(" \t#\r")
            title_at = at + heading.end()
            yield Block("heading", title_at, title_at + len(title), start, title_at + len(title), level=len(heading[1]))
        elif body.strip():
            open_text = (open_text[0] if open_text else at, end, open_text[2] if open_text else start)
    if open_text is not None:
        yield Block("text", open_text[0], open_text[1], open_text[2], open_text[1])
    if fence is not None:
        _, outer, inner, prefix = fence
        yield Block("fence", inner, len(text), outer, None, prefix)


def missing_sections(summary: str, required: Sequence[str]) -> tuple[str, ...]:
    """Which of these sections a summary does not have, or has with nothing under them ("None." is something).

    Headings of any level count; case, white space, emphasis, numbering and a colon at the end do not.

    :param required: titles, as the recipe names them.
    """
    filled: set[str] = set()
    above: list[tuple[int, str]] = []  # headings that the present place stands under
    for block in blocks(summary):
        said = summary[block.start : block.end]
        if block.kind == "heading":
            above = [(level, title) for level, title in above if level < block.level]
            above.append((block.level, _title(said)))
        elif any(character.isalnum() for character in said):
            filled.update(title for _, title in above)
    return tuple(name for name in required if _title(name.lstrip(" #")) not in filled)


def _title(heading: str) -> str:
    plain = " ".join(re.sub(r"[*_`]", "", heading).split())
    return _NUMBERING.sub("", plain, count=1).rstrip(" :：").casefold()


def _lines(text: str) -> Iterator[tuple[int, int]]:
    """Start and end of each line, the line feed not included."""
    start = 0
    while start < len(text):
        end = text.find("\n", start)
        end = len(text) if end < 0 else end
        yield start, end
        start = end + 1


def _opens(body: str) -> str:
    """The fence that this line opens, such as "```"; empty where it opens none."""
    for character in "`~":
        if body.startswith(character * 3):
            rest = body.lstrip(character)
            if character == "`" and "`" in rest:
                return ""
            return character * (len(body) - len(rest))
    return ""


def _closes(body: str, mark: str) -> bool:
    body = body.rstrip()
    return len(body) >= len(mark) and not body.strip(mark[0])


def _is_underline(body: str) -> bool:
    body = body.rstrip()
    return len(body) >= 2 and (not body.strip("=") or not body.strip("-"))
