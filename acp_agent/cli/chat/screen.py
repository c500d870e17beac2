"""`Screen`: the rows below a conversation: what streams, a question, what is typed, and the meter."""

from __future__ import annotations

import math
import termios
import time
from collections.abc import Iterable
from contextlib import suppress
from enum import Enum, auto
from typing import TYPE_CHECKING, TypeAlias

import anyio
from prompt_toolkit.application import Application
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition, has_completions
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.layout import ConditionalContainer, Dimension, Float, FloatContainer, HSplit, Layout, Window
from prompt_toolkit.layout.controls import BufferControl, FormattedTextControl
from prompt_toolkit.layout.menus import CompletionsMenu
from prompt_toolkit.output import Output
from prompt_toolkit.utils import get_cwidth
from prompt_toolkit.widgets import SearchToolbar

from acp_agent.cli.chat.completion import PromptCompleter, PromptHistory
from acp_agent.cli.chat.view import STYLE, Line, one_row, print_lines
from acp_agent.frozen import frozen

if TYPE_CHECKING:
    from prompt_toolkit.key_binding import KeyPressEvent

_MENU_ROWS = 8


class Key(Enum):
    """A key that acts on the conversation and not on the line."""

    INTERRUPT = auto()
    NEXT_MODE = auto()


Input: TypeAlias = str | Key
"""A prompt, or a key."""


@frozen
class Meter:
    """What the last row of a conversation shows.

    :ivar used: tokens of the context; None before the first answer.
    :ivar window: of the model, in tokens.
    :ivar threshold: tokens from which on it is compacted by itself; None where it is not.
    :ivar cost: US dollars so far; None where that is not known.
    :ivar model: `provider/model`; empty where there is none.
    """

    used: int | None = None
    window: int = 0
    threshold: int | None = None
    cost: float | None = None
    model: str = ""
    mode: str = ""


class Screen:
    """Takes what a person types; whatever is printed goes above it.

    It is one application of the line editor for a whole conversation, so that a person types all the while.

    :ivar input: what was typed; ends when the person leaves, or the terminal is gone.
    :ivar gone: the terminal is gone.
    """

    def __init__(self, completer: PromptCompleter, history: PromptHistory, output: Output) -> None:
        self._send, self.input = anyio.create_memory_object_stream[Input](math.inf)
        self.gone = False
        self._meter = Meter()
        self._partial = ("", "")
        self._busy = ""
        self._busy_since = 0.0
        self._question = ""
        self._answer: str | None = None
        self._answered = anyio.Event()
        self._asking = anyio.Lock()
        self._output = output
        self._buffer = Buffer(
            completer=completer,
            history=history,
            multiline=True,
            complete_while_typing=Condition(lambda: not self._question),
        )
        self._search = SearchToolbar()
        self._application: Application[None] = Application(
            layout=self._layout(),
            key_bindings=self._bindings(),
            style=STYLE,
            output=self._output,
            erase_when_done=True,
            include_default_pygments_style=False,
            refresh_interval=1,  # the seconds of what is waited for
        )

    @property
    def columns(self) -> int:
        """The terminal's width."""
        return max(10, self._output.get_size().columns)

    async def run(self) -> None:
        """Take what is typed until the person leaves, or the terminal is gone."""
        with self._send:
            try:
                await self._application.run_async(handle_sigint=False, set_exception_handler=False)
            except (EOFError, OSError, termios.error):
                self.gone = True

    def leave(self) -> None:
        """End `run`."""
        if self._application.is_running and not self._application.is_done:
            self._application.exit()

    def print(self, lines: Iterable[Line]) -> None:
        """Print lines above what stays."""
        with suppress(OSError):  # the terminal is gone; what happens is in the session all the same
            if self._application.is_running:
                self._application.renderer.erase()
            print_lines(self._output, lines)
        self._application.invalidate()

    def show_partial(self, style: str, text: str) -> None:
        """Show a line that is not whole yet; "" for none."""
        self._partial = (style, text)
        self._application.invalidate()

    def busy(self, what: str) -> None:
        """Show what the person waits for, and for how long; "" for nothing."""
        if what and not self._busy:
            self._busy_since = time.monotonic()
        self._busy = what
        self._application.invalidate()

    def show_meter(self, meter: Meter) -> None:
        """Show this in the last row."""
        self._meter = meter
        self._application.invalidate()

    async def ask(self, question: str) -> str | None:
        """Return what the person types behind a question, stripped; None for ctrl-d.

        What they were typing is there again afterwards.
        """
        async with self._asking:
            typed, self._question = self._buffer.document, question
            self._answered = anyio.Event()
            self._buffer.reset()
            self._application.invalidate()
            try:
                await self._answered.wait()
            finally:
                self._question = ""
                self._buffer.reset(Document(typed.text, typed.cursor_position))
                self._application.invalidate()
            answer = self._answer
        self.print([[("question", question), ("you", answer or "")]])
        return answer

    def _layout(self) -> Layout:
        control = BufferControl(self._buffer, search_buffer_control=self._search.control, preview_search=True)
        typed = Window(
            control,
            height=self._typed_height,
            get_line_prefix=self._prefix,
            wrap_lines=True,
            dont_extend_height=True,
        )
        menu = Float(CompletionsMenu(max_height=_MENU_ROWS, scroll_offset=1), xcursor=True, ycursor=True)
        rows = [
            ConditionalContainer(
                Window(FormattedTextControl(self._above), height=1),
                Condition(lambda: bool(self._partial[1] or (self._busy and not self._question))),
            ),
            FloatContainer(typed, [menu]),
            self._search,
            Window(FormattedTextControl(lambda: meter_text(self._meter, self.columns)), height=1, style="class:meter"),
        ]
        return Layout(HSplit(rows), focused_element=typed)

    def _typed_height(self) -> Dimension:
        return Dimension(min=_MENU_ROWS + 1 if self._buffer.complete_state else 1)

    def _prefix(self, line: int, wrapped: int) -> StyleAndTextTuples:
        if line or wrapped:
            return [("", "  ")]
        return [("class:question", self._question)] if self._question else [("class:you", "> ")]

    def _above(self) -> StyleAndTextTuples:
        style, text = self._partial
        if text:
            text = one_row(text.replace("\t", "    "))
            while get_cwidth(text) > self.columns:
                text = text[max(1, len(text) - self.columns) :]
            return [(f"class:{style}", text)]
        seconds = int(time.monotonic() - self._busy_since)
        since = f" {seconds // 60}:{seconds % 60:02}"
        return [("class:dim", f"{one_row(self._busy)[: max(1, self.columns - len(since) - 2)]} …{since}")]

    def _bindings(self) -> KeyBindings:
        keys = KeyBindings()
        typing = ~Condition(lambda: self._application.layout.is_searching)

        def enter(event: KeyPressEvent) -> None:
            text = self._buffer.text
            if self._question:
                self._buffer.reset()
                self._give_answer(text.strip())
            elif text.strip():
                self._submit(text)

        def new_line(event: KeyPressEvent) -> None:
            self._buffer.newline(copy_margin=False)

        def interrupt(event: KeyPressEvent) -> None:
            if self._busy or not self._buffer.text:
                self._send.send_nowait(Key.INTERRUPT)
            else:
                self._buffer.reset()

        def end(event: KeyPressEvent) -> None:
            if self._question:
                self._give_answer(None)
            elif self._buffer.text:
                self._buffer.delete()
            else:
                self.leave()

        def suspend(event: KeyPressEvent) -> None:
            event.app.suspend_to_background()

        def next_mode(event: KeyPressEvent) -> None:
            self._send.send_nowait(Key.NEXT_MODE)

        def complete(event: KeyPressEvent) -> None:
            state = self._buffer.complete_state
            if state is None:
                self._buffer.start_completion(insert_common_part=True)
            elif len(state.completions) == 1 and state.completions[0].text.endswith("/"):
                self._buffer.apply_completion(state.completions[0])
                self._buffer.start_completion()  # what is in that folder
            else:
                self._buffer.complete_next()

        keys.add("enter", filter=typing)(enter)
        keys.add("tab", filter=typing)(complete)
        keys.add("escape", "enter")(new_line)
        keys.add("c-c", filter=typing)(interrupt)
        keys.add("c-d")(end)
        keys.add("c-z")(suspend)
        keys.add("s-tab", filter=~has_completions)(next_mode)
        return keys

    def _give_answer(self, answer: str | None) -> None:
        if not self._answered.is_set():
            self._answer = answer
            self._answered.set()

    def _submit(self, text: str) -> None:
        try:
            self._buffer.append_to_history()
        except OSError as error:
            reason = f"What you type is not kept for another time: {error.filename}: {error.strerror}."
            self.print([[("warning", reason)]])
        self._buffer.reset()
        self._send.send_nowait(text)


def meter_text(meter: Meter, columns: int) -> str:
    """Return the longest form of a meter that fits."""
    model = meter.model or "no model"
    cost = "" if meter.cost is None else f"${meter.cost:.2f}"
    share, size, full = "empty", "context empty", "context empty"
    if meter.used and meter.window > 0:
        share = f"{meter.used / meter.window:.0%}"
        size = f"{_short(meter.used)} of {_short(meter.window)} tokens ({share})"
        compacts = "no automatic compaction" if meter.threshold is None else f"compacts at {_short(meter.threshold)}"
        full = f"{size}, {compacts}"
    forms = (
        (full, cost, model, meter.mode),
        (size, model.rpartition("/")[2], meter.mode),
        (share, meter.mode),
        (share,),
    )
    texts = (" · ".join(filter(None, form)) for form in forms)
    return next((text for text in texts if get_cwidth(text) <= columns), "")


def _short(tokens: int) -> str:
    """Return three digits: `950`, `12.3k`, `128k`, `1.05M`."""
    if tokens < 1_000:
        return str(tokens)
    amount, suffix = (tokens / 1_000_000, "M") if tokens >= 999_500 else (tokens / 1_000, "k")
    return f"{amount:.0f}{suffix}" if amount >= 99.95 else f"{amount:.3g}{suffix}"
