"""`PastingInput`: keeps pasted lines together in terminals without bracketed paste.

Such a terminal sends pasted text as if it had been typed, with Enter for each line end.
But nobody types more text within a few milliseconds after Enter, while the lines of a
paste follow each other at once: within one read, or in the next one if the terminal, or
a program such as tmux, writes line by line.
"""

from __future__ import annotations

import select
from collections.abc import Callable
from contextlib import AbstractContextManager

from prompt_toolkit.input import Input
from prompt_toolkit.key_binding import KeyPress
from prompt_toolkit.keys import Keys

_ENTERS = (Keys.ControlM, Keys.ControlJ)
_FULL = 1000
"""A read of this many characters may have left more unread; the line editor reads 1,024
bytes at once.
"""
_PIECE_SECONDS = 0.02
"""How long to wait after Enter for the next piece of a paste, which a slow connection
may deliver late.
"""


class PastingInput(Input):
    """Reads keys from another input, and turns lines that arrive together into one
    paste.

    A line end after the last line is Enter, as if it had been typed.
    """

    def __init__(self, inner: Input) -> None:
        self._inner = inner

    def read_keys(self) -> list[KeyPress]:
        """Return the keys that have arrived."""
        keys = self._inner.read_keys()
        while keys and self._has_more(
            _PIECE_SECONDS if _may_be_paste(keys) else 0.0, keys
        ):
            more = self._inner.read_keys()
            if not more:
                break
            keys += more
        return _pasted(keys) if _is_paste(keys) else keys

    def _has_more(self, seconds: float, keys: list[KeyPress]) -> bool:
        is_full = sum(len(key.data) for key in keys) >= _FULL
        if self.closed or not (seconds or is_full):
            return False
        try:
            return bool(select.select([self.fileno()], [], [], seconds)[0])
        except (OSError, ValueError):  # the input has been closed
            return False

    def flush_keys(self) -> list[KeyPress]:
        """Return the keys that the parser still holds, such as a lone Escape."""
        return self._inner.flush_keys()

    def flush(self) -> None:
        """Flush the other input."""
        self._inner.flush()

    def fileno(self) -> int:
        """Return the file descriptor of the input."""
        return self._inner.fileno()

    def typeahead_hash(self) -> str:
        """Return the identifier of the input, under which typeahead is stored."""
        return self._inner.typeahead_hash()

    @property
    def closed(self) -> bool:
        """Return whether the input is closed."""
        return self._inner.closed

    def raw_mode(self) -> AbstractContextManager[None]:
        """Deliver typed keys one at a time inside the `with` block."""
        return self._inner.raw_mode()

    def cooked_mode(self) -> AbstractContextManager[None]:
        """Deliver typed keys line by line inside the `with` block."""
        return self._inner.cooked_mode()

    def attach(
        self, input_ready_callback: Callable[[], None]
    ) -> AbstractContextManager[None]:
        """Call a function whenever keys have arrived, inside the `with` block."""
        return self._inner.attach(input_ready_callback)

    def detach(self) -> AbstractContextManager[None]:
        """Stop calling the attached function inside the `with` block."""
        return self._inner.detach()

    def close(self) -> None:
        """Close the input."""
        self._inner.close()


def _is_text(key: KeyPress) -> bool:
    return key.key == Keys.ControlI or (
        not isinstance(key.key, Keys) and key.data == key.key
    )


def _may_be_paste(keys: list[KeyPress]) -> bool:
    """Return whether all keys are text or line ends, and at least one is a line end."""
    has_end = any(key.key in _ENTERS for key in keys)
    return has_end and all(_is_text(key) or key.key in _ENTERS for key in keys)


def _is_paste(keys: list[KeyPress]) -> bool:
    """Return whether text follows a line end, and nothing but text and line ends is
    there.
    """
    shape = "".join("e" if key.key in _ENTERS else "t" for key in keys)
    return _may_be_paste(keys) and "et" in shape


def _pasted(keys: list[KeyPress]) -> list[KeyPress]:
    """Return the keys as one paste, followed by Enter if the last key is a line end."""
    lines = keys.copy()
    while lines[-1].key in _ENTERS:
        lines.pop()
    enter = [KeyPress(Keys.ControlM, "\r")] if len(lines) < len(keys) else []
    return [KeyPress(Keys.BracketedPaste, "".join(key.data for key in lines)), *enter]
