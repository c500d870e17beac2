"""A command in a terminal, and what a person sees there: an emulated screen with what
has scrolled off it.

    async with watching(home, "chat", env=server.env()) as person:
        await person.until("> ")
        person.type("Hello.\\r")
        await person.until("Yes.")
        assert person.bottom.startswith("1.2k of ")

The process is `support.terminal`'s.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path

import anyio
import pyte

from support.forked import Started
from support.terminal import Typist, at_a_terminal

ENTER = "\r"
ESCAPE = "\x1b"
TAB = "\t"
BACK_TAB = "\x1b[Z"
UP = "\x1b[A"
CTRL_C = "\x03"
CTRL_D = "\x04"
CTRL_R = "\x12"
CTRL_Z = "\x1a"
ROWS = 30
SECONDS = 20
"""That anything is waited for."""


class Watcher(Typist):
    """Somebody who types, and reads a screen; made by `watching`.

    :ivar raw: all bytes that the terminal was sent.
    """

    def __init__(self, process: Started, terminal: int, *, columns: int) -> None:
        super().__init__(process, terminal)
        self._screen = pyte.HistoryScreen(columns, ROWS, history=5_000, ratio=0.5)
        self._stream = pyte.ByteStream(self._screen)
        self.raw = b""

    @property
    def rows(self) -> list[str]:
        """The rows of the screen, and above them those that have scrolled off it,
        without blanks at their ends.
        """
        width = range(self._screen.columns)
        gone = [
            "".join(line[column].data for column in width).rstrip()
            for line in self._screen.history.top
        ]
        return [*gone, *(row.rstrip() for row in self._screen.display)]

    @property
    def text(self) -> str:
        return "\n".join(self.rows)

    @property
    def bottom(self) -> str:
        return next((row for row in reversed(self.rows) if row), "")

    def colour(self, text: str) -> str:
        """The colour of the first character of a text that is on the screen."""
        for number, row in enumerate(self._screen.display):
            if (column := row.find(text)) >= 0:
                return self._screen.buffer[number][column].fg
        raise AssertionError(f"{text!r} is not on the screen:\n{self.text}")

    async def until(self, text: str, times: int = 1) -> None:
        await self.until_so(lambda: self.text.count(text) >= times, text)

    async def until_gone(self, text: str) -> None:
        await self.until_so(lambda: text not in self.text, f"no {text}")

    async def until_so(self, holds: Callable[[], bool], what: str = "") -> None:
        with anyio.move_on_after(SECONDS):
            while not holds() and await self._read():
                pass
        seen = "\n".join(self.rows[-80:])
        assert holds(), f"{what!r} was not seen, but:\n{seen}"

    def take(self, read: bytes) -> None:
        self.raw += read
        self._stream.feed(read)


def watching(
    home: Path, *words: str, env: Mapping[str, str], columns: int = 100
) -> AbstractAsyncContextManager[Watcher]:
    """Run `acp-agent` in a terminal of this width, and of 30 rows."""
    its = {"TERM": "xterm-256color", **env}
    person = partial(Watcher, columns=columns)
    return at_a_terminal(home, *words, env=its, person=person, size=(ROWS, columns))


async def sends(person: Watcher, text: str) -> None:
    """Type a prompt, and wait until it is seen among what was said."""
    times = person.text.count(f"> {text}")
    person.type(text)
    await person.until(f"> {text}", times + 1)
    person.type(ENTER)
    await person.until_so(lambda: person.raw.count(f"> {text}".encode()) > times, text)


async def leaves(person: Watcher) -> str:
    """Leave, and return the session that can be gone on with."""
    person.type(CTRL_D)
    assert await person.ended() == 0
    [session] = re.findall(
        r"`acp-agent chat -c (sess_\w+)` continues this conversation\.", person.text
    )
    return session
