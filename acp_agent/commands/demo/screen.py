"""A terminal to write on: colours where it has them, and text that is wrapped while it streams.

Knows neither the protocol nor what is shown.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Sequence
from typing import TextIO

MAX_WIDTH = 100
MIN_WIDTH = 60
INDENT = "  "

_CODES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}
_TOKEN = re.compile(r"\n|[^\S\n]+|\S+")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class Screen:
    """Writes to a stream line by line, or piece by piece where text streams.

    :param stream: such as stdout. What it cannot encode is replaced.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = sys.stdout if stream is None else stream
        reconfigure = getattr(self._stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace")
        plain = bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"
        self._coloured = self._stream.isatty() and not plain
        self.width = max(MIN_WIDTH, min(MAX_WIDTH, shutil.get_terminal_size((MAX_WIDTH, 24)).columns))
        self._flow: _Flow | None = None
        self._blank = True

    def styled(self, text: str, *styles: str) -> str:
        """A text in colours, where there are any.

        :param styles: of bold, dim, red, green, yellow and cyan.
        """
        if not self._coloured or not text or not styles:
            return text
        return f"\x1b[{';'.join(_CODES[style] for style in styles)}m{text}\x1b[0m"

    def line(self, text: str = "", *styles: str) -> None:
        """Write a line; an empty one only where there is none yet. Ends the text that streams, as a paragraph."""
        if self._flow is not None:
            self.end()
            self.line()
        if text or not self._blank:
            self._write(f"{self.styled(text, *styles)}\n")
        self._blank = not text

    def sides(self, left: str, right: str, *styles: str) -> None:
        """Write a line with something dim at the right margin.

        :param left: without colours; its end is cut where there is no room.
        :param right: likewise; its beginning is cut where it takes more than half of the line.
        """
        right = right if len(right) <= self.width // 2 else f"…{right[1 - self.width // 2 :]}"
        room = self.width - len(right) - 1
        left = left if len(left) <= room else f"{left[: room - 1]}…"
        gap = " " * (self.width - len(left) - len(right))
        self.line(f"{self.styled(left, *styles)}{gap}{self.styled(right, 'dim')}")

    def heading(self, text: str) -> None:
        """Write a line that begins a chapter."""
        self.line()
        self.line(f"━━ {text} {'━' * max(0, self.width - len(text) - 4)}", "bold", "cyan")
        self.line()

    def stream(self, key: str, text: str, *styles: str, margin: str = INDENT) -> None:
        """Write a piece of a text.

        :param key: of the text; another key begins a new paragraph.
        :param margin: what each of its lines begins with.
        """
        if self._flow is None or self._flow.key != key:
            self.end()
            self.line()
            self._flow = _Flow(key, self.width, margin, styles)
        self._write_pieces(self._flow.feed(_CONTROL.sub("", text)), styles)

    def end(self) -> None:
        """Finish the text that streams."""
        flow, self._flow = self._flow, None
        if flow is not None:
            self._write_pieces([*flow.finish(), "\n"], flow.styles)
            self._blank = False

    def _write_pieces(self, pieces: Sequence[str], styles: Sequence[str]) -> None:
        self._write("".join(self.styled(piece, *styles) if piece.strip() else piece for piece in pieces))

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()


class _Flow:
    """Wraps a text whose pieces come one by one; a word is held back until it is whole."""

    def __init__(self, key: str, width: int, margin: str, styles: Sequence[str]) -> None:
        self.key = key
        self.styles = styles
        self._width = width
        self._margin = margin
        self._column = 0
        self._hang = ""
        self._space = ""
        self._word = ""

    def feed(self, text: str) -> list[str]:
        pieces: list[str] = []
        for token in _TOKEN.findall(text):
            if not token.isspace():
                self._word += token
                continue
            pieces += self._put_word()
            if token == "\n":
                # A margin of its own also for an empty line, where it is more than white space.
                pieces.append("\n" if self._column else f"{self._margin.rstrip()}\n")
                self._column, self._space, self._hang = 0, "", ""
            else:
                self._space += token
        return pieces

    def finish(self) -> list[str]:
        return self._put_word()

    def _put_word(self) -> list[str]:
        word, self._word = self._word, ""
        if not word:
            return []
        pieces: list[str] = []
        if self._column and self._column + len(self._space) + len(word) > self._width:
            pieces.append("\n")
            self._column, self._space = 0, self._hang
        if not self._column:
            self._column = len(self._margin)
            pieces.append(self._margin)
            if not self._hang:
                self._hang = self._space + "  " * (word in ("-", "*"))
        pieces.append(self._space + word)
        self._column += len(self._space) + len(word)
        self._space = ""
        return pieces
