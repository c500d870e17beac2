"""`MarkdownText`: Markdown that arrives in pieces, as styled rows.

Blocks are recognized line by line, since an answer is shown while it is written. The
library `markdown-it-py` parses the text within a line.

CommonMark 0.31: 4.2 "ATX headings", 4.5 "Fenced code blocks", 5.2 "List items"; GitHub
Flavored Markdown 4.10 "Tables".
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from functools import cache, lru_cache
from itertools import zip_longest
from typing import TYPE_CHECKING

from acp_agent.cli.chat.plain import PlainText, StreamedText
from acp_agent.cli.chat.wrapping import broken, joined, restyled, width_of
from acp_agent.cli.terminal.client import Line

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

_MAX_LINE = 4_000
"""Maximum length, in characters, of a line to parse. Parsing a longer line each time it
grows would take too long, so it is shown without formatting as it arrives.
"""
_MAX_PREVIEW = 2_000
"""Maximum number of characters of an unfinished line of code to show."""
_MAX_PREVIEW_ROWS = 30
"""Maximum number of rows of an unfinished table to show below its header."""
_MAX_TABLE_ROWS = 300
"""Maximum number of rows of a table to align. A longer table is shown unchanged."""
_NARROWEST_CELL = 6

# Possessive, so that no text makes a search slow.
_QUOTE_AND_ITEM = (
    r"[ \t]*+(?:>[ \t]*+)*+(?:(?:[-*+]|\d{1,9}[.)])[ \t]++)*+(?:>[ \t]*+)*+"
)
_OPENING = re.compile(rf"({_QUOTE_AND_ITEM})(`{{3,}}+(?=[^`]*+$)|~{{3,}}+)")
_HEADING = re.compile(r" {0,3}(#{1,6})[ \t]++(.*)")
_RULE = re.compile(r" {0,3}(?:=++|([-*_])(?:[ \t]*+\1){2,}+)[ \t]*+$")
_PREFIX = re.compile(rf"{_QUOTE_AND_ITEM}(?:\[[ xX]\] )?+")
_ITEM = re.compile(r"[ \t]*+(?:[-*+]|\d{1,9}[.)])(?:[ \t]|$)")
_INDENTED = re.compile(r" {4}| {0,3}\t")
_DELIMITER = re.compile(r":?-++:?")
_CELL_END = re.compile(r"(?<!\\)\|")
_MAY_BE_STYLED = re.compile(r"[*_`\[<~\\!]")
_MARKS = str.maketrans("", "", "*_`[]()<>!\\~ \t")
"""Characters that rendering a line may remove or add."""


class MarkdownText(StreamedText):
    """Renders a text line by line: headings, emphasis, code spans, links and tables.

    Fenced and indented code is not changed. A table is shown once its last row has
    arrived. Until then, the preview shows it, like any unfinished line.
    """

    def __init__(self) -> None:
        self._line: list[str] = []  # pieces of the unfinished line
        self._length = 0
        self._table: list[str] = []
        self._long: PlainText | None = None  # shows a line that is too long to parse
        self._blocks = _Blocks()

    def preview(self, columns: int) -> list[Line]:
        if self._long is not None:
            return self._long.preview(columns)
        line = "".join(self._line)
        is_code = self._blocks.is_code(line)
        table = [*self._table[:2], *self._table[2:][-_MAX_PREVIEW_ROWS:]]
        if not is_code and _is_row(line):
            return _table([*table, line], columns)
        rows = _table(table, columns)
        if is_code:
            rows.append([("code", line[-_MAX_PREVIEW:])])
        elif line:
            rows.extend(_prose(line, columns))
        return rows

    def finish(self, columns: int) -> list[Line]:
        rows = self.feed("\n", columns) if self._length else []
        self._end_table(columns, rows)
        return rows

    def _add(self, text: str, columns: int, rows: list[Line]) -> None:
        if self._long is not None:
            rows.extend(self._long.feed(text, columns))
            return
        self._line.append(text)
        self._length += len(text)
        if self._length > _MAX_LINE and not self._blocks.in_code:
            self._end_table(columns, rows)
            self._long = PlainText()
            rows.extend(self._long.feed("".join(self._line), columns))

    def _end_line(self, columns: int, rows: list[Line]) -> None:
        line = "".join(self._line)
        self._line.clear()
        self._length = 0
        if self._long is not None:
            rows.extend(self._long.finish(columns))
            self._long = None
            self._blocks.take(line)
            return
        is_code = self._blocks.take(line)
        if not is_code and _is_row(line):
            self._table.append(line)
            if len(self._table) > _MAX_TABLE_ROWS:
                self._end_table(columns, rows)
            return
        self._end_table(columns, rows)
        rows.extend([[("code", line)]] if is_code else _prose(line, columns))

    def _end_table(self, columns: int, rows: list[Line]) -> None:
        rows.extend(_table(self._table, columns))
        self._table.clear()


class _Blocks:
    """Determines which lines are code.

    :ivar in_code: whether the next line is inside a fence.
    """

    def __init__(self) -> None:
        self.in_code = False
        self._closing = re.compile("")
        self._is_quoted = False
        self._in_list = False
        self._may_indent = True  # after a blank line, or after indented code

    def is_code(self, line: str) -> bool:
        """Return whether the next line is code. Fences are also code."""
        if self.in_code and (not self._is_quoted or line.lstrip().startswith(">")):
            return True
        if _OPENING.match(line):
            return True
        is_indented = _INDENTED.match(line) is not None and line.strip() != ""
        return is_indented and self._may_indent and not self._in_list

    def take(self, line: str) -> bool:
        """Return whether this line is code, and advance to the next line."""
        is_code = self.is_code(line)
        was_in_code = self.in_code
        self.in_code = was_in_code and is_code and not self._closing.match(line)
        if was_in_code and is_code:
            return True
        opening = _OPENING.match(line)
        if opening is not None:
            prefix, fence = opening.groups()
            self.in_code = True
            self._is_quoted = ">" in prefix
            blank = "[ \t>]" if self._is_quoted else "[ \t]"
            self._closing = re.compile(
                rf"{blank}*+{fence[0]}{{{len(fence)},}}+[ \t]*+$"
            )
        if _ITEM.match(line):
            self._in_list = True
        elif line.strip() and not line[0].isspace():
            self._in_list = False
        self._may_indent = not line.strip() or (is_code and opening is None)
        return is_code


def _is_row(line: str) -> bool:
    """Return whether a line may be a row of a table."""
    return line.lstrip().startswith("|")


def _prose(line: str, columns: int) -> list[Line]:
    """Return the rows of a line that is neither code nor part of a table."""
    if _RULE.match(line):
        return [[("mark", line)]]
    if heading := _HEADING.match(line):
        marks, title = heading.groups()
        style = "heading,title" if len(marks) == 1 else "heading"
        return broken(restyled(_inline(_without_closing(title)), style), columns)
    prefix = _PREFIX.match(line)
    assert prefix is not None  # it matches the empty string
    indent = width_of(prefix[0])
    parts = joined(("mark", prefix[0]), *_inline(line[prefix.end() :]))
    return broken(parts, columns, indent if indent <= columns // 2 else 0)


def _without_closing(title: str) -> str:
    """Return a heading's text without the `#` that may close it."""
    title = title.rstrip()
    bare = title.rstrip("#")
    return title if bare and not bare[-1].isspace() else bare.rstrip()


@lru_cache(maxsize=256)  # an unfinished line is rendered each time the screen is drawn
def _inline(text: str) -> Line:
    """Return a text with its marks replaced by styles. Return it unchanged if letters
    would be lost, such as a link's title.
    """
    if not _MAY_BE_STYLED.search(text):
        return [("", text)]
    parts: list[tuple[str, str]] = []
    styles: Counter[str] = Counter()
    target = ""
    for token in _parser().parseInline(text)[0].children or ():
        kind, _, moment = token.type.rpartition("_")
        if moment == "open":
            styles[kind] += 1
            target = (
                ""
                if token.markup == "autolink"
                else str(token.attrs.get("href", target))
            )
        elif moment == "close":
            styles[kind] -= 1
            if kind == "link" and target:
                parts.append(("link", f" ({target})"))
        elif token.type == "image":
            parts.append((",".join(+styles), f"{token.content} ({token.attrs['src']})"))
        else:
            style = ",".join(
                [*+styles, *(["code"] if token.type == "code_inline" else [])]
            )
            parts.append((style, token.content))
    shown = "".join(part for _, part in parts)
    if shown.translate(_MARKS) != text.translate(_MARKS):
        return [("", text)]
    return joined(*parts)


@cache
def _parser() -> MarkdownIt:
    """Return a parser that changes no character of links and entities."""
    from markdown_it import MarkdownIt  # takes 20 ms

    class Parser(MarkdownIt):
        def normalizeLink(self, url: str) -> str:  # noqa: N802 - the library's name
            return url

        def normalizeLinkText(self, link: str) -> str:  # noqa: N802
            return link

    return Parser("commonmark").enable("strikethrough").disable("entity")


def _table(lines: Sequence[str], columns: int) -> list[Line]:
    """Return the rows of a table with aligned columns. Cells that do not fit take
    several rows. If the lines are not a table or are too many, they are not changed.
    """
    if not 2 <= len(lines) <= _MAX_TABLE_ROWS or not _is_delimiter(lines[1]):
        return [[("", line)] for line in lines]
    cells = [[_inline(cell) for cell in _cells(line)] for line in lines]
    count = max(map(len, cells))
    marks = [*_cells(lines[1]), *[""] * count][:count]
    cells[0] = [restyled(cell, "heading") for cell in cells[0]]
    del cells[1]
    widths = [
        max((_cell_width(row[at]) for row in cells if at < len(row)), default=0)
        for at in range(count)
    ]
    room = columns - 3 * (count - 1)
    if room < count * _NARROWEST_CELL and sum(widths) > room:
        return [[("", line)] for line in lines]
    while sum(widths) > room:
        widths[widths.index(max(widths))] -= 1
    rule: Line = [("mark", "─┼─".join("─" * width for width in widths))]
    rows = [line for row in cells for line in _aligned(row, widths, marks)]
    header = len(_aligned(cells[0], widths, marks))
    return [*rows[:header], rule, *rows[header:]]


def _is_delimiter(line: str) -> bool:
    """Return whether a line is the row below a table's header, such as `|:-|-:|`."""
    cells = _cells(line)
    return bool(cells) and all(_DELIMITER.fullmatch(cell) for cell in cells)


def _cells(line: str) -> list[str]:
    """Return the cells of a row. A pipe after a backslash is part of its cell."""
    inner = line.strip().removeprefix("|")
    cells = [cell.strip() for cell in _CELL_END.split(inner)]
    if not cells[-1]:
        cells.pop()
    return [cell.replace("\\|", "|") for cell in cells]


def _cell_width(cell: Line) -> int:
    return sum(width_of(text) for _, text in cell)


def _aligned(
    row: Sequence[Line], widths: Sequence[int], marks: Sequence[str]
) -> list[Line]:
    """Return the rows that a row of cells takes.

    :param marks: the cells of the row of delimiters, such as `--:`.
    """
    cells: list[list[Line]] = []
    for at, width in enumerate(widths):
        cell: Line = row[at] if at < len(row) else ()
        cells.append(broken(cell, width, breaks_words=True))
    rows: list[Line] = []
    for texts in zip_longest(*cells, fillvalue=()):
        parts: list[tuple[str, str]] = []
        for at, text in enumerate(texts):
            gap = " " * (widths[at] - _cell_width(text))
            is_right = marks[at].endswith(":") and not marks[at].startswith(":")
            parts.append(("mark", " │ " if at else ""))
            parts.extend([("", gap), *text] if is_right else [*text, ("", gap)])
        rows.append(joined(*parts))
    return rows
