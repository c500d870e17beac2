"""The stdio transport: an MCP server as a child process that reads and writes lines.

The SDK has one too. This one ends the server's whole process group with the session, and with the agent however that
ends, within a tenth of a second; and it says how a server ended and what it wrote to stderr.

Model Context Protocol, "Transports", "stdio".
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import anyio
from mcp import types
from mcp.shared.message import SessionMessage

from acp_agent.jsonrpc.messages import InvalidMessageError
from acp_agent.jsonrpc.transport import StdioTransport
from acp_agent.mcp.transports import Received, Streams, Watch
from acp_agent.processes import open_group
from acp_agent.tools.text import clean, one_line, without_escapes

MAX_LINE = 1 << 26
"""Bytes of one message."""
_GRACE_SECONDS = 0.5
"""How long a server may take to end by itself once its stdin is closed."""
_END_SECONDS = 0.2
_LAST_LINES = 5
"""Lines of stderr that are kept to say why a server ended."""
_SURROGATE = re.compile(r"\\ud[89a-f][0-9a-f]{2}", re.IGNORECASE)


@asynccontextmanager
async def over_stdio(
    command: str, args: tuple[str, ...], cwd: Path, env: Mapping[str, str], watch: Watch
) -> AsyncGenerator[Streams]:
    """Start a server and speak with it; when this ends, its whole process group is dead.

    :param env: all of its environment variables.
    :raises OSError, ValueError: it could not be started.
    """
    async with open_group((command, *args), cwd, grace=_GRACE_SECONDS, env=env) as process:
        assert process.stdin
        assert process.stdout
        assert process.stderr
        stdin = process.stdin.fileno()
        # They are not closed as transports: the process closes its pipes.
        pipes = StdioTransport(process.stdout.fileno(), stdin, max_line=MAX_LINE)
        errors = StdioTransport(process.stderr.fileno(), stdin, max_line=MAX_LINE)
        to_session, received = anyio.create_memory_object_stream[Received](0)
        to_server, sent = anyio.create_memory_object_stream[SessionMessage](0)
        last_lines: deque[str] = deque(maxlen=_LAST_LINES)
        stderr_read = anyio.Event()

        async def read() -> None:
            async with to_session:
                try:
                    while (line := await pipes.read_line()) is not None:
                        if (message := _message(line)) is not None:
                            await to_session.send(message)
                except InvalidMessageError:
                    watch.reason = f"it wrote a line of more than {MAX_LINE >> 20} MiB"
                    return
                with anyio.move_on_after(_END_SECONDS):
                    await stderr_read.wait()
                    while process.poll() is None:  # noqa: ASYNC110 - there is no event for the end of a process
                        await anyio.sleep(_END_SECONDS / 20)
                said = one_line(" ".join(last_lines), 400)
                watch.reason = _status(process.poll()) + (f" and said: {said}" if said else "")

        async def write() -> None:
            async with sent:
                async for message in sent:
                    line = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                    try:
                        await pipes.write(f"{line}\n".encode())
                    except OSError:  # it has closed its stdin, and its output ends next
                        return

        async def collect_stderr() -> None:
            with suppress(InvalidMessageError):
                while (line := await errors.read_line()) is not None:
                    if text := clean(without_escapes(line.decode(errors="replace"))).strip():
                        last_lines.append(text)
            stderr_read.set()

        async with anyio.create_task_group() as tasks, received, to_server:
            for task in (read, write, collect_stderr):
                tasks.start_soon(task)
            try:
                yield received, to_server
            finally:
                tasks.cancel_scope.cancel()


def _message(line: bytes) -> SessionMessage | None:
    """Return the message on a line; None for what programs print to stdout by mistake.

    Servers in JavaScript that cut a text write half characters (`\\ud83d`), which no strict reader takes: a line
    that has one is read without any.
    """
    text = line.decode(errors="replace")
    for each in (text, _SURROGATE.sub(r"\\ufffd", text)):
        try:
            return SessionMessage(types.jsonrpc_message_adapter.validate_json(each, by_name=False))
        except ValueError:
            continue
    return None


def _status(code: int | None) -> str:
    if code is None:
        return "it closed its output"
    return f"it ended with status {code}" if code >= 0 else f"it was ended by signal {-code}"
