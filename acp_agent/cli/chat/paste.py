"""`PastingInput`: lines that are pasted in a terminal without bracketed paste stay together.

Such a terminal sends a paste as if it had been typed, and each line end as Enter. Nobody types a line end and more text
within one read, though.
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
"""Characters of a read that may have left some; the line editor reads 1,024 bytes at once."""
_PIECE_SECONDS = 0.02
"""How long the next piece of a paste is waited for, which a slow line may bring later."""


class PastingInput(Input):
    """Reads keys from another input, and makes one paste of lines that came at once.

    A line end behind all of them is Enter, as where they are typed.
    """

    def __init__(self, inner: Input) -> None:
        self._inner = inner

    def read_keys(self) -> list[KeyPress]:
        """Return the keys that have come."""
        keys = self._inner.read_keys()
        while keys and self._has_more(_PIECE_SECONDS if _is_paste(keys) else 0.0, keys):
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
        except (OSError, ValueError):  # it has been closed
            return False

    def flush_keys(self) -> list[KeyPress]:
        """Return the keys that were waited for, such as a lone Escape."""
        return self._inner.flush_keys()

    def flush(self) -> None:
        """Do what the other input does before it is read."""
        self._inner.flush()

    def fileno(self) -> int:
        """Return the descriptor that is read."""
        return self._inner.fileno()

    def typeahead_hash(self) -> str:
        """Return what names the input."""
        return self._inner.typeahead_hash()

    @property
    def closed(self) -> bool:
        """Return whether nothing more can come."""
        return self._inner.closed

    def raw_mode(self) -> AbstractContextManager[None]:
        """Have keys come one by one during the body."""
        return self._inner.raw_mode()

    def cooked_mode(self) -> AbstractContextManager[None]:
        """Have keys come by the line during the body."""
        return self._inner.cooked_mode()

    def attach(self, input_ready_callback: Callable[[], None]) -> AbstractContextManager[None]:
        """Have a function called where keys have come, during the body."""
        return self._inner.attach(input_ready_callback)

    def detach(self) -> AbstractContextManager[None]:
        """Have it not called during the body."""
        return self._inner.detach()

    def close(self) -> None:
        """Close it."""
        self._inner.close()


def _is_text(key: KeyPress) -> bool:
    return key.key == Keys.ControlI or (not isinstance(key.key, Keys) and key.data == key.key)


def _is_paste(keys: list[KeyPress]) -> bool:
    """Return whether these are text alone, with a line end inside."""
    if not all(_is_text(key) or key.key in _ENTERS for key in keys):
        return False
    shape = "".join("e" if key.key in _ENTERS else "t" for key in keys)
    return "e" in shape.strip("e")


def _pasted(keys: list[KeyPress]) -> list[KeyPress]:
    """Return the key of a paste, and Enter behind it where a line end is the last."""
    lines = keys.copy()
    while lines[-1].key in _ENTERS:
        lines.pop()
    enter = [KeyPress(Keys.ControlM, "\r")] if len(lines) < len(keys) else []
    return [KeyPress(Keys.BracketedPaste, "".join(key.data for key in lines)), *enter]
