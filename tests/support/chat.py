"""The rows below a conversation, in memory: a `Screen` with somebody who types, and
what they see.

    async with typing(tmp_path) as person:
        person.type("Hello.\\r")
        assert await person.input() == "Hello."

No process, no session.
"""

from __future__ import annotations

import io
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pyte
from prompt_toolkit.application import create_app_session
from prompt_toolkit.data_structures import Size
from prompt_toolkit.input import PipeInput, create_pipe_input
from prompt_toolkit.output.vt100 import Vt100_Output

from acp_agent.cli.chat.completion import PromptCompleter
from acp_agent.cli.chat.screen import Input, Screen

SECONDS = 10
ROWS = 30


class Emulated(io.StringIO):
    """A terminal's side of standard output.

    :ivar changed: set with each write.
    """

    def __init__(self, columns: int, rows: int) -> None:
        super().__init__()
        self.screen = pyte.Screen(columns, rows)
        self._stream = pyte.Stream(self.screen)
        self.changed = anyio.Event()

    def write(self, text: str) -> int:
        self._stream.feed(text)
        self.changed.set()
        return len(text)


class Person:
    """Somebody who types, and reads the screen; made by `typing`."""

    def __init__(
        self,
        screen: Screen,
        completer: PromptCompleter,
        keys: PipeInput,
        terminal: Emulated,
    ) -> None:
        self.screen = screen
        self.completer = completer
        self.type = keys.send_text
        self._terminal = terminal

    @property
    def rows(self) -> list[str]:
        return [row.rstrip() for row in self._terminal.screen.display]

    @property
    def text(self) -> str:
        return "\n".join(self.rows)

    async def sees(self, text: str) -> None:
        await self.sees_that(lambda: text in self.text)

    async def sees_that(self, holds: Callable[[], bool]) -> None:
        with anyio.move_on_after(SECONDS):
            while not holds():
                self._terminal.changed = anyio.Event()
                await self._terminal.changed.wait()
        assert holds(), self.text

    async def input(self) -> Input:
        """Return the next prompt or key that the screen hands on."""
        with anyio.fail_after(SECONDS):
            return await self.screen.input.receive()


@asynccontextmanager
async def typing(
    folder: Path, *, columns: int = 100, rows: int = ROWS
) -> AsyncGenerator[Person]:
    """Show a screen for a conversation in a folder, whose history is kept there as
    well.
    """
    terminal = Emulated(columns, rows)
    output = Vt100_Output(terminal, lambda: Size(rows, columns), enable_cpr=False)
    completer = PromptCompleter()
    completer.cwd = folder
    with create_pipe_input() as keys, create_app_session(input=keys, output=output):
        screen = Screen(completer, folder / "chat_history", output)
        person = Person(screen, completer, keys, terminal)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(screen.run)
            screen.show_meter("The meter")
            await person.sees("The meter")
            with screen.input:
                yield person
            screen.leave()
