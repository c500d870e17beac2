"""`StreamWrapper`: text that arrives in pieces, broken into rows for a terminal."""

from __future__ import annotations

import re
from typing import Literal, TypeAlias

from prompt_toolkit.utils import get_cwidth

Kind: TypeAlias = Literal["text", "heading", "code"]
Row: TypeAlias = tuple[Kind, str]

_BREAK = re.compile(r" |(?<![\s(（「『【《])[「『【《\u3041-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")
"""A space, or the place before a Chinese or Japanese character, of which words are not separated by spaces."""


class StreamWrapper:
    """Breaks prose between words; code and tables keep their lines, so that they can be copied.

    The same rows come of a text however it is cut into pieces.

    :ivar rest: the end of the text, which is not a whole row yet.
    """

    def __init__(self) -> None:
        self.rest = ""
        self._in_code = False
        self._continued: Kind | None = None
        """The kind of the line whose first rows were returned already."""

    def feed(self, text: str, columns: int) -> list[Row]:
        """Add a piece of the text, and return the rows that are whole by now."""
        rows: list[Row] = []
        for number, part in enumerate(text.replace("\r", "").split("\n")):
            if number:
                rows.append(self._end_line())
            self.rest += part
            rows += self._full_rows(columns)
        return rows

    def flush(self) -> list[Row]:
        """End the text, and return what is left of it."""
        return [self._end_line()] if self.rest else []

    def _end_line(self) -> Row:
        kind, row = self._kind(), self.rest
        if self._continued is None and _is_fence(row):
            self._in_code = not self._in_code
        self.rest, self._continued = "", None
        return kind, row

    def _full_rows(self, columns: int) -> list[Row]:
        rows: list[Row] = []
        kind = self._kind()
        if self._continued is None and (kind == "code" or self.rest.lstrip().startswith("|")):
            return rows
        while (end := _row_end(self.rest, columns)) > 0:
            rows.append((kind, self.rest[:end]))
            self.rest, self._continued = self.rest[end:].removeprefix(" "), kind
        return rows

    def _kind(self) -> Kind:
        if self._continued is not None:
            return self._continued
        if self._in_code or _is_fence(self.rest):
            return "code"
        return "heading" if re.match("#+ ", self.rest) else "text"


def _row_end(line: str, columns: int) -> int:
    """Return where to break a line: at the last place before the edge, or else the first one behind it; -1 for none.

    The indentation is no such place: the line would lose it and stay as long.
    """
    first = len(line) - len(line.lstrip(" ")) + 1
    width = 0
    for at, character in enumerate(line):
        width += get_cwidth(character)
        if width > columns:
            before = [found.start() for found in _BREAK.finditer(line, first, at + 1)]
            behind = None if before else _BREAK.search(line, max(at + 1, first))
            return before[-1] if before else behind.start() if behind else -1
    return -1


def _is_fence(line: str) -> bool:
    return line.lstrip().startswith("```")
