"""`acp-agent wire`: reads the recordings, and follows those that grow."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path
from shutil import get_terminal_size

import anyio

from acp_agent.commands.safe import Safe, safe_for
from acp_agent.commands.wire.lines import Matcher, OneSession, WireLine
from acp_agent.config import home_dir
from acp_agent.errors import AgentError
from acp_agent.jsonrpc.recording import recordings
from acp_agent.protocol import JsonObject, JsonValue
from acp_agent.regular import NotRegularError, open_regular
from acp_agent.server.recorded import WIRE, WIRE_VARIABLE, records_wire

_POLL_SECONDS = 0.2
_PIPE_WIDTH = 240
"""Characters of a line where no terminal says how many there is room for."""


async def run(arguments: argparse.Namespace) -> int:
    """Print what was said, and what comes to be said where that is followed.

    :returns: 0.
    :raises AgentError: nothing was recorded, or nothing of that session.
    """
    env = os.environ
    reader = _Reader(home_dir(env) / WIRE)
    if arguments.session is None:
        reader.skip_all_but_the_newest()
    wanted: Callable[[Iterable[WireLine]], Iterable[WireLine]] = iter
    if arguments.session is not None:
        wanted = OneSession(arguments.session).lines
    shown = _Shown(arguments, safe_for(env))
    lines: Iterable[WireLine] = [*reader.more()]
    if not lines and not (arguments.follow and records_wire(env)):
        raise AgentError(_nothing(env))
    lines = [*wanted(lines)]
    if arguments.session is not None and not lines and not arguments.follow:
        raise AgentError(f"Nothing of the session {arguments.session!r} was recorded.")
    shown.all(lines)
    while arguments.follow:
        await anyio.sleep(_POLL_SECONDS)
        shown.all(wanted(reader.more()))
    return 0


def _nothing(env: Mapping[str, str]) -> str:
    if records_wire(env):
        return "Nothing has been recorded yet: start the agent again, from the editor."
    return (
        f"Nothing is recorded. Set {WIRE_VARIABLE}=1 in the environment that your editor starts the agent with, or "
        "`wire_log: true` in config.yaml, and start the agent again."
    )


class _Reader:
    """Reads the recordings of a folder, each as far as it goes, again and again."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read: dict[Path, int] = {}
        self._matchers: dict[str, Matcher] = {}

    def skip_all_but_the_newest(self) -> None:
        """Read the newest process's recording alone, and those that are begun from now on."""
        files = recordings(self._folder)
        if files:
            newest = _process(files[-1])
            self._read |= {path: -1 for path in files if _process(path) != newest}

    def more(self) -> Iterator[WireLine]:
        """What has been recorded since the last time."""
        for path in recordings(self._folder):
            begin = self._read.get(path, 0)
            if begin >= 0:
                process = _process(path)
                matcher = self._matchers.setdefault(process, Matcher(process))
                for record in self._records(path, begin):
                    yield from matcher.lines(record)

    def _records(self, path: Path, begin: int) -> Iterator[JsonObject]:
        try:
            with open_regular(path) as file:
                file.seek(begin)
                for line in file:
                    if not line.endswith(b"\n"):
                        return  # it is being written
                    self._read[path] = begin = begin + len(line)
                    try:
                        record: JsonValue = json.loads(line)
                    except (ValueError, RecursionError):
                        continue
                    if isinstance(record, dict):
                        yield record
        except FileNotFoundError:
            return  # it made room for newer ones
        except (NotRegularError, IsADirectoryError):
            return  # no recording, whatever its name says


def _process(path: Path) -> str:
    """The part of a file's name that all files of a process have."""
    return path.stem.rpartition("-")[0]


class _Shown:
    """Prints lines, as they were asked for.

    :param safe: is asked of every text.
    """

    def __init__(self, arguments: argparse.Namespace, safe: Safe) -> None:
        self._methods: list[str] = arguments.method
        self._safe = safe
        width = get_terminal_size((_PIPE_WIDTH, 24)).columns if sys.stdout.isatty() else _PIPE_WIDTH
        self._width = None if arguments.full else width
        self._form: Callable[[WireLine], str] = self._json if arguments.json else self._text

    def all(self, lines: Iterable[WireLine]) -> None:
        """Those whose method is wanted."""
        for line in lines:
            if not self._methods or any(fnmatchcase(line.method, method) for method in self._methods):
                print(self._form(line))
        sys.stdout.flush()

    def _json(self, line: WireLine) -> str:
        value: JsonObject = {
            "at": line.at,
            "process": line.process,
            "direction": line.direction,
            "kind": line.kind,
            "method": line.method,
            "id": line.id,
            "session": line.session,
            "seconds": line.seconds,
            "message": line.message,
        }
        return json.dumps(value)

    def _text(self, line: WireLine) -> str:
        """One line: time, direction, method and id, how long it took, and what it says."""
        clock = datetime.fromtimestamp(line.at, UTC).astimezone().strftime("%H:%M:%S.%f")[:-3]
        arrow = "→" if line.direction == "in" else "←"
        number = "" if line.kind not in ("request", "response") else f" #{json.dumps(line.id)}"
        took = "" if line.seconds is None else f" {line.seconds:.3f} s"
        mark = " ✗" if line.failed else ""
        name = line.method or ("(not a message)" if line.kind == "invalid" else "(response to nothing known)")
        kind = " =" if line.kind == "response" else ""
        text = f"{clock} {arrow} {name}{number}{kind}{mark}{took}  {_body(line)}"
        text = " ".join(self._safe(text).split("\n"))
        if self._width is not None and len(text) > self._width:
            return text[: self._width - 1] + "…"
        return text


def _body(line: WireLine) -> str:
    message = line.message
    if line.kind != "invalid" and isinstance(message, dict):
        message = next((message[key] for key in ("params", "result", "error") if key in message), None)
    return message if isinstance(message, str) else json.dumps(message, ensure_ascii=False)
