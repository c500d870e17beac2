"""`ChatView`: a conversation as styled lines."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable, Sequence

from acp_agent.cli.chat.commands import COMMANDS
from acp_agent.cli.chat.markdown import MarkdownText
from acp_agent.cli.chat.plain import PlainText, StreamedText
from acp_agent.cli.chat.screen import FOLDED_ROWS, Screen, cut_row
from acp_agent.cli.chat.wrapping import restyled
from acp_agent.cli.terminal.client import Line, TerminalView, patch_lines
from acp_agent.cli.terminal.sessions import LEFT_OUT, REFUSED
from acp_agent.conversation.updates import CallFinished, CallOutput, Command, TurnOver
from acp_agent.conversation.views import CallView
from acp_agent.errors import AgentError
from acp_agent.logfile import log_failure
from acp_agent.tools.text import counted

_MOST_FOLDED = 50
"""Outputs that can be unfolded, the newest."""
_STOPS = {
    "refusal": f"{REFUSED} {LEFT_OUT}",
    "cancelled": "Cancelled.",
    "max_tokens": "The answer was cut off at the model's output limit.",
    "max_turn_requests": "The turn has reached its limit of model requests. Send a prompt to continue.",
}

_log = logging.getLogger(__name__)


class ChatView(TerminalView):
    """Shows messages, calls, questions and plans above what a person types, without
    escape sequences and secrets.
    """

    def __init__(self, screen: Screen) -> None:
        super().__init__()
        self.screen = screen
        self._streamed = self._formatter()
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
            self._streamed = self._formatter()
        # Masked before it is broken into rows: a secret may take two of them.
        safe = self._safe_stream.feed(text)
        self._print_rows(self._streamed.feed(safe, self.screen.columns))
        self.screen.show_partial(self._partial)

    def end_stream(self) -> None:
        """Finish the last line of the text that streams."""
        if self._message:
            self._message = ""
            self.screen.show_partial(None)
            columns = self.screen.columns
            self._print_rows(self._streamed.feed(self._safe_stream.flush(), columns))
            self._print_rows(self._streamed.finish(columns))

    def _formatter(self) -> StreamedText:
        """Return a formatter for streamed text. Without colours, Markdown is shown as
        it is.
        """
        return MarkdownText() if self.screen.has_colours else PlainText()

    def _partial(self) -> list[Line]:
        rows = self._streamed.preview(self.screen.columns)
        return [restyled(row, self._style) for row in rows]

    def _print_rows(self, rows: Iterable[Line]) -> None:
        self.screen.print([restyled(row, self._style) for row in rows])

    def markdown(self, text: str) -> None:
        """Show a complete text in Markdown."""
        formatter = self._formatter()
        columns = self.screen.columns
        rows = formatter.feed(self.safe(text), columns)
        self.lines([*rows, *formatter.finish(columns)])

    def line(self, style: str, text: str) -> None:
        """Show a text in one style."""
        rows = PlainText().feed(f"{self.safe(text)}\n", self.screen.columns)
        self.lines([(style, part)] for row in rows for _, part in row)

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
            self.line("dim", "There is no shortened output.")
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
