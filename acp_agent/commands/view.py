"""`View`: a conversation as styled lines in a terminal. `Printer` prints such lines on standard output."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from io import TextIOWrapper
from itertools import chain
from pathlib import Path
from typing import Protocol, TypeAlias, cast

from prompt_toolkit.output import ColorDepth, Output
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.renderer import print_formatted_text
from prompt_toolkit.styles import Style
from prompt_toolkit.utils import is_dumb_terminal

from acp_agent.commands.client import plan_line
from acp_agent.commands.safe import Safe, SafeStream, safe_for
from acp_agent.commands.wrap import Row, StreamWrapper
from acp_agent.conversation.views import CallView
from acp_agent.server.v2.diffs import patch
from acp_agent.tools.text import counted

Line: TypeAlias = Sequence[tuple[str, str]]
"""Texts of one line, each behind its style."""

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


class Terminal(Protocol):
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

    def __init__(self, terminal: Terminal, cwd: Path, env: Mapping[str, str]) -> None:
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


class Printer:
    """Prints lines on standard output, in colours where it is a terminal that has them."""

    def __init__(self) -> None:
        cast("TextIOWrapper", sys.stdout).reconfigure(errors="replace")
        self._output = terminal_output() if sys.stdout.isatty() and not is_dumb_terminal() else None

    @property
    def columns(self) -> int:
        """Its width, as far as lines are easy to read."""
        return max(10, min(100, self._output.get_size().columns if self._output else 100))

    def print(self, lines: Iterable[Line]) -> None:
        """Print lines."""
        if self._output:
            print_lines(self._output, lines)
            return
        for line in lines:
            print("".join(one_row(text) for _, text in line), flush=True)

    def show_partial(self, style: str, text: str) -> None:
        """Do nothing: the line is printed when it is whole."""


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
