"""That something goes on, shown on stderr: moving where a person watches, plain lines where nobody does.

Nothing of it is ever printed on stdout. rich is loaded when something is shown at a terminal first.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress, ProgressColumn

_PLAIN_SECONDS = 10.0
"""Between two lines where nobody watches."""


def _is_watched() -> bool:
    """Whether stderr is a terminal that can show something that moves."""
    return sys.stderr is not None and sys.stderr.isatty() and os.environ.get("TERM") not in (None, "", "dumb")


class Activity:
    """A line that says what is being waited for, and since when. Without a terminal there is none: what is worth a line
    for somebody who reads later is printed by others."""

    def __init__(self) -> None:
        self._shown: Progress | None = None

    def busy(self, text: str) -> None:
        """Show it, from now on, in the place of an earlier one. The cursor has to be at the beginning of a line."""
        self.idle()
        if not _is_watched():
            return
        from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn
        from rich.table import Column

        words = TextColumn("{task.description}", markup=False, table_column=Column(no_wrap=True, overflow="ellipsis"))
        self._shown = _on_stderr(SpinnerColumn(), words, TimeElapsedColumn())
        self._shown.add_task(text, total=None)
        self._shown.start()

    def idle(self) -> None:
        """Take it away, before anything else is printed."""
        if self._shown is not None:
            self._shown.stop()
            self._shown = None


@contextmanager
def counting(what: str, total: int) -> Generator[Callable[[], None]]:
    """Shows how much of a known number is done; call what it gives once for each.

    :param what: such as `compactions`.
    """
    if not _is_watched():
        yield _plainly(what, total)
        return
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with _on_stderr(*columns, TextColumn("left:"), TimeRemainingColumn()) as shown:
        task = shown.add_task(what, total=total)
        yield lambda: shown.advance(task)


def _plainly(what: str, total: int) -> Callable[[], None]:
    done, last = 0, time.monotonic()

    def advance() -> None:
        nonlocal done, last
        done += 1
        if time.monotonic() - last >= _PLAIN_SECONDS:
            last = time.monotonic()
            print(f"{done} of {total} {what}", file=sys.stderr, flush=True)

    return advance


def _on_stderr(*columns: ProgressColumn) -> Progress:
    """Takes itself away at its end, and leaves the standard streams to whoever prints on them."""
    from rich.console import Console
    from rich.progress import Progress

    return Progress(
        *columns, console=Console(stderr=True), transient=True, redirect_stdout=False, redirect_stderr=False
    )
