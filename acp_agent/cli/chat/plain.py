"""`StreamedText`: text that arrives in pieces and is shown in rows. `PlainText` shows
the text without formatting.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Literal

from prompt_toolkit.utils import get_cwidth

from acp_agent.cli.terminal.client import Line

_MAX_REST = 2_000
"""Maximum number of characters of an unfinished row to show."""
_FENCE = "```"


class StreamedText(ABC):
    """Turns a text that arrives in pieces into rows. The rows do not depend on how the
    text is divided into pieces.
    """

    def feed(self, text: str, columns: int) -> list[Line]:
        """Add a piece of the text, and return the rows that it completes."""
        rows: list[Line] = []
        *lines, rest = text.replace("\r", "").split("\n")
        for line in lines:
            self._add(line, columns, rows)
            self._end_line(columns, rows)
        self._add(rest, columns, rows)
        return rows

    @abstractmethod
    def preview(self, columns: int) -> list[Line]:
        """Return rows that show the text after the last complete row."""

    @abstractmethod
    def finish(self, columns: int) -> list[Line]:
        """Return the last rows."""

    @abstractmethod
    def _add(self, text: str, columns: int, rows: list[Line]) -> None:
        """Add a part of a line, and append the rows that it completes to `rows`."""

    @abstractmethod
    def _end_line(self, columns: int, rows: list[Line]) -> None:
        """End the line, and append the rows that this completes to `rows`."""


class PlainText(StreamedText):
    """Breaks prose between words. Code and tables keep their lines, so that people can
    copy them.

    This takes linear time, even if a line or a word is very long.
    """

    def __init__(self) -> None:
        self._rest = ""  # the end of the unfinished row
        self._in_code = False
        self._begin_line()

    def preview(self, columns: int) -> list[Line]:
        del columns  # only complete rows are broken
        return [[("", self._rest)]] if self._rest else []

    def finish(self, columns: int) -> list[Line]:
        return self.feed("\n", columns)

    def _begin_line(self) -> None:
        self._kind: Literal["unknown", "prose", "fence", "fixed"] = (
            "fixed" if self._in_code else "unknown"
        )
        self._mark = ""  # the first characters of the line that are not blank
        self._begin_row()

    def _begin_row(self) -> None:
        self._parts: list[str] = []
        self._length = self._width = 0
        self._space = 0  # the position of the last space where the row can end
        self._rest = ""

    def _end_line(self, columns: int, rows: list[Line]) -> None:
        if self._kind == "unknown":
            self._decide("prose", columns, rows)
        style = "" if self._kind == "prose" else self._style
        rows.append([(style, "".join(self._parts))])
        self._in_code ^= self._kind == "fence"
        self._begin_line()

    @property
    def _style(self) -> str:
        return "code" if self._in_code or self._kind == "fence" else ""

    def _add(self, text: str, columns: int, rows: list[Line]) -> None:
        if self._kind == "prose":
            self._break(text, columns, rows)
            return
        self._keep(text)
        # The first line within a block of code that has this mark ends it.
        if self._kind == "unknown" or (
            self._in_code and self._kind == "fixed" and len(self._mark) < len(_FENCE)
        ):
            seen = self._mark + (text if self._mark else text.lstrip())
            self._mark = seen[: len(_FENCE)]
            if self._mark == _FENCE:
                self._kind = "fence"
            elif (
                self._kind == "unknown"
                and self._mark
                and not _FENCE.startswith(self._mark)
            ):
                self._decide(
                    "fixed" if self._mark.startswith("|") else "prose", columns, rows
                )

    def _decide(
        self, kind: Literal["prose", "fixed"], columns: int, rows: list[Line]
    ) -> None:
        self._kind = kind
        if kind == "prose":
            text = "".join(self._parts)
            self._begin_row()
            self._break(text, columns, rows)

    def _keep(self, text: str) -> None:
        if text:
            self._parts.append(text)
            self._length += len(text)
            self._rest = (self._rest + text)[-_MAX_REST:]

    def _break(self, text: str, columns: int, rows: list[Line]) -> None:
        """Add prose, and append the rows that it completes to `rows`. A row ends at the
        last space before the edge, or at the first space after it if there is none.
        """
        start = 0  # where the row begins in the text, or continues its earlier parts
        offset = self._length  # the position in the row at which the text begins
        for at, character in enumerate(text):
            is_over = self._width > columns
            self._width += get_cwidth(character)
            if character == " " and offset + at > 0:
                self._space = offset + at
            if (
                self._width <= columns
                or not self._space
                or (is_over and character != " ")
            ):
                continue
            row = "".join(self._parts) + text[start : at + 1]
            rows.append([("", row[: self._space])])
            carried = row[self._space + 1 :]  # a word that moves to the next row
            self._begin_row()
            self._keep(carried)
            self._width = get_cwidth(carried)
            start = at + 1
            offset = self._length - at - 1
        self._keep(text[start:])
