"""`Screen`: the rows below a conversation: what streams, a question, what is typed, and
the meter.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum, auto
from itertools import chain
from pathlib import Path
from typing import TypeAlias

import anyio
from prompt_toolkit.application import Application, get_app_session
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import ThreadedCompleter
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition, has_completions
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.history import FileHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.layout import (
    ConditionalContainer,
    Dimension,
    Float,
    FloatContainer,
    HSplit,
    Layout,
    Window,
)
from prompt_toolkit.layout.controls import BufferControl, FormattedTextControl
from prompt_toolkit.layout.menus import CompletionsMenu
from prompt_toolkit.output import ColorDepth, Output
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.renderer import print_formatted_text
from prompt_toolkit.styles import Style
from prompt_toolkit.utils import get_cwidth
from prompt_toolkit.widgets import SearchToolbar

from acp_agent.cli.chat.completion import PromptCompleter
from acp_agent.cli.chat.paste import PastingInput
from acp_agent.cli.terminal.client import Line
from acp_agent.cli.terminal.streams import unfiltered

_MENU_ROWS = 8
_ROWS_BELOW = 4
"""Rows to leave for what is typed and the meter, below a line that is unfinished."""
FOLDED_ROWS = 8
"""Rows that are shown of a command's output: the last ones."""


class Key(Enum):
    """A key that acts on the conversation and not on the line."""

    INTERRUPT = auto()
    NEXT_MODE = auto()
    UNFOLD = auto()


Input: TypeAlias = str | Key
"""A prompt, or a key."""


# The terminal's own sixteen colours, which fit its background.
_STYLE = Style.from_dict(
    {
        "you": "bold",
        "code": "ansicyan",
        "heading": "bold",
        "title": "underline",
        "strong": "bold",
        "em": "italic",
        "s": "strike",
        "link": "underline",
        "mark": "ansibrightblack",
        "thought": "ansibrightblack italic",
        "summary": "ansibrightblack italic",
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


@dataclass(slots=True)
class _Wait:
    """Something that the person waits for.

    :ivar since: by the monotonic clock.
    :ivar printed: the last lines that it has printed.
    """

    what: str
    since: float
    printed: Sequence[str] = ()


class Screen:
    """Takes what a person types; whatever is printed goes above it.

    It is one application of the line editor for a whole conversation, so that a person
    types all the while.

    :param history: the file that keeps what was typed in all conversations.
    :ivar input: what was typed; ends when the person leaves.
    """

    def __init__(
        self, completer: PromptCompleter, history: Path, output: Output
    ) -> None:
        self._send, self.input = anyio.create_memory_object_stream[Input](math.inf)
        self.completer = completer
        self._meter = ""
        self._partial: Callable[[], Sequence[Line]] | None = None
        self._waits: dict[str, _Wait] = {}
        self._question = ""
        self._typed = Document()
        self._answer: str | None = None
        self._answered = anyio.Event()
        self._asking = anyio.Lock()
        self._output = output
        self._buffer = Buffer(
            completer=ThreadedCompleter(completer),
            history=FileHistory(history),
            multiline=True,
            complete_while_typing=Condition(lambda: not self._question),
        )
        self._search = SearchToolbar()
        self._application: Application[None] = Application(
            layout=self._layout(),
            key_bindings=self._bindings(),
            style=_STYLE,
            input=PastingInput(get_app_session().input),
            output=self._output,
            erase_when_done=True,
            include_default_pygments_style=False,
            refresh_interval=1,  # the seconds of what is waited for
        )

    @property
    def columns(self) -> int:
        """Return the terminal's width."""
        return max(10, self._output.get_size().columns)

    @property
    def has_colours(self) -> bool:
        """Return whether the terminal has colours and the user wants them."""
        depth = ColorDepth.from_env() or self._output.get_default_color_depth()
        return depth is not ColorDepth.DEPTH_1_BIT

    async def run(self) -> None:
        """Take what is typed until the person leaves.

        :raises EOFError, OSError, termios.error: the terminal is gone.
        """
        with self._send:
            await self._application.run_async(
                handle_sigint=False, set_exception_handler=False
            )

    def submit(self, text: str) -> None:
        """Take a text as if it had been typed."""
        self._send.send_nowait(text)

    def put_back(self, text: str) -> None:
        """Put a text that was entered into the line again, before what has been typed
        since.
        """
        typed = self._typed if self._question else self._buffer.document
        end = f"\n{typed.text}" if typed.text else ""
        document = Document(
            text + end,
            len(text)
            + (len(end) - len(typed.text) + typed.cursor_position if end else 0),
        )
        if self._question:
            self._typed = document
        else:
            self._buffer.reset(document)
        self._application.invalidate()

    def leave(self) -> None:
        """End `run`."""
        if self._application.is_running and not self._application.is_done:
            self._application.exit()

    def print(self, lines: Iterable[Line]) -> None:
        """Print lines above what stays."""
        # The terminal is gone; what happens is in the session all the same.
        with suppress(OSError):
            if self._application.is_running:
                self._application.renderer.erase()
            shown = [
                [
                    *((f"class:{style}", _one_row(text)) for style, text in line),
                    ("", "\n"),
                ]
                for line in lines
            ]
            print_formatted_text(self._output, [*chain.from_iterable(shown)], _STYLE)
        self._application.invalidate()

    def show_partial(self, lines: Callable[[], Sequence[Line]] | None) -> None:
        """Show the lines that are unfinished: their last rows, if they do not fit.

        :param lines: returns them whenever the screen is drawn; None for no lines.
        """
        self._partial = lines
        self._application.invalidate()

    def busy(self, what: str, key: str = "") -> None:
        """Show what the person waits for, and for how long; "" for nothing.

        :param key: tells things apart that are waited for at once; the one that began
            last is shown.
        """
        before = self._waits.get(key)
        if what:
            self._waits[key] = _Wait(what, before.since if before else time.monotonic())
        else:
            self._waits.pop(key, None)
        self._application.invalidate()

    def show_printed(self, lines: Sequence[str], key: str = "") -> None:
        """Show the last of the lines that what is waited for has printed."""
        if wait := self._waits.get(key):
            wait.printed = lines[-FOLDED_ROWS:]
            self._application.invalidate()

    def show_meter(self, text: str) -> None:
        """Show this in the last row, as far as there is room."""
        self._meter = text
        self._application.invalidate()

    async def ask(self, question: str) -> str | None:
        """Return what the person types behind a question, stripped; None for ctrl-d.

        What they were typing is there again afterwards.
        """
        async with self._asking:
            self._typed = self._buffer.document
            self._question = question
            self._answered = anyio.Event()
            self._buffer.reset()
            self._application.invalidate()
            try:
                await self._answered.wait()
            finally:
                self._question = ""
                self._buffer.reset(
                    Document(self._typed.text, self._typed.cursor_position)
                )
                self._application.invalidate()
            answer = self._answer
        self.print([[("question", question), ("you", answer or "")]])
        return answer

    def _layout(self) -> Layout:
        control = BufferControl(
            self._buffer,
            search_buffer_control=self._search.control,
            preview_search=True,
        )
        typed = Window(
            control,
            height=lambda: Dimension(
                min=_MENU_ROWS + 1 if self._buffer.complete_state else 1
            ),
            get_line_prefix=self._prefix,
            wrap_lines=True,
            dont_extend_height=True,
        )
        menu = Float(
            CompletionsMenu(max_height=_MENU_ROWS, scroll_offset=1),
            xcursor=True,
            ycursor=True,
        )
        rows = [
            ConditionalContainer(
                Window(
                    FormattedTextControl(self._above),
                    wrap_lines=True,
                    dont_extend_height=True,
                ),
                Condition(lambda: bool(self._above())),
            ),
            FloatContainer(typed, [menu]),
            self._search,
            Window(
                FormattedTextControl(lambda: self._meter), height=1, style="class:meter"
            ),
        ]
        return Layout(HSplit(rows), focused_element=typed)

    def _prefix(self, line: int, wrapped: int) -> StyleAndTextTuples:
        if line or wrapped:
            return [("", "  ")]
        return (
            [("class:question", self._question)]
            if self._question
            else [("class:you", "> ")]
        )

    def _above(self) -> StyleAndTextTuples:
        shown: StyleAndTextTuples = []
        partial = self._partial() if self._partial is not None else ()
        wait = None if self._question else next(reversed(self._waits.values()), None)
        if wait is not None:
            most = min(FOLDED_ROWS, self._output.get_size().rows // 3)
            shown += [
                ("", f"  {cut_row(line, self.columns - 2)}\n")
                for line in wait.printed[-most:]
            ]
        if partial:
            room = max(1, self._output.get_size().rows - _ROWS_BELOW)
            for line in partial[-room:]:
                shown.extend(
                    (f"class:{style}", _one_row(text.replace("\t", "    ")))
                    for style, text in line
                )
                shown.append(("", "\n"))
            return shown[:-1]
        if wait is None:
            return shown
        seconds = int(time.monotonic() - wait.since)
        return [
            *shown,
            ("class:dim", f"{_one_row(wait.what)} … {seconds // 60}:{seconds % 60:02}"),
        ]

    def _bindings(self) -> KeyBindings:
        keys = KeyBindings()
        typing = ~Condition(lambda: self._application.layout.is_searching)

        @keys.add("enter", filter=typing)
        def enter(event: KeyPressEvent) -> None:
            text = self._buffer.text
            if self._question:
                self._buffer.reset()
                self._give_answer(text.strip())
            elif text.strip():
                self._buffer.append_to_history()
                self._buffer.reset()
                self._send.send_nowait(text.strip("\n"))

        @keys.add("tab", filter=typing)
        def complete(event: KeyPressEvent) -> None:
            if self._buffer.complete_state is None:
                self._buffer.start_completion(insert_common_part=True)
            else:
                self._buffer.complete_next()

        @keys.add("c-c", filter=typing)
        def interrupt(event: KeyPressEvent) -> None:
            if self._waits or not self._buffer.text:
                self._send.send_nowait(Key.INTERRUPT)
            else:
                self._buffer.reset()

        @keys.add("c-d")
        def end(event: KeyPressEvent) -> None:
            if self._question:
                self._give_answer(None)
            elif self._buffer.text:
                self._buffer.delete()
            else:
                self.leave()

        @keys.add("escape", "enter")
        def new_line(_: KeyPressEvent) -> None:
            self._buffer.newline(copy_margin=False)

        @keys.add("c-z")
        def suspend(event: KeyPressEvent) -> None:
            event.app.suspend_to_background()

        @keys.add("s-tab", filter=~has_completions)
        def next_mode(_: KeyPressEvent) -> None:
            self._send.send_nowait(Key.NEXT_MODE)

        @keys.add("c-o")
        def unfold(_: KeyPressEvent) -> None:
            self._send.send_nowait(Key.UNFOLD)

        return keys

    def _give_answer(self, answer: str | None) -> None:
        if not self._answered.is_set():
            self._answer = answer
            self._answered.set()


def terminal_output() -> Output:
    """Return standard output as prompt_toolkit writes to it; without colours where
    `NO_COLOR` is set.
    """
    output = Vt100_Output.from_pty(
        unfiltered(sys.stdout), default_color_depth=ColorDepth.from_env()
    )
    # Nothing here needs to know where the cursor is, and a terminal that does not
    # answer would be waited for.
    output.enable_cpr = False
    return output


def cut_row(line: str, columns: int) -> str:
    """Return a line that fits into so many columns: its beginning, where it is longer."""
    if get_cwidth(line) <= columns:
        return line
    line = line[: max(0, columns - 1)]
    while get_cwidth(line) >= columns:
        line = line[:-1]
    return f"{line}…"


def _one_row(text: str) -> str:
    """Return a text without line ends, which would take another row."""
    return text.replace("\r", " ").replace("\n", " ")
