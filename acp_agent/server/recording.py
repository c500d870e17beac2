"""Records the messages on the wire for debugging a client, if the user enables this.

Each message in either direction becomes one line of JSON, with its time. Secrets are
masked before anything is written. Only the user can read the files, and their number
and size are limited. If a file cannot be written, the recording ends and the connection
continues.
"""

from __future__ import annotations

import itertools
import json
import logging
import os
import time
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import BinaryIO, Literal, TypeAlias

from acp_agent.config import ensure_private_dir, home_dir
from acp_agent.errors import ConfigError
from acp_agent.jsonrpc.messages import JsonObject, JsonValue
from acp_agent.jsonrpc.transport import Transport
from acp_agent.protocol import as_object
from acp_agent.secrets.known import MIN_SECRET, secrets_of
from acp_agent.server.channel import JOINABLE, joined_deltas
from acp_agent.server.handshake import settings_if_mentioned

Direction: TypeAlias = Literal["in", "out"]
"""`in`: from the client to the agent."""

WIRE = "wire"
WIRE_VARIABLE = "ACP_AGENT_WIRE"
MAX_FILE_BYTES = 10_000_000
MAX_FILES = 10
"""Maximum number of files of all processes together. The oldest are deleted."""
MAX_TEXT = 20_000
"""Maximum characters of one text in a message. The middle of a longer text is left out.
"""
_SUFFIX = ".jsonl"
_DIRECTIONS: tuple[Direction, ...] = ("in", "out")

_connections = itertools.count(1)
_log = logging.getLogger(__name__)


def _records_wire(env: Mapping[str, str]) -> bool:
    """Return whether the user has enabled recording, with `ACP_AGENT_WIRE` or otherwise
    with `wire_log` in config.yaml.
    """
    if said := env.get(WIRE_VARIABLE, "").strip().lower():
        return said not in ("0", "false", "no", "off")
    settings = settings_if_mentioned(env, b"wire_log")
    return settings is not None and settings.wire_log


def record(
    transport: Transport,
    env: Mapping[str, str],
    learned_secrets: Callable[[], Collection[str]],
    exchange: tuple[bytes, bytes] | None,
) -> Transport:
    """Return a transport that records `transport`, or `transport` itself if the user
    has not enabled recording.

    :param learned_secrets: returns the secrets that were read since the start, in
        addition to those in `env`.
    :param exchange: the first line and its answer, if they were already exchanged.
    """
    if not _records_wire(env):
        return transport
    try:
        folder = ensure_private_dir(home_dir(env)) / WIRE
    except ConfigError:
        return transport
    recorded = _RecordingTransport(
        transport, folder, lambda: (*secrets_of(env), *learned_secrets())
    )
    for direction, line in zip(_DIRECTIONS, exchange or (), strict=False):
        recorded.record_lines(direction, line)
    return recorded


def recordings(folder: Path) -> list[Path]:
    """Return the recordings in a folder, the oldest first."""
    try:
        return sorted(path for path in folder.iterdir() if path.suffix == _SUFFIX)
    except OSError:
        return []


class _RecordingTransport:
    """Records the lines of a transport in files numbered from 1.

    The chunks of a streamed text are recorded as one message, so that a secret that is
    split across them is masked.

    :param folder: created if it is missing; its parent must exist.
    :param secrets: returns the secrets to mask, in addition to all text that looks like
        a key. It is called for each message.
    """

    def __init__(
        self,
        transport: Transport,
        folder: Path,
        secrets: Callable[[], Collection[str]] = tuple,
    ) -> None:
        self._transport = transport
        self._folder = folder
        self._secrets = secrets
        self._name = f"{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}-{os.getpid()}-{next(_connections):04}"
        self._part = 0
        self._file: BinaryIO | None = None
        self._ended = False
        # A chunk, joined with the chunks that followed it.
        self._streamed: tuple[float, Direction, JsonObject] | None = None

    async def read_line(self) -> bytes | None:
        line = await self._transport.read_line()
        self.record_lines("in", line or b"")
        return line

    async def write(self, data: bytes) -> None:
        self.record_lines("out", data)
        await self._transport.write(data)

    async def aclose(self) -> None:
        try:
            await self._transport.aclose()
        finally:
            self._end_stream()
            self._ended = True
            if self._file is not None:
                self._file.close()

    def record_lines(self, direction: Direction, data: bytes) -> None:
        """Record data that was read or is about to be written. It consists of whole
        lines.
        """
        now = round(time.time(), 6)
        for line in data.split(b"\n"):
            if line.strip() and not self._ended:
                self._record_line(now, direction, line)

    def _record_line(self, now: float, direction: Direction, line: bytes) -> None:
        from acp_agent.secrets.text import mask_broken_json

        try:
            message: JsonValue = json.loads(line)
        except (ValueError, RecursionError):
            self._end_stream()
            masked = mask_broken_json(
                line.decode(errors="replace"), self._known_secrets()
            )
            self._append_entry(now, direction, {"invalid": _short(masked)})
            return
        match message:
            case {
                "params": {"sessionId": _, "update": {"sessionUpdate": kind}} as params
            } if kind in JOINABLE:
                if self._streamed is not None and (
                    joined := joined_deltas(
                        as_object(self._streamed[2]["params"]), params
                    )
                ):
                    now = self._streamed[0]
                    params = joined
                else:
                    self._end_stream()
                self._streamed = now, direction, {**message, "params": params}
            case _:
                self._end_stream()
                self._record_message(now, direction, message)

    def _end_stream(self) -> None:
        if self._streamed is not None:
            streamed = self._streamed
            self._streamed = None
            self._record_message(*streamed)

    def _record_message(
        self, at: float, direction: Direction, message: JsonValue
    ) -> None:
        from acp_agent.secrets.messages import masked

        try:
            self._append_entry(
                at,
                direction,
                {"message": masked(message, self._known_secrets(), _short)},
            )
        except RecursionError:
            self._append_entry(
                at,
                direction,
                {"invalid": "The message is nested too deeply to be masked."},
            )

    def _known_secrets(self) -> tuple[str, ...]:
        return tuple(secret for secret in self._secrets() if len(secret) >= MIN_SECRET)

    def _append_entry(self, at: float, direction: Direction, entry: JsonObject) -> None:
        # An editor may send an unpaired surrogate.
        text = json.dumps(
            {"at": at, "dir": direction, **entry},
            ensure_ascii=False,
            separators=(",", ":"),
        )
        line = text.encode("utf-8", "replace") + b"\n"
        try:
            if self._file is None or self._file.tell() + len(line) > MAX_FILE_BYTES:
                self._file = self._next_file()
            self._file.write(line)
        except OSError as error:
            _log.warning("recording the wire has stopped: %s", error)
            self._ended = True

    def _next_file(self) -> BinaryIO:
        if self._file is not None:
            self._file.close()
        self._folder.mkdir(mode=0o700, exist_ok=True)
        for old in recordings(self._folder)[: 1 - MAX_FILES]:
            old.unlink(missing_ok=True)
        self._part += 1
        path = self._folder / f"{self._name}-{self._part:04}{_SUFFIX}"
        return os.fdopen(
            os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600),
            "wb",
            0,
        )


def _short(text: str) -> str:
    if len(text) <= MAX_TEXT:
        return text
    half = MAX_TEXT // 2
    return f"{text[:half]}[… {len(text) - 2 * half} characters …]{text[-half:]}"
