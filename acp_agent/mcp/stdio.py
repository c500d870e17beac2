"""The stdio transport: an MCP server as a child process that reads and writes lines.

Unlike the SDK's transport, this one ends the server's whole process group when the
session ends, and within a tenth of a second after the agent exits for any reason. It
also reports how a server exited and what it wrote to stderr.

Model Context Protocol, "Transports", "stdio".
"""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager

import anyio
from mcp import types
from mcp.shared.message import SessionMessage

from acp_agent.errors import ToolError
from acp_agent.mcp.bounds import MAX_MESSAGE, TOO_LONG, within_bounds
from acp_agent.mcp.launch import DIRECTORY, Launch
from acp_agent.mcp.transports import Received, Streams, Watch
from acp_agent.processes import open_group
from acp_agent.tools.text import clean, one_line, without_escapes

_GRACE_SECONDS = 0.5
"""Seconds that a server may take to exit after its stdin is closed."""
_CHUNK = 65_536
_END_SECONDS = 0.2
_LINE = 200
"""Maximum length of a reported line of stderr."""
_LAST_LINES = 5
"""Number of stderr lines that are kept to say why a server exited."""
_NOISE = re.compile(
    r"npm (?:notice|warn|http|verb|info)\b|npm (?:error|ERR!)(?: \S+)?$"
    r"|npm (?:error|ERR!) (?:A complete log|404 (?:Note that you can|tarball, folder))"
    r"|\[notice\]|(?:WARNING|INFO|DEBUG)\b"
    r"|at .*:\d+:\d+\)?(?: \{)?$|Node\.js v\d|\(node:\d+\)|\(Use `node |[\^~{}]+$|code: '[A-Z_]+',?$|requireStack:",
    re.IGNORECASE,
)
"""Matches lines that do not say why a program exited: npm and pip notices, warnings,
and details that Node adds to an error.
"""
_SURROGATE = re.compile(r"\\ud[89a-f][0-9a-f]{2}", re.IGNORECASE)


@asynccontextmanager
async def over_stdio(launch: Launch, watch: Watch) -> AsyncGenerator[Streams]:
    """Start a server and connect to it. When the context exits, the server's whole
    process group has ended.

    :raises OSError, ValueError: if the server could not be started.
    """
    async with open_group(
        launch.argv, DIRECTORY, grace=_GRACE_SECONDS, env=launch.env
    ) as process:
        assert process.stdin
        assert process.stdout
        assert process.stderr
        stdin = process.stdin.fileno()
        stdout = process.stdout.fileno()
        stderr = process.stderr.fileno()
        to_session, received = anyio.create_memory_object_stream[Received](0)
        to_server, sent = anyio.create_memory_object_stream[SessionMessage](0)
        last_lines: deque[str] = deque(maxlen=_LAST_LINES)
        noise: deque[str] = deque(maxlen=_LAST_LINES)
        stderr_read = anyio.Event()

        async def read() -> None:
            async with to_session:
                try:
                    async for line in _lines(stdout):
                        if (message := _message(line)) is not None:
                            await to_session.send(message)
                except ToolError as error:
                    watch.reason = str(error)
                    return
                with anyio.move_on_after(_END_SECONDS):
                    await stderr_read.wait()
                    while process.poll() is None:  # noqa: ASYNC110 - there is no event for the end of a process
                        await anyio.sleep(_END_SECONDS / 20)
                said = _reason_in([*last_lines] or [*noise])
                watch.reason = _status(process.poll()) + (
                    f" and said: {said}" if said else ""
                )

        async def write() -> None:
            async with sent:
                async for message in sent:
                    line = message.message.model_dump_json(
                        by_alias=True, exclude_unset=True
                    )
                    try:
                        await _write(stdin, f"{line}\n".encode())
                    except (
                        OSError
                    ):  # the server has closed its stdin; its output ends next
                        return

        async def collect_stderr() -> None:
            async for line in _lines(stderr):
                if text := clean(
                    without_escapes(line.decode(errors="replace"))
                ).strip():
                    (noise if _NOISE.match(text) else last_lines).append(
                        one_line(text, _LINE)
                    )
            stderr_read.set()

        async with anyio.create_task_group() as tasks, received, to_server:
            for task in (read, write, collect_stderr):
                tasks.start_soon(task)
            try:
                yield received, to_server
            finally:
                tasks.cancel_scope.cancel()


async def _lines(descriptor: int) -> AsyncIterator[bytes]:
    """Yield the output of a process line by line.

    :raises ToolError: if a line is longer than a message may be.
    """
    buffer = bytearray()
    while True:
        await anyio.wait_readable(descriptor)
        try:
            data = os.read(descriptor, _CHUNK)
        except BlockingIOError:
            continue
        if not data:
            break
        buffer += data
        if b"\n" in data:
            *lines, buffer = buffer.split(b"\n")
            for line in lines:
                yield bytes(line)
        if len(buffer) > MAX_MESSAGE:
            raise ToolError(TOO_LONG)
    if buffer:
        yield bytes(buffer)


async def _write(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        try:
            rest = rest[os.write(descriptor, rest) :]
        except BlockingIOError:
            await anyio.wait_writable(descriptor)


def _message(line: bytes) -> SessionMessage | None:
    """Return the message on a line, or None for a line that was printed to stdout by
    mistake.

    JavaScript servers that truncate a text may write unpaired surrogates (`\\ud83d`),
    which strict parsers reject. All surrogates in such a line are replaced.

    :raises ToolError: see `within_bounds`.
    """
    text = within_bounds(line).decode(errors="replace")
    for mend in (str, _without_surrogates):
        text = mend(text)
        try:
            return SessionMessage(
                types.jsonrpc_message_adapter.validate_json(text, by_name=False)
            )
        except ValueError:
            continue
    return None


def _without_surrogates(text: str) -> str:
    return _SURROGATE.sub(r"\\ufffd", text)


def _reason_in(lines: list[str]) -> str:
    """Return the lines as one text, starting at the first line that mentions an error,
    if any.
    """
    start = next((at for at, line in enumerate(lines) if "error" in line.lower()), 0)
    return one_line(" ".join(lines[start:]), 2 * _LINE)


def _status(code: int | None) -> str:
    if code is None:
        return "it closed its output"
    return (
        f"it ended with status {code}"
        if code >= 0
        else f"it was ended by signal {-code}"
    )
