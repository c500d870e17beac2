"""`acp-agent wire`: what the editor and the agent said to each other, read from the recordings."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path
from shutil import get_terminal_size
from typing import Literal, NamedTuple, TypeAlias

import anyio

from acp_agent.cli.terminal.safe import Safe, safe_for
from acp_agent.config import home_dir
from acp_agent.errors import AgentError
from acp_agent.protocol import JsonValue
from acp_agent.regular import open_regular
from acp_agent.server.recording import WIRE, WIRE_VARIABLE, recordings, records_wire

Kind: TypeAlias = Literal["request", "response", "notification", "invalid"]

_POLL_SECONDS = 0.2
_PIPE_WIDTH = 240
"""Characters of a line where no terminal says how many there is room for."""
_OTHER = {"in": "out", "out": "in"}


class _WireLine(NamedTuple):
    """One message.

    :ivar at: seconds since the epoch.
    :ivar process: which connection it is of.
    :ivar direction: `in` for what the client sent, else `out`.
    :ivar method: of a response, that of its request; empty where that was not recorded.
    :ivar id: as JSON has it; None for a notification.
    :ivar session: the id of the session that it is about; empty for none.
    :ivar seconds: of a response, how long it took; None where the request was not recorded.
    :ivar message: as it was sent, masked; a text for what was no JSON.
    """

    at: float
    process: str
    direction: str
    kind: Kind
    method: str
    id: JsonValue
    session: str
    seconds: float | None
    message: JsonValue


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the sub-command."""
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "session", nargs="?", metavar="SESSION", help="its id, or the beginning of it: all that was recorded of it"
    )
    which.add_argument("--last", action="store_true", help="all of the agent that was started last (the default)")
    parser.add_argument("--follow", action="store_true", help="go on with what comes, until ctrl-c")
    parser.add_argument(
        "--method",
        action="append",
        default=[],
        metavar="NAME",
        help="this method alone, with its responses, as `session/prompt` or `fs/*`; may be repeated",
    )
    parser.add_argument("--full", action="store_true", help="whole messages, however long")
    parser.add_argument("--json", action="store_true", help="print a line of JSON for each message")


async def run(arguments: argparse.Namespace) -> int:
    """Print what was said, and what comes to be said where that is followed.

    :returns: 0.
    :raises AgentError: nothing was recorded, or nothing of that session.
    """
    env, session, processes = os.environ, arguments.session, set[str]()
    reader = _Reader(home_dir(env) / WIRE, newest_alone=session is None)

    def wanted(lines: Sequence[_WireLine]) -> list[_WireLine]:
        """Return what is about the session, and what is about none in the processes that have had it open."""
        if session is None:
            return [*lines]
        processes.update(line.process for line in lines if line.session.startswith(session))
        here = [line for line in lines if line.process in processes]
        return [line for line in here if not line.session or line.session.startswith(session)]

    lines = [*reader.new_lines()]
    if not lines and not (arguments.follow and records_wire(env)):
        raise AgentError(
            "Nothing has been recorded yet: start the agent again, from the editor."
            if records_wire(env)
            else f"Nothing is recorded. Set {WIRE_VARIABLE}=1 in the environment that your editor starts the agent "
            "with, or `wire_log: true` in config.yaml, and start the agent again."
        )
    chosen = wanted(lines)
    if not chosen and not arguments.follow:
        raise AgentError(f"Nothing of the session {session!r} was recorded.")
    while True:
        _print(chosen, arguments, safe_for(env))
        if not arguments.follow:
            return 0
        await anyio.sleep(_POLL_SECONDS)
        chosen = wanted([*reader.new_lines()])


def _print(lines: Sequence[_WireLine], arguments: argparse.Namespace, safe: Safe) -> None:
    """Print the lines whose method is wanted."""
    methods: Sequence[str] = arguments.method
    width = get_terminal_size((_PIPE_WIDTH, 24)).columns if sys.stdout.isatty() else _PIPE_WIDTH
    for line in lines:
        if methods and not any(fnmatchcase(line.method, method) for method in methods):
            continue
        text = json.dumps(line._asdict()) if arguments.json else " ".join(safe(_text(line)).split("\n"))
        print(text if arguments.full or arguments.json or len(text) <= width else f"{text[: width - 1]}…")
    sys.stdout.flush()


def _text(line: _WireLine) -> str:
    """Return time, direction, method and id, how long it took, and what the message says."""
    clock = datetime.fromtimestamp(line.at, UTC).astimezone().strftime("%H:%M:%S.%f")[:-3]
    name = line.method or ("(not a message)" if line.kind == "invalid" else "(response to nothing known)")
    number = f" #{json.dumps(line.id)}" if line.kind in ("request", "response") else ""
    failed = line.kind == "invalid" or (isinstance(line.message, dict) and "error" in line.message)
    marks = f"{' =' if line.kind == 'response' else ''}{' ✗' if failed else ''}"
    took = "" if line.seconds is None else f" {line.seconds:.3f} s"
    body = line.message
    if line.kind != "invalid" and isinstance(body, dict):
        body = next((body[key] for key in ("params", "result", "error") if key in body), None)
    said = body if isinstance(body, str) else json.dumps(body, ensure_ascii=False)
    return f"{clock} {'→' if line.direction == 'in' else '←'} {name}{number}{marks}{took}  {said}"


class _Reader:
    """Reads the recordings of a folder, each as far as it goes, again and again.

    :param newest_alone: reads the newest process's recording, and those that are begun from now on.
    """

    def __init__(self, folder: Path, *, newest_alone: bool) -> None:
        self._folder = folder
        self._read = Counter[Path]()
        self._requests: dict[tuple[str, str, str], _WireLine] = {}
        files = recordings(folder)
        self._skipped = {path for path in files if newest_alone and _process(path) != _process(files[-1])}

    def new_lines(self) -> Iterator[_WireLine]:
        """Yield what has been recorded since the last time."""
        for path in recordings(self._folder):
            for record in () if path in self._skipped else self._records(path):
                match record:
                    case {"at": float() | int() as at, "dir": "in" | "out" as direction}:
                        yield self._line(_process(path), at, direction, record.get("message", record.get("invalid")))
                    case _:
                        pass

    def _records(self, path: Path) -> Iterator[JsonValue]:
        with suppress(OSError), open_regular(path) as file:  # it may make room for newer ones
            file.seek(self._read[path])
            for line in file:
                if not line.endswith(b"\n"):
                    return  # it is being written
                self._read[path] += len(line)
                with suppress(ValueError, RecursionError):
                    yield json.loads(line)

    def _line(self, process: str, at: float, direction: str, message: JsonValue) -> _WireLine:
        body = message if isinstance(message, dict) else {}
        id, method = body.get("id"), body.get("method")
        session = _session(body.get("params")) or _session(body.get("result"))
        if isinstance(method, str):
            kind: Kind = "request" if "id" in body else "notification"
            line = _WireLine(at, process, direction, kind, method, id, session, None, message)
            if kind == "request":
                self._requests[process, direction, repr(id)] = line  # 1 and "1" are two ids
            return line
        if "result" not in body and "error" not in body:
            return _WireLine(at, process, direction, "invalid", "", id, "", None, message)
        request = self._requests.pop((process, _OTHER[direction], repr(id)), None)
        if request is None:
            return _WireLine(at, process, direction, "response", "", id, session, None, message)
        session, seconds = request.session or session, max(0.0, at - request.at)
        return _WireLine(at, process, direction, "response", request.method, id, session, seconds, message)


def _process(path: Path) -> str:
    """Return the part of a file's name that all files of a process have."""
    return path.stem.rpartition("-")[0]


def _session(value: JsonValue) -> str:
    session = value.get("sessionId") if isinstance(value, dict) else None
    return session if isinstance(session, str) else ""
