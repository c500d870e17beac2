"""The agent's command line, run as a person types it.

ran = await run_command(home, "sessions", "rm", session)
assert (ran.code, ran.out, ran.err) == (0, "Removed …\n", "")

async with at_a_terminal(home, "run", "Hi.", env=server.env()) as person:
    await person.until("Allow?")
    person.type("y\n")
    assert await person.ended() == 0
"""

from __future__ import annotations

import os
import pty
import shlex
import sys
import termios
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

import anyio
import anyio.to_thread

from support import forked
from support.checkout import environment


@dataclass(frozen=True, slots=True)
class Ran:
    """How a command ended.

    :ivar code: its exit status.
    """

    code: int
    out: str
    err: str


async def run_command(
    home: Path, *words: str, env: Mapping[str, str] | None = None, stdin: str = ""
) -> Ran:
    """Run `acp-agent` in `home`, with its state where `start_agent` has it.

    :param words: the arguments.
    :param env: added to the few variables that it inherits.
    :raises AssertionError: it printed a traceback.
    """

    its = {**environment(home), **(env or {})}
    run = partial(
        forked.run, "acp_agent", words, cwd=home, env=its, stdin=stdin, timeout=50
    )
    ran = Ran(*await anyio.to_thread.run_sync(run))
    assert "Traceback" not in ran.err, ran.err
    return ran


AGENT = f"{shlex.quote(sys.executable)} -P -m acp_agent"


async def in_a_shell(home: Path, line: str, env: Mapping[str, str]) -> Ran:
    """Run a line of shell in `home`, with the environment that `run_command` gives.

    :param line: with `AGENT` for the agent.
    """
    env = {**environment(home), **env}
    done = await anyio.run_process(
        ["/bin/sh", "-c", line], cwd=home, env=env, check=False
    )
    return Ran(done.returncode, done.stdout.decode(), done.stderr.decode())


class Typist:
    """Somebody at a terminal in which a command runs; made by `at_a_terminal`.

    :ivar shown: what the terminal has shown so far.
    """

    def __init__(self, process: forked.Started, terminal: int) -> None:
        self._process = process
        self._terminal = terminal
        self.shown = ""

    @property
    def echoes(self) -> bool:
        return bool(termios.tcgetattr(self._terminal)[3] & termios.ECHO)

    async def until(self, text: str, times: int = 1) -> None:
        while self.shown.count(text) < times:
            assert await self._read(), f"{text!r} was not shown, but: {self.shown}"

    def type(self, keys: str) -> None:
        """Type; `\\x03` is ctrl-c, `\\x04` is ctrl-d."""
        os.write(self._terminal, keys.encode())

    def send_signal(self, sent: int) -> None:
        """Send it to the command alone."""
        self._process.send_signal(sent)

    async def closes(self) -> int:
        null = os.open(os.devnull, os.O_RDWR)
        # So that the descriptor stays the caller's to close.
        os.dup2(null, self._terminal)
        os.close(null)
        return await anyio.to_thread.run_sync(
            self._process.wait, abandon_on_cancel=True
        )

    async def ended(self) -> int:
        while await self._read():
            pass
        return await anyio.to_thread.run_sync(
            self._process.wait, abandon_on_cancel=True
        )

    async def _read(self) -> bool:
        await anyio.wait_readable(self._terminal)
        try:
            read = os.read(self._terminal, 65_536)
        except OSError:  # Linux, when the last one that had it open has ended
            read = b""
        self.take(read)
        return bool(read)

    def take(self, read: bytes) -> None:
        """Take note of what the terminal was sent."""
        self.shown += read.decode(errors="replace")


T = TypeVar("T", bound=Typist)


@asynccontextmanager
async def at_a_terminal(
    home: Path,
    *words: str,
    env: Mapping[str, str],
    person: Callable[[forked.Started, int], T] = Typist,
    size: tuple[int, int] | None = None,
    cwd: Path | None = None,
) -> AsyncGenerator[T]:
    """Run `acp-agent` as `run_command` does, in a terminal of its own; killed at the
    end where it still runs.

    :param size: rows and columns.
    :param cwd: the working directory; defaults to `home`.
    """
    terminal, inside = pty.openpty()
    if size is not None:
        termios.tcsetwinsize(terminal, size)
    try:
        process = forked.start_in_terminal(
            "acp_agent",
            words,
            cwd=cwd or home,
            env={**environment(home), **env},
            terminal=inside,
        )
        os.close(inside)
        try:
            yield person(process, terminal)
        finally:
            process.kill()
            process.wait()
    finally:
        os.close(terminal)
