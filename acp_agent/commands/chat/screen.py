"""`ScreenDesk`: a part of the terminal stays below what was said: what streams, a question, what is typed, the meter.

Whatever is printed goes above that part.
"""

from __future__ import annotations

import sys
import termios
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING

import anyio
from prompt_toolkit.application import Application
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition, has_completions
from prompt_toolkit.input import create_input
from prompt_toolkit.key_binding import KeyBindings
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
from prompt_toolkit.output import ColorDepth
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.renderer import print_formatted_text
from prompt_toolkit.utils import get_cwidth
from prompt_toolkit.widgets import SearchToolbar

from acp_agent.commands.chat.desk import PROMPT, Line, Question, Typing
from acp_agent.commands.chat.keys import Candidates, Completions, Typed, take_early_keys
from acp_agent.commands.chat.style import STYLE
from acp_agent.commands.safe import Safe

if TYPE_CHECKING:
    from prompt_toolkit.formatted_text import StyleAndTextTuples
    from prompt_toolkit.key_binding import KeyPressEvent

    from acp_agent.commands.chat.history import HistoryFile

_MENU_ROWS = 8


class ScreenDesk:
    """:param typing: what becomes of what is typed.
    :param next_mode: shift-tab was typed.
    :param candidates: what may be meant by what stands before the cursor; with whether the person asked for it.
    :param meter: the line at the bottom, for so many columns.
    :param history: what was typed before.
    :param safe: makes a text safe to be shown.
    """

    def __init__(
        self,
        typing: Typing,
        *,
        next_mode: Callable[[], object],
        candidates: Candidates,
        meter: Callable[[int], str],
        history: HistoryFile,
        safe: Safe,
    ) -> None:
        self._typing = typing
        self._next_mode = next_mode
        self._safe = safe
        self._live: tuple[str, str] = ("", "")
        self._busy = ""
        self._busy_since = 0.0
        self._question: Question | None = None
        self._asking = anyio.Lock()
        self._output = Vt100_Output.from_pty(sys.stdout, default_color_depth=ColorDepth.from_env())
        # What stays below needs no answer to where the cursor is, and a terminal that gives none is no worse.
        self._output.enable_cpr = False
        self._completions = Completions(candidates)
        self._buffer = Buffer(
            completer=self._completions,
            history=Typed(history),
            multiline=True,
            complete_while_typing=Condition(lambda: self._question is None),
        )
        self._search = SearchToolbar()
        self._application: Application[None] = Application(
            layout=self._layout(meter),
            key_bindings=self._bindings(),
            style=STYLE,
            input=create_input(),
            output=self._output,
            erase_when_done=True,
            include_default_pygments_style=False,
        )

    @property
    def columns(self) -> int:
        """Of the terminal."""
        return max(10, self._output.get_size().columns)

    @property
    def keeps_typed(self) -> bool:
        """It is gone once it is sent."""
        return False

    async def run(self) -> bool:
        """Take what is typed, until the person leaves.

        :returns: False where not the person has left, but the terminal.
        """
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._tick)
            try:
                with self._application.input.raw_mode():
                    take_early_keys(self._application.input)
                    await self._application.run_async(handle_sigint=False, set_exception_handler=False)
            except (EOFError, OSError, termios.error):
                return False
            finally:
                tasks.cancel_scope.cancel()
        return True

    def _leave(self) -> None:
        if self._application.is_running and not self._application.is_done:
            self._application.exit()

    # --- what is shown ---

    def lines(self, lines: Iterable[Line]) -> None:
        """Print lines, above what stays below."""
        shown: StyleAndTextTuples = []
        for line in lines:
            shown += [(f"class:{style}", self._printable(text)) for style, text in line]
            shown.append(("", "\n"))
        if not shown:
            return
        with suppress(OSError):  # the terminal has gone; what happens is in the session all the same
            if self._application.is_running:
                self._application.renderer.erase()
            print_formatted_text(self._output, shown, STYLE)
        self._application.invalidate()

    def live(self, style: str, text: str) -> None:
        """Show a line that is not whole yet; "" for none."""
        self._live = (style, text)
        self._application.invalidate()

    def busy(self, what: str) -> None:
        """Say what is waited for, where nothing streams; "" for nothing, which makes the person's turn."""
        if what and not self._busy:
            self._busy_since = anyio.current_time()
        self._busy = what
        self._application.invalidate()

    def renew(self) -> None:
        """Show the meter as it is now."""
        self._application.invalidate()

    def prompt(self) -> None:
        """Nothing: what is typed has its place at any time."""

    async def ask(self, question: str) -> str | None:
        """What the person types behind a question; what they were typing is there again afterwards.

        :returns: without blanks around it; None for ctrl-d.
        """
        async with self._asking:
            asked, typed = Question(question), self._buffer.document
            self._question = asked
            self._buffer.reset()
            self._application.invalidate()
            try:
                await asked.answered.wait()
            finally:
                self._question = None
                self._buffer.reset(Document(typed.text, typed.cursor_position))
                self._application.invalidate()
        self.lines([[("question", question), ("you", asked.answer or "")]])
        return asked.answer

    def _printable(self, text: str) -> str:
        return self._safe(text.replace("\r", " ").replace("\n", " "))

    async def _tick(self) -> None:
        """Show for how long something is waited for, second by second, until this is cancelled."""
        while True:
            await anyio.sleep(1)
            if self._busy:
                self._application.invalidate()

    # --- what stays below ---

    def _layout(self, meter: Callable[[int], str]) -> Layout:
        control = BufferControl(
            self._buffer, search_buffer_control=self._search.control, preview_search=True, focusable=True
        )
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
                Window(FormattedTextControl(self._above), height=1), Condition(self._is_something_above)
            ),
            FloatContainer(typed, [menu]),
            self._search,
            Window(FormattedTextControl(lambda: meter(self.columns)), height=1, style="class:meter"),
        ]
        return Layout(HSplit(rows), focused_element=typed)

    def _typed_height(self) -> Dimension:
        completing = self._buffer.complete_state is not None
        return Dimension(min=_MENU_ROWS + 1) if completing else Dimension(min=1)

    def _prefix(self, line: int, wrapped: int) -> StyleAndTextTuples:
        if line or wrapped:
            return [("class:dim", "  ")]
        if self._question is not None:
            return [("class:question", self._printable(self._question.text))]
        return [("class:you", PROMPT)]

    def _is_something_above(self) -> bool:
        return bool(self._live[1] or (self._busy and self._question is None))

    def _above(self) -> StyleAndTextTuples:
        style, text = self._live
        if text:
            text = self._printable(text.replace("\t", "    "))
            while get_cwidth(text) > self.columns:
                text = text[max(1, len(text) - self.columns) :]
            return [(f"class:{style}", text)]
        seconds = int(anyio.current_time() - self._busy_since)
        since = f" {seconds // 60}:{seconds % 60:02}"
        what = self._printable(self._busy)[: max(1, self.columns - len(since) - 2)]
        return [("class:dim", f"{what} …{since}")]

    # --- keys ---

    def _bindings(self) -> KeyBindings:
        keys = KeyBindings()
        searching = Condition(lambda: self._application.layout.is_searching)

        def submit(event: KeyPressEvent) -> None:
            self._submit()

        def line(event: KeyPressEvent) -> None:
            self._buffer.newline(copy_margin=False)

        def interrupt(event: KeyPressEvent) -> None:
            self._interrupt()

        def end(event: KeyPressEvent) -> None:
            if self._question is not None:
                self._question.give(None)
            elif not self._buffer.text:
                self._leave()
            else:
                self._buffer.delete()

        def suspend(event: KeyPressEvent) -> None:
            event.app.suspend_to_background()

        def mode(event: KeyPressEvent) -> None:
            self._next_mode()

        def complete(event: KeyPressEvent) -> None:
            if self._are_there():
                self._complete()
            else:
                event.app.create_background_task(self._complete_soon(self._buffer.document))

        keys.add("enter", filter=~searching)(submit)
        keys.add("tab", filter=~searching)(complete)
        keys.add("escape", "enter")(line)
        keys.add("c-c", filter=~searching)(interrupt)
        keys.add("c-d")(end)
        keys.add("c-z")(suspend)
        keys.add("s-tab", filter=~has_completions)(mode)
        return keys

    def _are_there(self) -> bool:
        state = self._buffer.complete_state
        return state is not None and bool(state.completions)

    def _complete(self) -> None:
        state = self._buffer.complete_state
        if state is None or not state.completions:
            self._buffer.start_completion(insert_common_part=True)
        elif len(state.completions) == 1 and state.completions[0].text.endswith("/"):
            self._buffer.apply_completion(state.completions[0])
            self._buffer.start_completion()  # what is in that folder
        else:
            self._buffer.complete_next()

    async def _complete_soon(self, typed: Document) -> None:
        """Complete what was typed as soon as nothing is looked for: the buffer looks for one thing at a time, and would
        drop the tab of whoever types faster.

        :param typed: as it was then; where it is something else meanwhile, the tab was for something else too.
        """
        for _ in range(2):  # for the beginning of it, perhaps, and then for all of it
            await self._completions.looked()
            if self._are_there():
                break
        if self._buffer.document == typed:
            self._complete()

    def _submit(self) -> None:
        text = self._buffer.text
        if self._question is not None:
            self._buffer.reset()
            self._question.give(text.strip())
        elif text.strip():
            self._buffer.reset(append_to_history=True)
            self._typing.entered(text)
        else:
            self._buffer.reset()

    def _interrupt(self) -> None:
        match self._typing.interrupted(bool(self._buffer.text)):
            case "leave":
                self._leave()
            case "clear":
                self._buffer.reset()
            case "stay":
                pass
