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
"""Number of newest outputs that can be unfolded."""
_STOPS = {
    "refusal": f"{REFUSED} {LEFT_OUT}",
    "cancelled": "Cancelled.",
    "max_tokens": "The answer was cut off at the model's output limit.",
    "max_turn_requests": "The turn has reached its limit of model requests. Send a prompt to continue.",
}

_log = logging.getLogger(__name__)


class ChatView(TerminalView):
    """Shows messages, calls, questions and plans above the input line, without escape
    sequences and secrets.
    """

    def __init__(self, screen: Screen) -> None:
        super().__init__()
        self.screen = screen
        self._streamed = self._formatter()
        self._style = ""
        self._printed: dict[str, str] = {}
        self._folded: deque[tuple[str, Sequence[str]]] = deque(maxlen=_MOST_FOLDED)

    def stream(self, key: str, style: str, text: str) -> None:
        """Show a piece of the text with this key. A new key begins a new paragraph."""
        if self._message != key:
            self.end_stream()
            self.screen.print([[]])
            self._message = key
            self._style = style
            self._streamed = self._formatter()
        # Mask secrets before the text is broken into rows, since a secret may take two.
        safe = self._safe_stream.feed(text)
        self._print_rows(self._streamed.feed(safe, self.screen.columns))
        self.screen.show_partial(self._partial)

    def end_stream(self) -> None:
        """Finish the last line of the streamed text."""
        if self._message:
            self._message = ""
            self.screen.show_partial(None)
            columns = self.screen.columns
            self._print_rows(self._streamed.feed(self._safe_stream.flush(), columns))
            self._print_rows(self._streamed.finish(columns))

    def _formatter(self) -> StreamedText:
        """Return a formatter for streamed text. Without colours, it shows the Markdown
        source.
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
        """Show lines that have already been made safe."""
        self.end_stream()
        self.screen.print(lines)

    def prompt(self, text: str, *, continues: bool = False) -> None:
        """Show the user's prompt.

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
        """Show nothing yet, since a call is shown on one line when it has ended."""
        self.end_stream()

    def call_output(self, update: CallOutput) -> None:
        """Show the end of the output that a call's command has printed so far."""
        self._printed[update.call_id] = update.text
        self.screen.show_printed(_rows(self.safe(update.text)))

    def call_finished(self, update: CallFinished, *, changes: bool) -> None:
        """Show that a call has ended, with the reason for a failure and the end of a
        command's output.

        :param changes: whether to show the changes that the call made to files.
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
        """Show the last rows of an output, cut to the width of the screen, and keep the
        whole output for `unfold`.
        """
        shown = [cut_row(row, self.screen.columns - 2) for row in rows[-FOLDED_ROWS:]]
        if shown != rows:
            self._folded.append((title, rows))
            self.lines(
                [[("dim", f"  … of {counted(len(rows), 'line')}; ctrl-o shows more")]]
            )
        self.lines([("", f"  {row}")] for row in shown)

    def unfold(self) -> None:
        """Show the newest folded output in full. The next call shows the one before."""
        if not self._folded:
            self.line("dim", "There is no shortened output.")
            return
        title, rows = self._folded.pop()
        self.line("call", f"▾ {title}")
        self.lines([("", row)] for row in rows)

    def command_output(self, key: str, text: str) -> None:
        """Show the end of the output that the user's own command has printed so far.

        :param key: the key under which `busy` shows that the command is running.
        """
        self.screen.show_printed(_rows(self.safe(text)), key)

    def command_ended(self, ending: str, text: str) -> None:
        """Show the whole output of the user's own command.

        :param ending: a line about how the command ended.
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
        """Show an error."""
        known = isinstance(error, AgentError)
        self.line(
            "error",
            str(error) if known else log_failure(_log, "The turn failed inside", error),
        )

    def busy(self, what: str, key: str = "") -> None:
        """Show what the session is waiting for. Other keys are for things that are
        waited for at the same time.
        """
        self.screen.busy(self.safe(what), key)

    def offer(self, commands: Sequence[Command]) -> None:
        """Offer slash commands for completion, followed by those of the terminal."""
        taken = {command.name for command in commands}
        own = (command for command in COMMANDS if command.name not in taken)
        self.screen.completer.commands = [*commands, *own]

    async def ask(self, question: str) -> str | None:
        """Return the user's answer to a question, or None for ctrl-d."""
        self.end_stream()
        return await self.screen.ask(question)


def _output(view: CallView) -> str:
    """Return the output of a call's command. Return an empty string if it is unknown,
    and for calls of other tools.
    """
    raw = view.raw_output
    if view.kind != "execute" or not isinstance(raw, dict):
        return ""
    streams = (raw.get(name) for name in ("output", "stdout", "stderr"))
    return "\n".join(
        text.rstrip("\n") for text in streams if isinstance(text, str) and text
    )


def _rows(text: str) -> list[str]:
    """Return the lines of an output as a terminal would show them in the end. Of a line
    that was overwritten, such as a progress bar, only the last state is left.
    """
    lines = text.strip("\n").split("\n") if text.strip() else []
    return [line.rstrip("\r").rpartition("\r")[2].expandtabs() for line in lines]
