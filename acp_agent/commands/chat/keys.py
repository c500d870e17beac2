"""What prompt_toolkit asks for while somebody types: completions, and what was typed before; and the keys that were
typed before it was there.
"""

from __future__ import annotations

import fcntl
import os
import struct
import termios
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from typing import TypeAlias

import anyio
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.history import History
from prompt_toolkit.input import Input
from prompt_toolkit.input.typeahead import store_typeahead
from prompt_toolkit.input.vt100_parser import Vt100Parser
from prompt_toolkit.key_binding import KeyPress

from acp_agent.commands.chat.completing import Candidate
from acp_agent.commands.chat.history import HistoryFile

Candidates: TypeAlias = Callable[[str, bool], Awaitable[Sequence[Candidate]]]
"""What may be meant by what stands before the cursor; and whether the person asked for it."""

_CTRL_D = "\x04"


def take_early_keys(terminal: Input) -> None:
    """Have the editor begin with what was typed while the terminal still made lines of it.

    Linux keeps a ctrl-d of then as a NUL, which the editor would take for another key (n_tty(4), `__DISABLED_CHAR`).

    :param terminal: in raw mode already.
    """
    waiting = bytearray(4)
    fcntl.ioctl(terminal.fileno(), termios.FIONREAD, waiting)
    [size] = struct.unpack("i", waiting)
    if not size:
        return
    keys: list[KeyPress] = []
    parser = Vt100Parser(keys.append)
    parser.feed(os.read(terminal.fileno(), size).decode(errors="surrogateescape").replace("\0", _CTRL_D))
    parser.flush()
    store_typeahead(terminal, keys)


class Completions(Completer):
    """:param candidates: tells them."""

    def __init__(self, candidates: Candidates) -> None:
        self._candidates = candidates
        self._looking = anyio.Lock()

    async def looked(self) -> None:
        """Wait until those are there that are being looked for; does not wait where none are."""
        async with self._looking:
            pass

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        """None: they are read beside everything else."""
        return ()

    async def get_completions_async(
        self, document: Document, complete_event: CompleteEvent
    ) -> AsyncGenerator[Completion, None]:
        """One after the other."""
        async with self._looking:
            for each in await self._candidates(document.text_before_cursor, complete_event.completion_requested):
                yield Completion(each.text, -each.length, display=each.shown, display_meta=each.about)


class Typed(History):
    """:param file: where it is kept."""

    def __init__(self, file: HistoryFile) -> None:
        super().__init__()
        self._file = file

    def load_history_strings(self) -> Iterable[str]:
        """The newest first."""
        return reversed(self._file.read())

    def store_string(self, string: str) -> None:
        """Keep one."""
        self._file.add(string)
