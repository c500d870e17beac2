"""`ShownOutput`: renders a program's output as a terminal would, so that only a
progress bar's last state remains.

The screen is as wide as the longest line. Its last rows can be overwritten; the rows
above them are fixed. Clearing the screen starts a page below all existing text and
clears only that page, so earlier error messages stay visible.

Source: ECMA-48; xterm, "Control Sequences"; console_codes(4)
"""

from __future__ import annotations

import re
import unicodedata
from copy import copy
from functools import lru_cache

from acp_agent.tools.text import HeadAndTail, clean

_ROWS = 200
"""How many of the last rows can be overwritten. No terminal has more rows, and programs
stay within their terminal.
"""
_FIXED = 4096
"""How many characters at the start of a long line become fixed when more than that many
follow them.
"""
_FARTHEST = 255
"""The farthest column that a sequence can move the cursor to."""
_STRING = "[PX\\]^_][^\x07\x1b\n]{0,4096}"
"""The beginning of a control string, such as a window title or a link."""
_TOKEN = re.compile(
    "[\r\b\x07]"
    "|\x1b(?:\\[(?P<parameters>[0-?]{0,64})[ -/]{0,8}(?P<final>[@-~])"
    f"|{_STRING}(?:\x07|\x1b\\\\)"
    "|[ -/]{1,8}[0-~]"
    "|(?P<short>[0-OQ-WYZ\\\\`-~]))"
)
_UNFINISHED = re.compile(
    f"\x1b(?:\\[[0-?]{{0,64}}[ -/]{{0,8}}|{_STRING}\x1b?|[ -/]{{0,8}})?\\Z"
)
_LONGEST = 4200
"""Length of the longest sequence, in characters."""
_MOST_CELLS = 3_000_000
"""Maximum number of columns in rows with non-ASCII characters that sequences may
process, which takes a second or two. After that, sequences in the rest of the output
have no effect.
"""


class ShownOutput:
    """Takes output in pieces, and keeps the beginning and the end of what a terminal
    would show.

    The result does not depend on how the output is split into pieces.

    :param limit: maximum number of characters in the result; see `HeadAndTail`.
    """

    def __init__(self, limit: int) -> None:
        self._kept = HeadAndTail(limit)
        self._rows = [""]
        self._row = self._column = 0
        # Width of the cursor's row, or None if it is not known.
        self._end: int | None = 0
        self._saved: tuple[int, int] | None = None
        self._page: int | None = None
        self._unfinished = ""
        self._cells = 0
        self._is_plain = False

    @property
    def text(self) -> str:
        """Return the text shown so far, without control characters."""
        rows = self._rows.copy()
        while len(rows) > self._row + 1 and not (rows[-1] + rows[-2]).strip(" "):
            rows.pop()  # blank rows left over from a cleared page
        kept = copy(self._kept)
        kept.add(clean("\n".join(rows)))
        return kept.text

    def add(self, piece: str) -> None:
        """Process the next piece of the output."""
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
        """End the output: an incomplete sequence becomes text."""
        self._write(self._unfinished)
        self._unfinished = ""

    # --- what a program prints ---

    def _write(self, text: str) -> None:
        """Write characters and line ends at the cursor, overwriting what is there."""
        line, end, rest = text.partition("\n")
        self._write_in_row(line)
        while end and self._row < len(self._rows) - 1:
            self._row = self._row + 1
            self._column = 0
            self._end = None
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
        self._rows[self._row] = row
        self._end = end
        self._fix_beginning()

    def _append(self, text: str) -> None:
        """Append lines below the last row. Most output takes only this path, and there
        can be a lot of it.
        """
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
        """Carry out a control character or a sequence. Unknown ones have no effect."""
        row = self._rows[self._row]
        if not row.isascii():
            self._cells += len(row)
        if self._cells > _MOST_CELLS:
            self._go_on_plainly()
            return
        parameters = token["parameters"] or ""
        if parameters.startswith(("<", "=", ">", "?")):  # a mode of the terminal
            return
        if token[0] not in "\r\b\x07":
            self._end = None
        match token["final"] or (
            f"\x1b{token['short']}" if token["short"] else token[0]
        ):
            case "\r":
                self._column = 0
            case "\b":
                self._column = max(0, self._column - 1)
            case "\x1b7" | "s":
                self._saved = (self._row, self._column)
            case "\x1b8" | "u" if self._saved is not None:
                self._row, self._column = (
                    min(self._saved[0], len(self._rows) - 1),
                    self._saved[1],
                )
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

    def _go_on_plainly(self) -> None:
        """Move the cursor to the end of all text and keep it there."""
        if not self._is_plain:
            self._is_plain = True
            self._row = len(self._rows) - 1
            self._column = self._end = _width(self._rows[-1])

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
        """Move to a position on the page. If there is no page yet, start one below all
        existing text.
        """
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

    # --- text that can no longer be overwritten ---

    def _fix_rows(self, count: int) -> None:
        """Fix the first `count` rows, if `count` is positive."""
        if count > 0:
            self._kept.add(clean("".join(f"{row}\n" for row in self._rows[:count])))
            del self._rows[:count]
            self._move_up(count)

    def _move_up(self, count: int) -> None:
        """Adjust the positions after rows were removed at the top."""
        self._row = max(0, self._row - count)
        if self._saved is not None:
            self._saved = (max(0, self._saved[0] - count), self._saved[1])
        if self._page is not None:
            self._page = max(0, self._page - count)

    def _fix_beginning(self) -> None:
        """Fix the beginning of the cursor's row and all rows above it, if the row is
        too long.
        """
        while len(self._rows[self._row]) > 2 * _FIXED:
            self._fix_rows(self._row)
            fixed, self._rows[0] = self._rows[0][:_FIXED], self._rows[0][_FIXED:]
            self._kept.add(clean(fixed))
            self._column = max(0, self._column - _width(fixed))
            self._end = None


def as_shown(output: str, limit: int) -> str:
    """Return what a terminal would show of an output, cut in the middle to at most
    `limit` characters.
    """
    shown = ShownOutput(limit)
    shown.add(output)
    shown.finish()
    return shown.text


def _numbers(parameters: str, default: int = 1) -> tuple[int, int]:
    """Return the first two numbers of a sequence, with `default` for each missing one."""
    first, second, *_ = [*parameters.split(";"), "", ""]
    return _number(first, default), _number(second, default)


def _number(text: str, default: int) -> int:
    return int(text[:6]) if text.isascii() and text.isdecimal() else default


def _width(text: str) -> int:
    """Return how many columns a text occupies."""
    return len(text) if text.isascii() else sum(map(_columns, text))


@lru_cache(4096)
def _columns(character: str) -> int:
    if character.isascii():
        return 1
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _cells(text: str) -> list[str]:
    """Return the text of each column. An empty cell follows a wide character; combining
    marks stay with their base.
    """
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
    """Overwrite a row with a text, starting at a column. Return the new row and the
    column after the text.
    """
    if row.isascii() and text.isascii():
        return row[:column] + text + row[column + len(text) :], column + len(text)
    before, rest = _split(row, column)
    while not before and text and not _columns(text[0]):
        text = text[1:]  # a combining mark without a base
    over = before + text
    end = _width(over)
    return over + _split(rest, max(0, end - column))[1], end


def _beginning(row: str, column: int) -> str:
    return row[:column] if row.isascii() else _split(row, column)[0]


def _split(row: str, column: int) -> tuple[str, str]:
    """Split a row before a column. A wide character that is cut in half becomes blanks."""
    cells = _cells(row)
    before = cells[:column]
    after = cells[column:]
    if after and not after[0] and before:
        before[-1] = " "
        after[0] = " "
    return "".join(before), "".join(after)
