"""`View`: a conversation as styled lines. `StreamWrapper` breaks text that arrives in pieces into rows."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Literal, Protocol, TypeAlias

from prompt_toolkit.output import ColorDepth, Output
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.renderer import print_formatted_text
from prompt_toolkit.styles import Style
from prompt_toolkit.utils import get_cwidth

from acp_agent.cli.terminal.client import plan_line
from acp_agent.cli.terminal.safe import Safe, SafeStream, safe_for
from acp_agent.conversation.views import CallView
from acp_agent.server.v2.diffs import patch
from acp_agent.tools.text import counted

Line: TypeAlias = Sequence[tuple[str, str]]
"""Texts of one line, each behind its style."""

Kind: TypeAlias = Literal["text", "heading", "code"]
Row: TypeAlias = tuple[Kind, str]

_BREAK = re.compile(" |(?=[\u3000-\u9fff\uf900-\ufaff\uff00-\uff60\U00020000-\U0003ffff])")
"""A space, or the place before a Chinese or Japanese character, since these scripts have no spaces between words."""
# The terminal's own sixteen colours, which fit its background.
STYLE = Style.from_dict(
    {
        "you": "bold",
        "title": "bold ansicyan",
        "heading": "bold",
        "code": "ansicyan",
        "thought": "ansibrightblack italic",
        "dim": "ansibrightblack",
        "call": "ansiblue",
        "warning": "ansiyellow",
        "error": "ansired",
        "question": "bold ansiyellow",
        "file": "bold",
        "place": "ansicyan",
        "added": "ansigreen",
        "removed": "ansired",
        "meter": "reverse",
    }
)
MAX_PATCH_LINES = 60
_PATCH_STYLES = {"+": "added", "-": "removed", "@": "place"}


class _Terminal(Protocol):
    """Where lines are shown."""

    @property
    def columns(self) -> int:
        """Its width."""
        ...

    def print(self, lines: Iterable[Line]) -> None:
        """Print lines."""
        ...

    def show_partial(self, style: str, text: str) -> None:
        """Show a line that is not whole yet; "" for none."""
        ...


class View:
    """Shows messages, calls, questions and plans, without escape sequences and values of secrets.

    :param cwd: paths below it are shown relative to it.
    :param env: environment variables, whose secrets are masked.
    :ivar safe: makes a text safe to be shown.
    """

    def __init__(self, terminal: _Terminal, cwd: Path, env: Mapping[str, str]) -> None:
        self._terminal = terminal
        self._cwd = f"{cwd}/".replace("//", "/")
        self.safe, self._safe_stream = safe_for(env), SafeStream(env)
        self._wrapper = StreamWrapper()
        self._stream_key = self._stream_style = ""

    def stream(self, key: str, style: str, text: str) -> None:
        """Show a piece of the text with this key; another key begins a new paragraph."""
        if self._stream_key != key:
            self.end_stream()
            self._terminal.print([[]])
            self._stream_key, self._stream_style, self._wrapper = key, style, StreamWrapper()
        # Masked before it is wrapped: a secret may go over the edge of a row.
        self._print_rows(self._wrapper.feed(self._safe_stream.feed(text), self._terminal.columns))
        self._terminal.show_partial(style, self._wrapper.rest)

    def end_stream(self) -> None:
        """Finish the last line of the text that streams."""
        if self._stream_key:
            self._stream_key = ""
            self._terminal.show_partial("", "")
            rows = self._wrapper.feed(self._safe_stream.flush(), self._terminal.columns)
            self._print_rows([*rows, *self._wrapper.flush()])

    def line(self, style: str, text: str) -> None:
        """Show a text in one style."""
        wrapper = StreamWrapper()
        rows = [*wrapper.feed(self.safe(text), self._terminal.columns), *wrapper.flush()]
        self.lines([(style, row)] for _, row in rows)

    def lines(self, lines: Iterable[Line]) -> None:
        """Show lines that are safe already."""
        self.end_stream()
        self._terminal.print(lines)

    def prompt(self, text: str) -> None:
        """Show what the person said."""
        first, *rest = self.safe(text).split("\n")
        self.lines([[], [("you", f"> {first}")], *([("you", f"  {line}")] for line in rest)])

    def question(self, view: CallView, command: str) -> None:
        """Show what a call would do.

        :param command: the whole of a command that is to run; "" for none.
        """
        self.line("question", f"? {view.title}")
        self.lines(patch_lines(view, self._cwd, self.safe))
        if command and command not in view.title:
            self.lines([("code", f"  {line}")] for line in self.safe(command).split("\n"))

    def call(self, view: CallView, *, failed: bool, details: Iterable[str] = (), changes: bool = True) -> None:
        """Show that a call has ended.

        :param details: a few lines of its result.
        :param changes: whether to show what it changed in files.
        """
        self.line("error" if failed else "call", f"{'✗' if failed else '✓'} {view.title}")
        self.lines([("dim", f"  {self.safe(line)}")] for line in details)
        if changes and not failed:
            self.lines(patch_lines(view, self._cwd, self.safe))

    def plan(self, entries: Iterable[tuple[str, str]]) -> None:
        """Show a plan: the status and the text of each of its entries."""
        self.lines([("dim", plan_line(status, self.safe(text)))] for status, text in entries)

    def _print_rows(self, rows: Iterable[Row]) -> None:
        self._terminal.print([(self._stream_style or kind, row)] for kind, row in rows)


def patch_lines(view: CallView, cwd: str, safe: Safe) -> list[Line]:
    """Return what a call changes as an indented patch: the name of each file, and the lines around its changes.

    :param cwd: with a slash at its end.
    """
    first_lines = {place.path: place.line for place in view.locations if place.line is not None}
    lines: list[Line] = []
    for diff in view.diffs:
        lines.append([("file", f"  {safe(diff.path.removeprefix(cwd))}")])
        # The patch is masked as a whole: a secret may have several lines.
        text = safe(patch(diff, first_lines.get(diff.path)) or "@@ -(the change is too large to be shown)")
        hunks = text[text.find("@@ -") :].removesuffix("\n").split("\n") if "@@ -" in text else []
        lines += ([(_PATCH_STYLES.get(each[:1], ""), f"  {each}")] for each in hunks[:MAX_PATCH_LINES])
        if len(hunks) > MAX_PATCH_LINES:
            lines.append([("dim", f"  (and {counted(len(hunks) - MAX_PATCH_LINES, 'line')} more)")])
    return lines


def terminal_output() -> Output:
    """Return standard output as prompt_toolkit writes to it; without colours where `NO_COLOR` is set."""
    output = Vt100_Output.from_pty(sys.stdout, default_color_depth=ColorDepth.from_env())
    # Nothing here needs to know where the cursor is, and a terminal that does not answer would be waited for.
    output.enable_cpr = False
    return output


def print_lines(output: Output, lines: Iterable[Line]) -> None:
    """Print lines where the cursor is."""
    shown = [[*((f"class:{style}", one_row(text)) for style, text in line), ("", "\n")] for line in lines]
    if shown:
        print_formatted_text(output, [*chain.from_iterable(shown)], STYLE)


def one_row(text: str) -> str:
    """Return a text without line ends, which would take another row."""
    return text.replace("\r", " ").replace("\n", " ")


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
        *lines, rest = (self.rest + text.replace("\r", "")).split("\n")
        for line in lines:
            rows += self._broken(line, columns)
            rows += self._ended()
        return [*rows, *self._broken(rest, columns)]

    def flush(self) -> list[Row]:
        """End the text, and return what is left of it."""
        return self._ended() if self.rest else []

    def _broken(self, line: str, columns: int) -> list[Row]:
        """Return the full rows of a line, and keep the rest."""
        rows: list[Row] = []
        self.rest = line
        kind = self._kind()
        if self._continued is not None or not (kind == "code" or line.lstrip().startswith("|")):
            while (end := _row_end(self.rest, columns)) > 0:
                rows.append((kind, self.rest[:end]))
                self.rest, self._continued = self.rest[end:].removeprefix(" "), kind
        return rows

    def _ended(self) -> list[Row]:
        row = self._kind(), self.rest
        if self._continued is None and _is_fence(self.rest):
            self._in_code = not self._in_code
        self.rest, self._continued = "", None
        return [row]

    def _kind(self) -> Kind:
        if self._continued is not None:
            return self._continued
        if self._in_code or _is_fence(self.rest):
            return "code"
        return "heading" if self.rest[:1] == "#" and self.rest.lstrip("#")[:1] == " " else "text"


def _row_end(line: str, columns: int) -> int:
    """Return where to break a line: at the last place before the edge, or else the first one behind it; -1 for none."""
    indentation = len(line) - len(line.lstrip(" "))  # without it the line would stay as long
    width = 0
    for at, character in enumerate(line):
        width += get_cwidth(character)
        if width > columns:
            places = [found.start() for found in _BREAK.finditer(line, indentation + 1)]
            before = [place for place in places if place <= at]
            return max(before) if before else min(places, default=-1)
    return -1


def _is_fence(line: str) -> bool:
    return line.lstrip().startswith("```")
