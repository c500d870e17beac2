"""The stdio transport: an MCP server as a child process that reads and writes lines.

The SDK has one too. This one ends the server's whole process group with the session, and with the agent however that
ends; it says how a server ended and what it wrote to stderr; and it reads the half characters (`\\ud83d`) of servers in
JavaScript that cut a text, where the SDK leaves the caller without a response.

Model Context Protocol, "Transports", "stdio".
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import anyio
from mcp import types
from mcp.shared.message import SessionMessage

from acp_agent.errors import ToolError
from acp_agent.mcp.watch import Streams, Watch
from acp_agent.processes import open_group
from acp_agent.tools.text import clean, one_line, without_escapes

MAX_LINE = 1 << 26
"""Bytes of one message."""
_GRACE_SECONDS = 0.5
"""How long a server may take to end by itself once its stdin is closed."""
_CHUNK = 65_536
_END_SECONDS = 0.2
_LAST_LINES = 5
"""Lines of stderr that are kept to say why a server ended."""
_HALF_CHARACTER = re.compile("[\ud800-\udfff]")


@asynccontextmanager
async def over_stdio(
    command: str, args: tuple[str, ...], cwd: Path, env: Mapping[str, str], watch: Watch
) -> AsyncGenerator[Streams]:
    """Start a server and speak with it; when this ends, its whole process group is dead.

    :param env: all of its environment variables.
    :raises ToolError: it could not be started; says why.
    """
    async with _process(command, args, cwd, env) as process:
        assert process.stdin
        assert process.stdout
        assert process.stderr
        stdin, stdout, stderr = process.stdin.fileno(), process.stdout.fileno(), process.stderr.fileno()
        to_session, received = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        to_server, sent = anyio.create_memory_object_stream[SessionMessage](0)
        last_lines: deque[str] = deque(maxlen=_LAST_LINES)
        stderr_read = anyio.Event()

        async def ending() -> str:
            with anyio.move_on_after(_END_SECONDS):
                await stderr_read.wait()
                while process.poll() is None:  # noqa: ASYNC110 - there is no event for the end of a process
                    await anyio.sleep(_END_SECONDS / 20)
            said = one_line(" ".join(last_lines), 400)
            return f"{_status(process.poll())} and said: {said}" if said else _status(process.poll())

        async def read() -> None:
            async with to_session:
                try:
                    async for line in _lines(stdout):
                        if (message := _message(line)) is not None:
                            watch.inspect(message)
                            await to_session.send(message)
                    watch.reason = await ending()
                except ToolError as error:
                    watch.reason = str(error)
                watch.lost.set()

        async def write() -> None:
            async with sent:
                try:
                    async for message in sent:
                        await _write(stdin, message.message.model_dump_json(by_alias=True, exclude_unset=True))
                except OSError:
                    watch.reason = await ending()
                    watch.lost.set()

        async def collect_stderr() -> None:
            async for line in _lines(stderr):
                if text := clean(without_escapes(line.decode(errors="replace"))).strip():
                    last_lines.append(text)
            stderr_read.set()

        async with anyio.create_task_group() as tasks, received, to_server:
            tasks.start_soon(read)
            tasks.start_soon(write)
            tasks.start_soon(collect_stderr)
            try:
                yield received, to_server
            finally:
                tasks.cancel_scope.cancel()


@asynccontextmanager
async def _process(
    command: str, args: tuple[str, ...], cwd: Path, env: Mapping[str, str]
) -> AsyncGenerator[subprocess.Popen[bytes]]:
    async with AsyncExitStack() as stack:
        try:
            process = await stack.enter_async_context(open_group((command, *args), cwd, grace=_GRACE_SECONDS, env=env))
        except FileNotFoundError as error:
            program = f"there is no program {one_line(command)!r}"
            raise ToolError(
                f"the folder {cwd} does not exist" if str(error.filename) == str(cwd) else program
            ) from error
        except OSError as error:
            raise ToolError(f"{one_line(command)!r} could not be run ({error.strerror})") from error
        except ValueError as error:
            raise ToolError(f"its command line or its environment cannot be used ({error})") from error
        yield process


async def _lines(descriptor: int) -> AsyncIterator[bytes]:
    """Yield what a process writes, line by line.

    :raises ToolError: a line is longer than any message.
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
        begin = len(buffer)
        buffer += data
        if buffer.find(b"\n", begin) >= 0:
            *lines, rest = buffer.split(b"\n")
            buffer = bytearray(rest)
            for line in lines:
                yield bytes(line)
        if len(buffer) > MAX_LINE:
            raise ToolError(f"it wrote a line of more than {MAX_LINE >> 20} MiB")
    if buffer:
        yield bytes(buffer)


async def _write(descriptor: int, line: str) -> None:
    rest = memoryview(f"{line}\n".encode())
    while rest:
        try:
            rest = rest[os.write(descriptor, rest) :]
        except BlockingIOError:
            await anyio.wait_writable(descriptor)


def _message(line: bytes) -> SessionMessage | None:
    """Return the message on a line; None for what programs print to stdout by mistake."""
    try:
        return SessionMessage(types.jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError:
        pass
    try:
        value = json.loads(line.decode(errors="replace"), strict=False)
        whole = _HALF_CHARACTER.sub("\ufffd", json.dumps(value, ensure_ascii=False))
        return SessionMessage(types.jsonrpc_message_adapter.validate_json(whole, by_name=False))
    except (ValueError, RecursionError):
        return None


def _status(code: int | None) -> str:
    if code is None:
        return "it closed its output"
    return f"it ended with status {code}" if code >= 0 else f"it was ended by signal {-code}"
