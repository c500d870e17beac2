"""Shows on stderr that something goes on, on a terminal that can move its cursor.

rich is loaded when something is shown first.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.status import Status


class Activity:
    """A line that says what is waited for; none where stderr is no terminal."""

    def __init__(self) -> None:
        self._shown: Status | None = None

    def busy(self, text: str) -> None:
        """Show it in the place of an earlier one. The cursor has to be at the beginning of a line."""
        self.idle()
        if sys.stderr.isatty() and os.environ.get("TERM") not in (None, "", "dumb"):
            from rich.console import Console
            from rich.text import Text

            self._shown = Console(stderr=True).status(Text(text, no_wrap=True, overflow="ellipsis"))
            self._shown.start()

    def idle(self) -> None:
        """Take it away, before anything else is printed."""
        if self._shown is not None:
            self._shown.stop()
            self._shown = None
