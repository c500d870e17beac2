"""`ShownOutput`: what a terminal would show of a program's output, so that a progress bar is its last state alone.

The screen is as wide as any line. Its last rows can be written over; those above are fixed. What clears the screen
begins a page below all that is there, and clears only that page: an error that a program printed before is still read.

Source: ECMA-48; xterm, "Control Sequences"; console_codes(4)
"""

from __future__ import annotations

import re
import unicodedata
from copy import copy

from acp_agent.tools.text import HeadAndTail, clean

_ROWS = 200
"""The last rows, which can be written over: more than any terminal has, since programs keep to theirs."""
_FIXED = 4096
"""Characters of a long line's beginning that cannot be written over any more once there are as many behind them."""
_FARTHEST = 255
"""Columns to which the cursor can be moved where there is no text."""
_STRING = "[PX\\]^_][^\x07\x1b\n]{0,4096}"
"""The beginning of a string for the terminal, such as a title or a link."""
_TOKEN = re.compile(
    "[\r\b\x07]"
    "|\x1b(?:\\[(?P<parameters>[0-?]{0,64})[ -/]{0,8}(?P<final>[@-~])"
    f"|{_STRING}(?:\x07|\x1b\\\\)"
    "|[ -/]{1,8}[0-~]"
    "|(?P<short>[0-OQ-WYZ\\\\`-~]))"
)
_UNFINISHED = re.compile(f"\x1b(?:\\[[0-?]{{0,64}}[ -/]{{0,8}}|{_STRING}\x1b?|[ -/]{{0,8}})?\\Z")
_LONGEST = 4200
"""Characters of the longest sequence."""


class ShownOutput:
    """Takes output in pieces, and keeps the beginning and the end of what a terminal would show of it.

    The same is shown however the output is cut into pieces.

    :param limit: characters of the result; see `HeadAndTail`.
    """

    def __init__(self, limit: int) -> None:
        self._kept = HeadAndTail(limit)
        self._rows = [""]
        self._row = self._column = 0
        self._end: int | None = 0  # column behind the cursor's row, as far as it is known
        self._saved: tuple[int, int] | None = None
        self._page: int | None = None
        self._unfinished = ""

    @property
    def text(self) -> str:
        """Return what is shown by now, without control characters."""
        rows = self._rows.copy()
        while len(rows) > self._row + 1 and not (rows[-1] + rows[-2]).strip(" "):
            rows.pop()  # blank ones that a cleared page has left
        kept = copy(self._kept)
        kept.add(clean("\n".join(rows)))
        return kept.text

    def add(self, piece: str) -> None:
        """Take a piece of the output."""
        piece = self._unfinished + piece.replace("\r\n", "\n")
        unfinished = _UNFINISHED.search(piece, max(0, len(piece) - _LONGEST))
        end = unfinished.start() if unfinished else len(piece)
        self._unfinished = piece[end:]
        position = 0
        for token in _TOKEN.finditer(piece, 0, end):
            self._write(piece[position : token.start()])
            self._obey(token)
            position = token.end()
        self._write(piece[position:end])

    def finish(self) -> None:
        """Take note that no more comes: a sequence that has begun is text."""
        self._write(self._unfinished)
        self._unfinished = ""

    # --- what a program prints ---

    def _write(self, text: str) -> None:
        """Write characters and line ends at the cursor, over what is there."""
        line, end, rest = text.partition("\n")
        self._write_in_row(line)
        while end and self._row < len(self._rows) - 1:
            self._row, self._column, self._end = self._row + 1, 0, None
            line, end, rest = rest.partition("\n")
            self._write_in_row(line)
        if end:
            self._append(rest)

    def _write_in_row(self, text: str) -> None:
        if not text:
            return
        row = self._rows[self._row]
        end = _width(row) if self._end is None else self._end
        if self._column >= end:
            row += " " * (self._column - end) + text
            self._column += _width(text)
            end = self._column
        else:
            row, self._column = _overwritten(row, self._column, text)
            end = max(end, self._column)
        self._rows[self._row], self._end = row, end
        self._fix_beginning()

    def _append(self, text: str) -> None:
        """Write lines below the last row; most output is nothing else, and may be much."""
        first, *rows = text.rsplit("\n", _ROWS)
        if len(rows) == _ROWS:
            self._fix_rows(len(self._rows))
            self._kept.add(clean(f"{first}\n"))
            self._move_up(first.count("\n") + 1)
        else:
            rows = [first, *rows]
        for row in rows:
            self._rows.append(row)
            if len(row) > 2 * _FIXED:
                self._row = len(self._rows) - 1
                self._fix_beginning()
        self._fix_rows(len(self._rows) - _ROWS)
        self._row = len(self._rows) - 1
        self._column = self._end = _width(self._rows[-1])

    def _obey(self, token: re.Match[str]) -> None:
        """Carry out a control character or a sequence; one that is unknown does nothing."""
        parameters = token["parameters"] or ""
        if parameters.startswith(("<", "=", ">", "?")):  # a mode of the terminal
            return
        if token[0] not in "\r\b\x07":
            self._end = None
        match token["final"] or (f"\x1b{token['short']}" if token["short"] else token[0]):
            case "\r":
                self._column = 0
            case "\b":
                self._column = max(0, self._column - 1)
            case "\x1b7" | "s":
                self._saved = (self._row, self._column)
            case "\x1b8" | "u" if self._saved is not None:
                self._row, self._column = min(self._saved[0], len(self._rows) - 1), self._saved[1]
            case "\x1bM":
                self._row = max(0, self._row - 1)
            case "\x1bc":
                self._erase_rows(2)
                self._go_to(1, 1)
            case "A" | "B" | "C" | "D" | "E" | "F" | "G" | "H" | "f" as final:
                self._move(final, *_numbers(parameters))
            case "K":
                self._erase_in_row(_numbers(parameters, 0)[0])
            case "J":
                self._erase_rows(_numbers(parameters, 0)[0])
            case _:
                pass

    def _move(self, final: str, first: int, second: int) -> None:
        count = max(1, first)
        match final:
            case "A" | "F":
                self._row = max(0, self._row - count)
            case "B" | "E":
                self._row = min(len(self._rows) - 1, self._row + count)
            case "C":
                self._column = min(self._column + count, max(self._column, _FARTHEST))
            case "D":
                self._column = max(0, self._column - count)
            case "G":
                self._column = min(count, _FARTHEST) - 1
            case _:
                self._go_to(count, max(1, second))
        if final in "EF":
            self._column = 0

    def _go_to(self, row: int, column: int) -> None:
        """Move to a place of the page, which begins below all that is there unless the program has begun one."""
        self._begin_page()
        assert self._page is not None
        self._row = min(self._page + row, self._page + _ROWS) - 1
        self._rows += [""] * (self._row + 1 - len(self._rows))
        self._column = min(column, _FARTHEST) - 1
        self._fix_rows(len(self._rows) - _ROWS)

    def _begin_page(self) -> None:
        if self._page is None:
            if self._rows[-1]:
                self._rows.append("")
            self._page = self._row = len(self._rows) - 1

    def _erase_in_row(self, how: int) -> None:
        row = self._rows[self._row]
        if how == 2:
            row = ""
        elif how == 1:
            row, _ = _overwritten(row, 0, " " * min(self._column + 1, _width(row)))
        else:
            row = _beginning(row, self._column)
        self._rows[self._row] = row

    def _erase_rows(self, how: int) -> None:
        if how == 0:
            self._erase_in_row(0)
            del self._rows[self._row + 1 :]
        elif how == 1 and self._page is not None:
            self._rows[self._page : self._row] = [""] * max(0, self._row - self._page)
            self._erase_in_row(1)
        elif how == 2:
            self._begin_page()
            assert self._page is not None
            self._rows[self._page :] = [""] * max(1, self._row + 1 - self._page)

    # --- what cannot be written over any more ---

    def _fix_rows(self, count: int) -> None:
        """Fix the first rows, if there are to be fewer."""
        if count > 0:
            self._kept.add(clean("".join(f"{row}\n" for row in self._rows[:count])))
            del self._rows[:count]
            self._move_up(count)

    def _move_up(self, count: int) -> None:
        """Take note that rows have gone, above those that are left."""
        self._row = max(0, self._row - count)
        if self._saved is not None:
            self._saved = (max(0, self._saved[0] - count), self._saved[1])
        if self._page is not None:
            self._page = max(0, self._page - count)

    def _fix_beginning(self) -> None:
        """Fix the beginning of the cursor's row and all rows above it, where the row is too long."""
        while len(self._rows[self._row]) > 2 * _FIXED:
            self._fix_rows(self._row)
            fixed, self._rows[0] = self._rows[0][:_FIXED], self._rows[0][_FIXED:]
            self._kept.add(clean(fixed))
            self._column = max(0, self._column - _width(fixed))
            self._end = None


def as_shown(output: str, limit: int) -> str:
    """Return what a terminal would show of an output, cut in the middle to so many characters."""
    shown = ShownOutput(limit)
    shown.add(output)
    shown.finish()
    return shown.text


def _numbers(parameters: str, default: int = 1) -> tuple[int, int]:
    """Return the first two numbers of a sequence, of which any may be left out."""
    first, second, *_ = [*parameters.split(";"), "", ""]
    return _number(first, default), _number(second, default)


def _number(text: str, default: int) -> int:
    return int(text[:6]) if text.isascii() and text.isdecimal() else default


def _width(text: str) -> int:
    """Return how many columns a text takes."""
    return len(text) if text.isascii() else sum(map(_columns, text))


def _columns(character: str) -> int:
    if character.isascii():
        return 1
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _cells(text: str) -> list[str]:
    """Return the text of each column: behind a wide character an empty one; marks stand with what they belong to."""
    cells: list[str] = []
    leading = ""
    for character in text:
        columns = _columns(character)
        if columns:
            cells += [leading + character, ""][:columns]
            leading = ""
        elif cells:
            cells[-1 if cells[-1] else -2] += character
        else:
            leading += character
    return cells


def _overwritten(row: str, column: int, text: str) -> tuple[str, int]:
    """Return a row with a text written over it, and the column behind that text."""
    if row.isascii() and text.isascii():
        return row[:column] + text + row[column + len(text) :], column + len(text)
    before, rest = _split(row, column)
    while not before and text and not _columns(text[0]):
        text = text[1:]  # a mark of nothing
    over = before + text
    end = _width(over)
    return over + _split(rest, max(0, end - column))[1], end


def _beginning(row: str, column: int) -> str:
    return row[:column] if row.isascii() else _split(row, column)[0]


def _split(row: str, column: int) -> tuple[str, str]:
    """Return the text of a row before a column, and from it on. A wide character that is cut leaves blanks."""
    cells = _cells(row)
    before, behind = cells[:column], cells[column:]
    if behind and not behind[0] and before:
        before[-1], behind[0] = " ", " "
    return "".join(before), "".join(behind)
