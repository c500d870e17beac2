"""Text that streams, as lines: what is whole is printed, and what is not yet stands alone until it is.

A line that is wider than the terminal is broken between words, so that no more than one row ever stands alone. Code and
tables are left as they are, so that they can be copied. However a text is cut into pieces, the same lines come of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Literal, TypeAlias

Kind: TypeAlias = Literal["text", "heading", "code"]
Row: TypeAlias = tuple[Kind, str]


class Flow:
    """One text.

    :param width_of: columns that a text takes.
    """

    def __init__(self, width_of: Callable[[str], int]) -> None:
        self._width_of = width_of
        self._rest = ""
        self._fenced = False

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
            rows += self._rows(self._broken(line, columns))
            self._fenced ^= _is_fence(line)
        *broken, self._rest = self._broken(rest, columns)
        rows += self._rows(broken)
        self._rest += last
        return rows

    def end(self) -> list[Row]:
        """The text is over.

        :returns: what was left of it.
        """
        rest, self._rest = self._rest.removesuffix("\r"), ""
        rows = self._rows([rest] if rest else [])
        self._fenced ^= _is_fence(rest)
        return rows

    def _rows(self, texts: Iterable[str]) -> list[Row]:
        return [(self._kind(text), text) for text in texts]

    def _kind(self, row: str) -> Kind:
        if self._fenced or _is_fence(row):
            return "code"
        return "heading" if _is_heading(row) else "text"

    def _broken(self, line: str, columns: int) -> list[str]:
        if self._fenced or line.lstrip().startswith(("|", "```")):
            return [line]
        rows: list[str] = []
        while self._width_of(line) > columns and (at := self._break(line, columns)) > 0:
            rows.append(line[:at])
            line = line[at + 1 :]
        return [*rows, line]

    def _break(self, line: str, columns: int) -> int:
        """The last space before the edge, or the first one behind it; -1 where there is none. Those that a line begins
        with do not count: what is indented would lose that, and stay as long."""
        begins = len(line) - len(line.lstrip(" "))
        width, best = 0, -1
        for at, character in enumerate(line):
            if character == " " and at > begins:
                if width > columns:
                    return at if best < 0 else best
                best = at
            width += self._width_of(character)
            if width > columns and best > 0:
                return best
        return best if width > columns else -1


def _is_fence(line: str) -> bool:
    return line.lstrip().startswith("```")


def _is_heading(line: str) -> bool:
    return line.startswith("#") and line.lstrip("#").startswith(" ")
