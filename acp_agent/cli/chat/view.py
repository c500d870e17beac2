"""`ChatView`: a conversation as styled lines. `_StreamWrapper` breaks text that arrives
in pieces into rows.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Literal

from prompt_toolkit.utils import get_cwidth

from acp_agent.cli.chat.commands import COMMANDS
from acp_agent.cli.chat.screen import FOLDED_ROWS, Screen, cut_row
from acp_agent.cli.terminal.client import Line, TerminalView, patch_lines
from acp_agent.cli.terminal.sessions import REFUSED
from acp_agent.conversation.updates import CallFinished, CallOutput, Command, TurnOver
from acp_agent.conversation.views import CallView
from acp_agent.errors import AgentError
from acp_agent.logfile import log_failure
from acp_agent.tools.text import counted

_MOST_FOLDED = 50
"""Outputs that can be unfolded, the newest."""
_MAX_REST = 2_000
"""Characters of an unfinished row that are shown."""
_FENCE = "```"
_STOPS = {
    "refusal": REFUSED,
    "cancelled": "Cancelled.",
    "max_tokens": "The answer was cut off: it has reached the model's limit.",
    "max_turn_requests": "The turn has reached its limit of requests to the model. Send a prompt to go on.",
}

_log = logging.getLogger(__name__)


class ChatView(TerminalView):
    """Shows messages, calls, questions and plans above what a person types, without
    escape sequences and secrets.
    """

    def __init__(self, screen: Screen) -> None:
        super().__init__()
        self.screen = screen
        self._wrapper = _StreamWrapper()
        self._style = ""
        self._printed: dict[str, str] = {}
        self._folded: deque[tuple[str, Sequence[str]]] = deque(maxlen=_MOST_FOLDED)

    def stream(self, key: str, style: str, text: str) -> None:
        """Show a piece of the text with this key; another key begins a new paragraph."""
        if self._message != key:
            self.end_stream()
            self.screen.print([[]])
            self._message = key
            self._style = style
            self._wrapper = _StreamWrapper()
        # Masked before it is wrapped: a secret may go over the edge of a row.
        self._print_rows(
            self._wrapper.feed(self._safe_stream.feed(text), self.screen.columns)
        )
        self.screen.show_partial(style, self._wrapper.rest)

    def end_stream(self) -> None:
        """Finish the last line of the text that streams."""
        if self._message:
            self._message = ""
            self.screen.show_partial("", "")
            self._print_rows(
                self._wrapper.feed(
                    f"{self._safe_stream.flush()}\n", self.screen.columns
                )
            )

    def _print_rows(self, rows: Iterable[tuple[str, str]]) -> None:
        self.screen.print([(self._style or style, row)] for style, row in rows)

    def line(self, style: str, text: str) -> None:
        """Show a text in one style."""
        rows = _StreamWrapper().feed(f"{self.safe(text)}\n", self.screen.columns)
        self.lines([(style, row)] for _, row in rows)

    def lines(self, lines: Iterable[Line]) -> None:
        """Show lines that are safe already."""
        self.end_stream()
        self.screen.print(lines)

    def prompt(self, text: str, *, continues: bool = False) -> None:
        """Show what the person said.

        :param continues: whether this is another part of the prompt above it.
        """
        first, *rest = self.safe(text).split("\n")
        if continues:
            rows: list[Line] = [[("you", f"  {first}")]]
        else:
            rows = [[], [("you", f"> {first}")]]
        rows.extend([("you", f"  {line}")] for line in rest)
        self.lines(rows)

    def call_started(self, view: CallView) -> None:
        """Show nothing yet: a call is one line."""
        self.end_stream()

    def call_output(self, update: CallOutput) -> None:
        """Show the end of what a call's command has printed so far."""
        self._printed[update.call_id] = update.text
        self.screen.show_printed(_rows(self.safe(update.text)))

    def call_finished(self, update: CallFinished, *, changes: bool) -> None:
        """Show that a call has ended, with the reason of a failure and the end of what
        a command has printed.

        :param changes: whether to show what it changed in files.
        """
        title = update.view.title
        printed = self._printed.pop(update.call_id, "")
        if update.status == "completed":
            self.line("call", f"✓ {title}")
            self.lines(patch_lines(update.view, self.cwd, self.safe) if changes else [])
        else:
            self.line("error", f"✗ {title}")
            if reason := self.reason_of(update):
                self.lines([[("dim", f"  {reason}")]])
        self._fold(title, _rows(self.safe(_output(update.view) or printed)))

    def _fold(self, title: str, rows: Sequence[str]) -> None:
        """Show the last rows of an output, each as far as it fits, and keep the whole
        for `unfold`.
        """
        shown = [cut_row(row, self.screen.columns - 2) for row in rows[-FOLDED_ROWS:]]
        if shown != rows:
            self._folded.append((title, rows))
            self.lines(
                [[("dim", f"  … of {counted(len(rows), 'line')}; ctrl-o shows more")]]
            )
        self.lines([("", f"  {row}")] for row in shown)

    def unfold(self) -> None:
        """Show the whole of the newest output that was folded; once more, the one
        before it.
        """
        if not self._folded:
            self.line("dim", "No output is folded.")
            return
        title, rows = self._folded.pop()
        self.line("call", f"▾ {title}")
        self.lines([("", row)] for row in rows)

    def command_output(self, key: str, text: str) -> None:
        """Show the end of what a command of the person's has printed so far.

        :param key: that it is waited for by.
        """
        self.screen.show_printed(_rows(self.safe(text)), key)

    def command_ended(self, ending: str, text: str) -> None:
        """Show all that a command of the person's has printed.

        :param ending: a line about how it ended.
        """
        self.lines([("", row)] for row in _rows(self.safe(text)))
        self.line("dim", ending)

    def turn_over(self, update: TurnOver) -> None:
        """Show how a turn ended, unless it ended well."""
        if update.error is not None:
            self.failed(update.error)
        elif stop := _STOPS.get(update.stop or ""):
            self.line("warning", stop)

    def failed(self, error: Exception) -> None:
        """Show what could not be done."""
        known = isinstance(error, AgentError)
        self.line(
            "error",
            str(error) if known else log_failure(_log, "The turn failed inside", error),
        )

    def busy(self, what: str, key: str = "") -> None:
        """Show what the session is waiting for, or what is waited for besides, by
        another key.
        """
        self.screen.busy(self.safe(what), key)

    def offer(self, commands: Sequence[Command]) -> None:
        """Offer slash commands to be completed, and those of the terminal behind them."""
        taken = {command.name for command in commands}
        own = (command for command in COMMANDS if command.name not in taken)
        self.screen.completer.commands = [*commands, *own]

    async def ask(self, question: str) -> str | None:
        """Return what the person types behind a question; None for ctrl-d."""
        self.end_stream()
        return await self.screen.ask(question)


def _output(view: CallView) -> str:
    """Return what the command of a call has printed; "" where that is not known, and
    for calls of other tools.
    """
    raw = view.raw_output
    if view.kind != "execute" or not isinstance(raw, dict):
        return ""
    streams = (raw.get(name) for name in ("output", "stdout", "stderr"))
    return "\n".join(
        text.rstrip("\n") for text in streams if isinstance(text, str) and text
    )


def _rows(text: str) -> list[str]:
    """Return the lines of an output as a terminal would leave them: a line that was
    written over, as of a progress bar, is what it was last.
    """
    lines = text.strip("\n").split("\n") if text.strip() else []
    return [line.rstrip("\r").rpartition("\r")[2].expandtabs() for line in lines]


class _StreamWrapper:
    """Breaks prose between words; code and tables keep their lines, so that they can be
    copied.

    The same rows come of a text however it is cut into pieces. Each character is looked
    at about once, however long a line or a word is.

    :ivar rest: the end of what is not a whole row yet.
    """

    def __init__(self) -> None:
        self.rest = ""
        self._in_code = False
        self._begin_line()

    def feed(self, text: str, columns: int) -> list[tuple[str, str]]:
        """Add a piece of the text, and return the rows that are whole by now, each
        behind its style.
        """
        rows: list[tuple[str, str]] = []
        *lines, rest = text.replace("\r", "").split("\n")
        for line in lines:
            self._add(line, columns, rows)
            self._end_line(columns, rows)
        self._add(rest, columns, rows)
        return rows

    def _begin_line(self) -> None:
        self._kind: Literal["unknown", "prose", "fence", "fixed"] = (
            "fixed" if self._in_code else "unknown"
        )
        self._mark = ""  # the first characters of the line that are not blank
        self._begin_row()

    def _begin_row(self) -> None:
        self._parts: list[str] = []
        self._length = self._width = 0
        self._space = 0  # where the last space is at which the row can end
        self.rest = ""

    def _end_line(self, columns: int, rows: list[tuple[str, str]]) -> None:
        if self._kind == "unknown":
            self._decide("prose", columns, rows)
        rows.append(
            ("" if self._kind == "prose" else self._style, "".join(self._parts))
        )
        self._in_code ^= self._kind == "fence"
        self._begin_line()

    @property
    def _style(self) -> str:
        return "code" if self._in_code or self._kind == "fence" else ""

    def _add(self, text: str, columns: int, rows: list[tuple[str, str]]) -> None:
        """Add a part of a line."""
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
        self, kind: Literal["prose", "fixed"], columns: int, rows: list[tuple[str, str]]
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
            self.rest = (self.rest + text)[-_MAX_REST:]

    def _break(self, text: str, columns: int, rows: list[tuple[str, str]]) -> None:
        """Add prose, and the rows that it makes full: each ends at its last space
        before the edge, or else at the first one behind it.
        """
        start = 0  # where the row begins in the text, or goes on from its earlier parts
        offset = self._length  # of the text's beginning in the row
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
            rows.append(("", row[: self._space]))
            carried = row[self._space + 1 :]  # a word that goes into the next row
            self._begin_row()
            self._keep(carried)
            self._width = get_cwidth(carried)
            start = at + 1
            offset = self._length - at - 1
        self._keep(text[start:])
