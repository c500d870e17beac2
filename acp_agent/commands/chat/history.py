"""What was typed before, in a private file of the agent's home: a JSON string a line, the newest last.

JSON, since a text may have any line end in it. A line that cannot be read is left out, whoever wrote it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path

FILE = "chat_history"
KEPT = 1_000
"""Texts that are kept; the file is cut to so many where it holds twice as many."""


def encoded(text: str) -> bytes:
    """One text as a line of the file."""
    return json.dumps(text).encode() + b"\n"  # in ASCII: lone halves of surrogate pairs as well


def decoded(data: bytes) -> list[str]:
    """The texts of a file, the oldest first."""
    texts: list[str] = []
    for line in data.split(b"\n"):
        try:
            text: object = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(text, str) and text:
            texts.append(text)
    return texts


class HistoryFile:
    """What was typed in all conversations, also by another process at the same time.

    :param home: the agent's home, which is private.
    """

    def __init__(self, home: Path) -> None:
        self._path = home / FILE

    def read(self) -> list[str]:
        """The texts, the oldest first; none where the file cannot be read."""
        try:
            texts = decoded(self._path.read_bytes())
            if len(texts) > 2 * KEPT:
                self._rewrite(texts[-KEPT:])
        except OSError:
            return []
        return texts[-KEPT:]

    def add(self, text: str) -> None:
        """Append one, as far as the disk lets us: nobody's prompt fails for that."""
        try:
            descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        except OSError:
            return
        with os.fdopen(descriptor, "wb", buffering=0) as file:
            try:
                os.fchmod(descriptor, 0o600)
                file.write(encoded(text))
            except OSError:
                return

    def _rewrite(self, texts: Iterable[str]) -> None:
        new = self._path.with_name(f"{FILE}.{os.getpid()}")
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(b"".join(map(encoded, texts)))
        new.replace(self._path)
