"""The process of an MCP server that speaks over its standard input and output: its environment, lines in, lines out.

Knows no JSON-RPC and no SDK.
"""

from __future__ import annotations

import os
import subprocess
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import anyio

from acp_agent.errors import ToolError
from acp_agent.processes import open_group
from acp_agent.tools.text import clean, one_line, without_escapes

MAX_LINE = 1 << 26
"""Bytes of one message; what a server writes without ever ending a line must not fill the memory."""
GRACE_SECONDS = 0.5
"""How long a server may take to end by itself, once its input is closed."""
_INHERITED = (
    *("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER", "TMPDIR", "TZ"),
    *("LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "LC_MESSAGES"),
    *("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR", "XDG_STATE_HOME"),
)
"""What a server gets of the agent's environment: where it is, and no key."""
_CHUNK = 65_536
_END_SECONDS = 0.2
_COMPLAINTS = 5
"""Lines of its standard error that are kept to say why it ended."""


def server_environment(env: Mapping[str, str], own: Mapping[str, str]) -> dict[str, str]:
    """All environment variables of a server.

    :param env: the agent's environment.
    :param own: what the server's entry sets.
    """
    return {**{name: env[name] for name in _INHERITED if name in env}, **own}


class ServerProcess:
    """A server that runs. `watch` must run beside what is said, so that its standard error does not fill up."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._complaints: deque[str] = deque(maxlen=_COMPLAINTS)

    @property
    def complaint(self) -> str:
        """The last that it said on its standard error, on one line; empty where it said nothing."""
        return one_line(" ".join(self._complaints), 400)

    @property
    def status(self) -> str:
        """How it ended, in words; empty as long as it runs."""
        code = self._process.poll()
        if code is None:
            return ""
        return f"it ended with status {code}" if code >= 0 else f"it was ended by signal {-code}"

    async def ended(self) -> None:
        """Wait a moment for its end, which comes soon after it has closed its output, if it comes."""
        with anyio.move_on_after(_END_SECONDS):
            while not self.status:  # noqa: ASYNC110 - nobody tells when a process has ended
                await anyio.sleep(_END_SECONDS / 20)

    async def lines(self) -> AsyncIterator[bytes]:
        """Each line that it writes, without its end, until it closes its output.

        :raises ToolError: a line is longer than any message may be.
        """
        assert self._process.stdout
        buffer = bytearray()
        async for data in _chunks(self._process.stdout.fileno()):
            begin = len(buffer)
            buffer += data
            end = buffer.find(b"\n", begin)
            while end >= 0:
                line = bytes(buffer[:end])
                del buffer[: end + 1]
                if line.strip():
                    yield line
                end = buffer.find(b"\n")
            if len(buffer) > MAX_LINE:
                raise ToolError(f"it wrote a line of more than {MAX_LINE >> 20} MiB")

    async def send(self, line: bytes) -> None:
        """Write a line.

        :raises OSError: it reads no more.
        """
        assert self._process.stdin
        descriptor = self._process.stdin.fileno()
        rest = memoryview(line + b"\n")
        while rest:
            try:
                rest = rest[os.write(descriptor, rest) :]
            except BlockingIOError:
                await anyio.wait_writable(descriptor)

    async def watch(self) -> None:
        """Read its standard error until it closes that."""
        assert self._process.stderr
        last = b""
        async for data in _chunks(self._process.stderr.fileno()):
            *lines, last = (last + data).split(b"\n")
            last = last[-_CHUNK:]
            self._complain(lines)
        self._complain([last])

    def _complain(self, lines: list[bytes]) -> None:
        texts = (clean(without_escapes(line.decode(errors="replace"))).strip() for line in lines)
        self._complaints.extend(text for text in texts if text)


async def _chunks(descriptor: int) -> AsyncIterator[bytes]:
    while True:
        await anyio.wait_readable(descriptor)
        try:
            data = os.read(descriptor, _CHUNK)
        except BlockingIOError:
            continue
        if not data:
            return
        yield data


@asynccontextmanager
async def server_process(
    command: str, args: tuple[str, ...], cwd: Path, env: Mapping[str, str]
) -> AsyncGenerator[ServerProcess]:
    """Start a server; when this ends, its whole process group is dead.

    :param env: all of its environment variables.
    :raises ToolError: it could not be started; says why.
    """
    async with AsyncExitStack() as stack:
        try:
            process = await stack.enter_async_context(open_group((command, *args), cwd, grace=GRACE_SECONDS, env=env))
        except FileNotFoundError as error:
            missing = f"the folder {cwd} does not exist" if str(error.filename) == str(cwd) else _no_program(command)
            raise ToolError(missing) from error
        except OSError as error:
            raise ToolError(f"{one_line(command)!r} could not be run ({error.strerror})") from error
        except ValueError as error:
            if wrong := next((name for name in env if "=" in name), None):
                raise ToolError(
                    f"{one_line(wrong)!r} can be no environment variable's name: it has a = in it"
                ) from error
            raise ToolError("its command line or its environment holds a NUL character") from error
        yield ServerProcess(process)


def _no_program(command: str) -> str:
    return f"there is no program {one_line(command)!r}"
