"""What goes over the wire, written down: for a person to read when the two ends do not understand each other.

Every line of both directions, with its time, as one line of JSON. What looks like a secret is masked before anything is
written, files are the user's alone, and no more than a bounded number of bounded files is kept. A recording that cannot
be written ends, and disturbs nobody. Knows no method.
"""

from __future__ import annotations

import errno
import itertools
import json
import logging
import os
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal, TypeAlias

from acp_agent.jsonrpc.messages import JsonObject, JsonValue
from acp_agent.jsonrpc.recorded_chunks import OpenChunks
from acp_agent.jsonrpc.stdio import Transport
from acp_agent.secrets.known import MIN_SECRET
from acp_agent.secrets.messages import masked
from acp_agent.secrets.text import mask_broken_json

Direction: TypeAlias = Literal["in", "out"]
"""`in`: from the client to the agent."""

MAX_FILE_BYTES = 10_000_000
MAX_FILES = 10
"""Of all processes together; the newest stay."""
MAX_TEXT = 20_000
"""Characters of one text in a message; the middle of a longer one is left out."""
SUFFIX = ".jsonl"
_PASSING = (errno.EMFILE, errno.ENFILE)

_connections = itertools.count(1)
_log = logging.getLogger(__name__)


class WireLog:
    """The files of one connection, numbered from 1 on.

    :param folder: made if need be; the one it is in has to be there.
    :param secrets: what is masked besides all that has the form of a key.
    :param learnt: what is masked as well since the process met it; asked for each line.
    :param max_bytes: of a file, after which the next one is begun.
    :param max_files: of all that are kept.
    """

    def __init__(
        self,
        folder: Path,
        secrets: Sequence[str],
        *,
        learnt: Callable[[], Collection[str]] = tuple,
        max_bytes: int = MAX_FILE_BYTES,
        max_files: int = MAX_FILES,
    ) -> None:
        self._folder = folder
        self._secrets = frozenset(secrets)
        self._learnt = learnt
        self._max_bytes = max_bytes
        self._max_files = max_files
        self._name = f"{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}-{os.getpid()}-{next(_connections)}"
        self._part = 0
        self._size = 0
        self._fd: int | None = None
        self._broken = False
        self._chunks = OpenChunks()

    def note(self, direction: Direction, data: bytes) -> None:
        """Write down what was read or is about to be written: one or more whole lines."""
        if self._broken:
            return
        now = round(time.time(), 6)
        try:
            for line in data.split(b"\n"):
                if line.strip():
                    self._write(now, direction, line)
        except OSError as error:
            if error.errno in _PASSING:
                _log.warning("a message is missing in the recording of the wire: %s", error)
                return
            _log.warning("the wire is not recorded any more: %s", error)
            self._broken = True
            self.close()

    def close(self) -> None:
        """Write what is left, and nothing more."""
        if not self._broken:
            with suppress(OSError):
                for entry in self._chunks.rest():
                    self._append(entry)
        self._close_file()

    def _close_file(self) -> None:
        if self._fd is not None:
            with suppress(OSError):
                os.close(self._fd)
            self._fd = None

    def _write(self, now: float, direction: Direction, line: bytes) -> None:
        entry: JsonObject = {"at": now, "dir": direction}
        secrets = tuple(self._secrets.union(each for each in self._learnt() if len(each) >= MIN_SECRET))
        try:
            message: JsonValue = json.loads(line)
            for whole in self._chunks.before(message):
                self._append(whole)
            entry["message"] = masked(self._chunks.taken(message, secrets), secrets, _short)
        except (ValueError, RecursionError):
            for whole in self._chunks.rest():
                self._append(whole)
            entry["invalid"] = _short(mask_broken_json(line.decode("utf-8", "replace"), secrets))
            self._append(entry)
            return
        if (ready := self._chunks.kept(message, entry)) is not None:
            self._append(ready)

    def _append(self, entry: JsonObject) -> None:
        text = json.dumps(entry, ensure_ascii=False, separators=(",", ":")) + "\n"
        data = text.encode("utf-8", "replace")  # an editor may send half of a surrogate pair
        if self._fd is None or self._size + len(data) > self._max_bytes:
            self._next_file()
        assert self._fd is not None
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(self._fd, rest) :]
        self._size += len(data)

    def _next_file(self) -> None:
        self._close_file()
        self._folder.mkdir(mode=0o700, exist_ok=True)
        for old in recordings(self._folder)[: -(self._max_files - 1) or None]:
            old.unlink(missing_ok=True)
        path = self._folder / f"{self._name}-{self._part + 1:04}{SUFFIX}"
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        self._part += 1
        self._size = 0


class RecordingTransport:
    """A transport of which everything is written down.

    :param transport: moves the lines.
    :param log: where to; closed with the transport.
    """

    def __init__(self, transport: Transport, log: WireLog) -> None:
        self._transport = transport
        self._log = log

    async def read_line(self) -> bytes | None:
        """See `Transport`."""
        line = await self._transport.read_line()
        if line is not None:
            self._log.note("in", line)
        return line

    async def write(self, data: bytes) -> None:
        """See `Transport`."""
        self._log.note("out", data)
        await self._transport.write(data)

    async def aclose(self) -> None:
        """See `Transport`."""
        try:
            await self._transport.aclose()
        finally:
            self._log.close()


def recordings(folder: Path) -> list[Path]:
    """The files in a folder, the oldest first."""
    try:
        return sorted(path for path in folder.iterdir() if path.suffix == SUFFIX)
    except OSError:
        return []


def _short(text: str) -> str:
    if len(text) <= MAX_TEXT:
        return text
    half = MAX_TEXT // 2
    return f"{text[:half]}[… {len(text) - 2 * half} characters …]{text[-half:]}"
