"""Standard output and error of a command, on which nothing is printed that a terminal
obeys.

Names of files and hooks, texts of configuration, errors of programs and of servers end
up in what a command prints. They are made harmless where all of it meets, and not in
each place that prints.
"""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, TextIO, cast

from acp_agent.visible import harmless


class HarmlessStream:
    """A text stream that writes control characters, and marks that change the order of
    reading, as code points.

    :ivar unfiltered: the stream behind it: for what is meant to move the cursor, and
        for texts that other programs read.
    """

    def __init__(self, unfiltered: TextIO) -> None:
        self.unfiltered = unfiltered

    def write(self, text: str) -> int:
        """Write a text."""
        self.unfiltered.write(harmless(text))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.unfiltered, name)


@contextmanager
def harmless_output() -> Generator[None]:
    """Print nothing that a terminal obeys in this context."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (
        cast("TextIO", HarmlessStream(unfiltered(stream))) for stream in before
    )
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def unfiltered(stream: TextIO) -> TextIO:
    """Return the stream behind one of `harmless_output`, or the stream itself."""
    return stream.unfiltered if isinstance(stream, HarmlessStream) else stream
