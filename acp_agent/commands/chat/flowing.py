"""Text that streams, as lines: what is whole is printed, and what is not yet stands alone until it is.

A line that is wider than the terminal is broken between words, or between the signs of Chinese and Japanese, which have
no spaces, so that no more than one row ever stands alone. Code and tables are left as they are, so that they can be
copied. However a text is cut into pieces, the same lines come of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Literal, TypeAlias

Kind: TypeAlias = Literal["text", "heading", "code"]
Row: TypeAlias = tuple[Kind, str]

_BREAK = re.compile(
    r" |(?<![\s(\[（［｛「『【〈《〔“‘])"  # no row ends with what opens
    r"[（［｛「『【〈《〔\u3041-\u3096\u30a1-\u30fa\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
)
"""Where a line may be broken: a space, or before a sign of Chinese or Japanese or what opens a quote of theirs. Not
before their stops, and not within Korean words, which have spaces between them."""


class Flow:
    """One text.

    :param width_of: columns that a text takes.
    """

    def __init__(self, width_of: Callable[[str], int]) -> None:
        self._width_of = width_of
        self._rest = ""
        self._fenced = False
        self._goes_on: Kind | None = None
        """Of the line of which rows are there already; what comes is not the beginning of one."""

    @property
    def rest(self) -> str:
        """What is not a whole line yet."""
        return self._rest

    def feed(self, text: str, columns: int) -> list[Row]:
        """More of the text.

        :param columns: of the terminal.
        :returns: the lines that are whole by now.
        """
        held = (self._rest + text).replace("\r\n", "\n")
        # The other half of a line end may be on its way.
        last = "\r" if held.endswith("\r") else ""
        *whole, rest = held.removesuffix(last).replace("\r", "\n").split("\n")
        rows: list[Row] = []
        for line in whole:
            broken, end = self._broken(line, columns)
            rows += [*broken, self._ended(end)]
        broken, rest = self._broken(rest, columns)
        self._rest = rest + last
        return [*rows, *broken]

    def end(self) -> list[Row]:
        """The text is over.

        :returns: what was left of it.
        """
        rest, self._rest = self._rest.removesuffix("\r"), ""
        return [self._ended(rest)] if rest else []

    def _ended(self, row: str) -> Row:
        """The last row of a line."""
        kind = self._goes_on or self._kind(row)
        self._fenced ^= self._goes_on is None and _is_fence(row)
        self._goes_on = None
        return kind, row

    def _kind(self, line: str) -> Kind:
        if self._fenced or _is_fence(line):
            return "code"
        return "heading" if _is_heading(line) else "text"

    def _broken(self, line: str, columns: int) -> tuple[list[Row], str]:
        """The rows that are whole, and the rest."""
        kind = self._goes_on or self._kind(line)
        rows: list[Row] = []
        if self._goes_on is None and (kind == "code" or line.lstrip().startswith("|")):
            return rows, line
        while (at := self._break(line, columns)) > 0:
            rows.append((kind, line[:at]))
            line = line[at:].removeprefix(" ")
            self._goes_on = kind
        return rows, line

    def _break(self, line: str, columns: int) -> int:
        """The last place before the edge, or the first one behind it; -1 where there is none, or all fits. Those in
        what a line begins with do not count: what is indented would lose that, and stay as long."""
        first = len(line) - len(line.lstrip(" ")) + 1
        width = 0
        for at, character in enumerate(line):
            width += self._width_of(character)
            if width > columns:
                before = [found.start() for found in _BREAK.finditer(line, first, at + 1)]
                behind = None if before else _BREAK.search(line, max(at + 1, first))
                return before[-1] if before else behind.start() if behind is not None else -1
        return -1


def _is_fence(line: str) -> bool:
    return line.lstrip().startswith("```")


def _is_heading(line: str) -> bool:
    return line.startswith("#") and line.lstrip("#").startswith(" ")
