"""What was typed before, in a private file of the agent's home: a JSON string a line, the newest last.

JSON, since a text may have any line end in it. A line that cannot be read is left out, whoever wrote it.
"""

from __future__ import annotations

import errno
import json
import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from acp_agent.regular import read_regular

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

    def trouble(self) -> str | None:
        """Why nothing of it can be read or kept, for the person; None where it can, or is yet to be made."""
        try:
            os.close(self._opened(os.O_RDWR))
        except FileNotFoundError:
            return None
        except OSError as error:
            return (
                f"What you type is not kept, and what you typed before is not there: {self._path} cannot be read and "
                f"written ({(error.strerror or str(error)).lower()}). Remove it, or mend its permissions."
            )
        return None

    def read(self) -> list[str]:
        """The texts, the oldest first; none where the file cannot be read."""
        try:
            texts = decoded(read_regular(self._path))
            if len(texts) > 2 * KEPT:
                self._rewrite(texts[-KEPT:])
        except OSError:
            return []
        return texts[-KEPT:]

    def add(self, text: str) -> None:
        """Append one, as far as the disk lets us: nobody's prompt fails for that."""
        with suppress(OSError), os.fdopen(self._opened(os.O_WRONLY | os.O_CREAT | os.O_APPEND), "wb", 0) as file:
            os.fchmod(file.fileno(), 0o600)
            file.write(encoded(text))

    def _opened(self, flags: int) -> int:
        """A descriptor of the file.

        :raises OSError: it cannot be opened so, or is none: a named pipe would have us wait for its other end.
        """
        descriptor = os.open(self._path, flags | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC, 0o600)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise OSError(errno.EINVAL, "It is no regular file")
        return descriptor

    def _rewrite(self, texts: Iterable[str]) -> None:
        new = self._path.with_name(f"{FILE}.{os.getpid()}")
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(b"".join(map(encoded, texts)))
        new.replace(self._path)
