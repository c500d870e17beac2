"""`acp-agent wire`: what the editor and the agent said to each other, read from the
recordings.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path
from shutil import get_terminal_size
from typing import NamedTuple

import anyio

from acp_agent.cli.terminal.safe import safe_for
from acp_agent.config import home_dir
from acp_agent.errors import AgentError
from acp_agent.protocol import JsonObject, JsonValue
from acp_agent.regular import open_regular
from acp_agent.server.recording import WIRE, WIRE_VARIABLE, recordings

_POLL_SECONDS = 0.2
_PIPE_WIDTH = 240
"""Characters of a line where no terminal says how many there is room for."""


class _Line(NamedTuple):
    """One message as it is printed.

    :ivar method: of a response, that of its request.
    :ivar session: the id of the session that it is about; empty for none.
    """

    at: float
    method: str
    session: str
    text: str


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the sub-command."""
    parser.add_argument(
        "session",
        nargs="?",
        metavar="SESSION",
        help="session id or unique prefix: show the messages of this session (default: the messages of "
        "the agent process that started last)",
    )
    parser.add_argument(
        "--follow", action="store_true", help="keep printing new messages until ctrl-c"
    )
    parser.add_argument(
        "--method",
        action="append",
        default=[],
        metavar="NAME",
        help="show only this method and its responses, such as `session/prompt` or `fs/*`; may be "
        "repeated",
    )
    parser.add_argument(
        "--full", action="store_true", help="print long messages in full"
    )


async def run(arguments: argparse.Namespace) -> int:
    """Print what was said, and what comes to be said where that is followed.

    :returns: 0.
    :raises AgentError: nothing was recorded, or nothing of that session.
    """
    session: str = arguments.session or ""
    folder = home_dir(os.environ) / WIRE
    files = recordings(folder)
    if not files:
        raise AgentError(
            f"Nothing has been recorded yet. Set {WIRE_VARIABLE}=1 in the environment in which your editor starts "
            "the agent, or `wire_log: true` in config.yaml, and start the agent again."
        )
    older = {
        path for path in files if not session and _process(path) != _process(files[-1])
    }
    reader = _Reader()
    safe = safe_for()
    while True:
        width = get_terminal_size((_PIPE_WIDTH, 24)).columns
        new = [
            line
            for path in recordings(folder)
            if path not in older
            for line in reader.new_lines(path)
        ]
        lines = [line for line in new if line.session.startswith(session)]
        if session and not lines and not arguments.follow:
            raise AgentError(f"No messages of session {session!r} were recorded.")
        for line in lines:
            if not arguments.method or any(
                fnmatchcase(line.method, method) for method in arguments.method
            ):
                text = " ".join(safe(line.text).split("\n"))
                print(
                    text
                    if arguments.full or len(text) <= width
                    else f"{text[: width - 1]}…"
                )
        sys.stdout.flush()
        if not arguments.follow:
            return 0
        await anyio.sleep(_POLL_SECONDS)


class _Reader:
    """Reads recordings, each as far as it goes, again and again."""

    def __init__(self) -> None:
        self._read = Counter[Path]()
        self._requests: dict[tuple[str, str, str], _Line] = {}

    def new_lines(self, path: Path) -> Iterator[_Line]:
        """Yield what has been recorded in a file since the last time."""
        # It may make room for newer ones.
        with (
            suppress(OSError),
            open_regular(path) as file,
        ):
            file.seek(self._read[path])
            for line in file:
                if not line.endswith(b"\n"):
                    return  # it is being written
                self._read[path] += len(line)
                yield self._line(_process(path), json.loads(line))

    def _line(self, process: str, record: JsonObject) -> _Line:
        """Return time, direction, method and id, how long it took, and what the message
        says.

        :param record: `in` is what the client sent, `invalid` what was no message.
        """
        at = float(str(record["at"]))
        message = record.get("message", record.get("invalid"))
        body = message if isinstance(message, dict) else {}
        incoming = record["dir"] == "in"
        id = body.get("id")
        session = _session(body.get("params")) or _session(body.get("result"))
        method = str(body.get("method", "(not a message)"))
        mark = "" if "method" in body else " ✗"
        said = next(
            (body[key] for key in ("params", "result", "error") if key in body), message
        )
        number = f" #{json.dumps(id)}" if "id" in body else ""
        if "result" in body or "error" in body:
            asked = self._requests.pop((process, str(not incoming), repr(id)), None)
            method = "(response to an unknown request)"
            mark = f" ={' ✗' if 'error' in body else ''}"
            if asked is not None:
                method = asked.method
                session = asked.session or session
                mark += f" {max(0.0, at - asked.at):.3f} s"
        clock = (
            datetime.fromtimestamp(at, UTC).astimezone().strftime("%H:%M:%S.%f")[:-3]
        )
        shown = said if isinstance(said, str) else json.dumps(said, ensure_ascii=False)
        line = _Line(
            at,
            method,
            session,
            f"{clock} {'→' if incoming else '←'} {method}{number}{mark}  {shown}",
        )
        if number and "method" in body:
            # 1 and "1" are two ids.
            self._requests[process, str(incoming), repr(id)] = line
        return line


def _process(path: Path) -> str:
    """Return the part of a file's name that all files of a process have."""
    return path.stem.rpartition("-")[0]


def _session(value: JsonValue) -> str:
    session = value.get("sessionId") if isinstance(value, dict) else None
    return session if isinstance(session, str) else ""
