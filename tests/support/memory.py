"""An agent in the process of the tests, and its editor: what `support.client`, `stage`
and `second` do with a process.

    from support.memory import agent_in_memory, second_agent, stage

    async with agent_in_memory(home=tmp_path, env=server.env()) as agent:   # in the place of connected_agent
        session = await agent.new_session(repo.path)
        assert await agent.prompt(session, "Hi") == {"stopReason": "end_turn"}

The handshake, the connection, its sessions and the database are the agent's own; they
run in the event loop of the test and are reached over two pipes. It starts in a few
milliseconds. For what is a process's (signals, kills, the start, its end, stdio), use
`support.client`.

As long as it runs, this process is as one of its own would be: `os.environ` is what it
is given, the working directory is its home, what is written to stderr is the agent's,
and `support.called.process_state` takes away at its end what it has left behind. Two
agents at once share the process, and have to have one environment.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, asynccontextmanager, redirect_stderr
from functools import partial
from io import FileIO
from pathlib import Path
from typing import cast
from uuid import uuid4

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup

from acp_agent.app import SessionsDatabase, connection, start_home_logging
from acp_agent.jsonrpc.transport import StdioTransport
from acp_agent.server.handshake import answer_first_line
from support.background import desk as _desk
from support.called import call_command, process_state
from support.client import AgentProcess, environment, served
from support.editors import ZED, Editor
from support.forked import Started
from support.processes import Process, marked
from support.second import second_agent as _second_agent
from support.stage import stage as _stage

_ = anyio.Path
"""Loaded here: CPython 3.11 fails to compile a module that pytest rewrites while the
agent's calls are deep.
"""


class Pipes:
    """As much of `subprocess.Popen` as the tests use, for an agent that runs in this
    process.

    :ivar returncode: None while it runs; 0 once its connection has ended, 1 where it
        has failed.
    """

    def __init__(self, env: Mapping[str, str]) -> None:
        self.pid = os.getpid()
        self.returncode: int | None = None
        self.ended = anyio.Event()
        self._env = env
        self._scope = anyio.CancelScope()
        self._read_fd, to_agent = os.pipe()
        from_agent, self._write_fd = os.pipe()
        from_stderr, stderr = os.pipe()
        self.written = os.fdopen(stderr, "w", buffering=1, errors="backslashreplace")
        self.stdin = FileIO(to_agent, "w")
        self.stdout = FileIO(from_agent)
        self.stderr = FileIO(from_stderr)

    async def run(self) -> None:
        """Do as `acp_agent.__main__` and `acp_agent.app.serve` do in a process."""
        try:
            with self._scope:
                handshake = await anyio.to_thread.run_sync(
                    answer_first_line, self._read_fd, self._write_fd
                )
                transport = StdioTransport(
                    self._read_fd, self._write_fd, initial=handshake.unread
                )
                async with aclosing(SessionsDatabase(self._env)) as database:
                    on_end = database.begin_shutdown
                    await connection(
                        transport, database, self._env, handshake, on_end
                    ).run()
                    self.returncode = 0
        finally:
            if self.returncode is None:
                self.returncode = 1
            self.ended.set()

    def poll(self) -> int | None:
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        assert self.returncode is not None, "an agent in memory ends in its task"
        return self.returncode

    def kill(self) -> None:
        """Cancel it: the last resort of a test that has failed. Nothing is left half
        done, as a killed process may.
        """
        self._scope.cancel()

    def send_signal(self, sent: int) -> None:
        raise AssertionError("an agent in memory gets no signals: use connected_agent")


class AgentInMemory(AgentProcess):
    """An agent under test in this process; made by `agent_in_memory`."""

    process: Pipes

    def _family(self) -> set[Process]:
        return marked(self._mark)

    def run(self, tasks: TaskGroup) -> None:
        super().run(tasks)
        tasks.start_soon(self.process.run)

    async def _wait(self) -> None:
        await self.process.ended.wait()
        self.exited = True
        self.changes.notify()


@asynccontextmanager
async def agent_in_memory(
    *,
    home: Path,
    env: Mapping[str, str | None] | None = None,
    cwd: Path | None = None,
    capabilities: Editor = ZED,
    validate: bool = True,
    laws: bool = True,
    initialize: bool = True,
) -> AsyncGenerator[AgentInMemory, None]:
    """Run an agent in this process, with an editor at the other end of its pipes.

    :param initialize: send `initialize` first; otherwise nothing has been sent yet. The
        others are `start_agent`'s.
    """
    mark = uuid4().hex
    home.mkdir(parents=True, exist_ok=True)
    its = environment(home, mark, env or {}, own=False)
    tasks = anyio.create_task_group()
    pipes = Pipes(its)
    with process_state(its, cwd or home), pipes.written, redirect_stderr(pipes.written):
        start_home_logging(its)
        process = cast("Started", pipes)
        agent = AgentInMemory(
            process,
            editor=capabilities,
            mark=mark,
            validate=validate,
            laws=laws,
            tasks=tasks,
        )
        async with served(agent, tasks):
            if initialize:
                await agent.initialize()
            yield agent


def trust(home: Path, folder: Path) -> None:
    """Do as `support.trust.trust` does, in this process."""
    home.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(1) as other:  # here, an event loop may be running
        ran = other.submit(
            anyio.run, call_command, home, "trust", "--yes", str(folder)
        ).result()
    assert ran.code == 0, ran.err


start_agent = partial(agent_in_memory, initialize=False)
"""`support.client.start_agent`, with an agent in this process."""
desk = partial(_desk, connect=agent_in_memory)
"""`support.background.desk`, with an agent in this process."""
second_agent = partial(_second_agent, start=start_agent)
"""`support.second.second_agent`, with an agent in this process."""
stage = partial(_stage, connect=agent_in_memory, allow=trust)
"""`support.stage.stage`, with an agent in this process."""
