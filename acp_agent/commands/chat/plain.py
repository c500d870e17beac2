"""`PlainDesk`: a conversation in a terminal that cannot move its cursor, as lines.

What is typed is the terminal's own matter: it shows it, rubs it out, and gives it away line by line. Only ctrl-c and
ctrl-z are taken from it, which then end a line like enter does, so that they cancel a turn, or suspend, as they do
elsewhere in a conversation. termios(4), "Canonical mode input processing".
"""

from __future__ import annotations

import os
import signal
import sys
import termios
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager, suppress

import anyio

from acp_agent.commands.chat.desk import PROMPT, Line, Question, Typing
from acp_agent.commands.safe import Safe

_LINE = 65_536
"""Bytes; terminals keep less of one."""
_INTERRUPT, _SUSPEND = b"\x03", b"\x1a"
_ENDS = (b"\n", _INTERRUPT, _SUSPEND)
_COLUMNS = 80


class PlainDesk:
    """:param typing: what becomes of what is typed.
    :param keep: keeps what was typed as a prompt.
    :param safe: makes a text safe to be shown.
    """

    def __init__(self, typing: Typing, keep: Callable[[str], object], safe: Safe) -> None:
        self._typing = typing
        self._keep = keep
        self._safe = safe
        self._terminal = sys.stdin.fileno()
        self._question: Question | None = None
        self._asking = anyio.Lock()
        self._prompted = False
        self._over = False
        self._before = termios.tcgetattr(self._terminal)
        self._ours = termios.tcgetattr(self._terminal)
        self._ours[3] = self._ours[3] & ~termios.ISIG | termios.ICANON | termios.IEXTEN
        self._ours[6][termios.VEOL], self._ours[6][termios.VEOL2] = _INTERRUPT, _SUSPEND

    @property
    def columns(self) -> int:
        """Of the terminal; of one that does not tell, as many as most have."""
        try:
            return max(10, os.get_terminal_size(sys.stdout.fileno()).columns or _COLUMNS)
        except OSError:
            return _COLUMNS

    @property
    def keeps_typed(self) -> bool:
        """It stays in the terminal."""
        return True

    async def run(self) -> bool:
        """Take lines, until the person leaves.

        :returns: False where not the person has left, but the terminal.
        """
        try:
            with self._line_ends():
                self.prompt()
                typed = b""
                while not self._over:
                    await anyio.wait_readable(self._terminal)
                    read = os.read(self._terminal, _LINE)
                    typed += read
                    if not read:
                        termios.tcgetattr(self._terminal)  # fails where the terminal has gone
                    if not read or read[-1:] in _ENDS:  # ctrl-d behind something gives away what is there
                        self._take(typed)
                        typed = b""
        except (OSError, termios.error):
            return False
        finally:
            self._over = True
        return True

    def lines(self, lines: Iterable[Line]) -> None:
        """Print lines."""
        shown = ["".join(self._printable(text) for _, text in line) + "\n" for line in lines]
        self._write(("\n" if self._prompted and shown else "") + "".join(shown))
        self._prompted = self._prompted and not shown

    def live(self, style: str, text: str) -> None:
        """Nothing: what is shown once stays."""

    def busy(self, what: str) -> None:
        """Nothing, as well."""

    def renew(self) -> None:
        """Nothing: there is no meter."""

    def prompt(self) -> None:
        """Show that it is the person's turn."""
        if not self._prompted and not self._over:
            self._show(PROMPT if self._question is None else self._question.text)

    async def ask(self, question: str) -> str | None:
        """What the person types behind a question.

        :returns: without blanks around it; None for ctrl-d.
        """
        async with self._asking:
            self._question = asked = Question(question)
            self._show(question)
            try:
                await asked.answered.wait()
            finally:
                self._question = None
        return asked.answer

    def _take(self, typed: bytes) -> None:
        """A line with what ended it; nothing at all is ctrl-d."""
        text, end = (typed[:-1], typed[-1:]) if typed[-1:] in _ENDS else (typed, b"")
        self._prompted = end != b"\n" and (self._prompted or bool(typed))
        if end == _INTERRUPT:
            self._interrupt(bool(text))
        elif end == _SUSPEND:
            self._suspend()
        elif self._question is not None:
            self._question.give(text.decode(errors="replace").strip() if typed else None)
        elif not typed:
            self._over = True
        else:
            self._enter(text.decode(errors="replace"))

    def _enter(self, text: str) -> None:
        if text.strip():
            self._keep(text)
            self._typing.entered(text)
        else:
            self.prompt()

    def _interrupt(self, typed: bool) -> None:
        match self._typing.interrupted(typed):
            case "leave":
                self._over = True
            case "clear":
                self._show(PROMPT)
            case "stay":
                pass

    def _suspend(self) -> None:
        """Back to the shell; returns with its `fg`."""
        termios.tcsetattr(self._terminal, termios.TCSADRAIN, self._before)
        os.kill(0, signal.SIGTSTP)
        termios.tcsetattr(self._terminal, termios.TCSADRAIN, self._ours)
        self._prompted = False
        self.prompt()

    @contextmanager
    def _line_ends(self) -> Generator[None]:
        """Have ctrl-c and ctrl-z end a line."""
        termios.tcsetattr(self._terminal, termios.TCSADRAIN, self._ours)
        try:
            yield
        finally:
            with suppress(termios.error):
                termios.tcsetattr(self._terminal, termios.TCSADRAIN, self._before)

    def _show(self, prompt: str) -> None:
        self._write(("\n" if self._prompted else "") + self._printable(prompt))
        self._prompted = True

    def _printable(self, text: str) -> str:
        return self._safe(text.replace("\r", " ").replace("\n", " "))

    def _write(self, text: str) -> None:
        with suppress(OSError):  # the terminal has gone; what happens is in the session all the same
            sys.stdout.buffer.write(text.encode(sys.stdout.encoding, errors="replace"))
            sys.stdout.buffer.flush()
