"""An agent that serves over the network, as a real process, and clients of it.

    async with site(tmp_path, Reply("Done.")) as it:
        async with it.client() as agent: …                      # as one on stdin and stdout, and with the same checks
        async with connect(it.served.url()) as socket: …        # or by hand

At its end the test fails where it does not end by SIGTERM, prints or logs a traceback,
or leaves a process behind.
"""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import anyio
import anyio.to_thread

from support import forked
from support.checkout import environment
from support.client import MARK, AgentProcess, connected_agent
from support.editors import BARE
from support.models import ModelServer, Reply, Script, model_server
from support.processes import marked, outlive
from support.waiting import Changes

BRIDGE = Path(__file__).with_name("bridge.py")
END_SECONDS = 8.0
GREETING: dict[str, Any] = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {"protocolVersion": 1},
}


class Served:
    """:ivar port: on which it listens.
    :ivar said: what it has written to stderr so far.
    :ivar terminated: whether it was sent a signal that ends it.
    :ivar status: with which it has to end.
    """

    def __init__(self, process: forked.Started, port: int, said: bytearray) -> None:
        self.process = process
        self.port = port
        self.said = said
        self.terminated = False
        self.status = 128 + signal.SIGTERM

    def terminate(self) -> None:
        if not self.terminated:
            self.terminated = True
            self.process.send_signal(signal.SIGTERM)

    async def kill(self) -> None:
        """End it with SIGKILL, as a machine that loses its power would, and wait until
        it has.
        """
        self.terminated = True
        self.status = -signal.SIGKILL
        self.process.kill()
        await anyio.to_thread.run_sync(self.process.wait)

    def url(self, scheme: str = "ws") -> str:
        return f"{scheme}://127.0.0.1:{self.port}/acp"

    def argv(self, scheme: str = "ws") -> list[str]:
        """An agent on stdin and stdout that is in truth this one, for `start_agent`."""
        return [sys.executable, "-P", str(BRIDGE), self.url(scheme)]


@dataclass(frozen=True, slots=True)
class Site:
    """An agent that serves, a model, and a folder to work in.

    :ivar home: of the agent.
    """

    served: Served
    server: ModelServer
    home: Path
    folder: Path

    @asynccontextmanager
    async def client(
        self, scheme: str = "ws", **options: Any
    ) -> AsyncGenerator[AgentProcess, None]:
        """An editor that is connected, with options of `start_agent`."""
        options = {"capabilities": BARE, **options}
        async with connected_agent(
            home=self.folder.parent / "editor", argv=self.served.argv(scheme), **options
        ) as one:
            yield one

    async def opened(self, agent: AgentProcess, mode: str | None = None) -> str:
        """A new session in the folder, of which all was told that is told at its
        opening.
        """
        session = await agent.new_session(self.folder)
        await agent.wait_update("available_commands_update", session)
        if mode is not None:
            await agent.set_mode(session, mode)
        return session


@asynccontextmanager
async def site(
    tmp_path: Path,
    *replies: Reply,
    script: Script | None = None,
    env: Mapping[str, str] | None = None,
    **options: Any,
) -> AsyncGenerator[Site, None]:
    """:param options: of `serving`."""
    home = tmp_path / "home"
    folder = tmp_path / "project"
    folder.mkdir()
    async with (
        model_server(replies if script is None else script, "openai") as server,
        serving(home, env={**server.env(), **(env or {})}, **options) as served,
    ):
        yield Site(served, server, home, folder)


@asynccontextmanager
async def serving(
    home: Path,
    *words: str,
    env: Mapping[str, str] | None = None,
    token: str | None = None,
) -> AsyncGenerator[Served, None]:
    """Serve with the state that `start_agent` has in `home`.

    :param words: arguments; by default those for any free port of loopback.
    """
    home.mkdir(parents=True, exist_ok=True)
    mark = uuid4().hex
    its = {
        **environment(home),
        MARK: mark,
        **(env or {}),
        **({} if token is None else {"ACP_AGENT_TOKEN": token}),
    }
    words = words or ("--websocket", "127.0.0.1:0")
    process = forked.start("acp_agent", ["serve", *words], cwd=home, env=its)
    said = bytearray()
    changes = Changes()

    async def read() -> None:
        assert process.stderr is not None
        while chunk := await anyio.to_thread.run_sync(
            os.read, process.stderr.fileno(), 65_536, abandon_on_cancel=True
        ):
            said.extend(chunk)
            changes.notify()

    def listening() -> int | None:
        found = re.search(
            r"^Serving ACP at ws://\S+:(\d+)/acp\..*\n", said.decode(), re.MULTILINE
        )
        return int(found[1]) if found else None

    failure: BaseException | None = None
    status = 128 + signal.SIGTERM
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read)
            port = await changes.until(
                listening, 20, lambda: f"where it serves: {said.decode()}"
            )
            served = Served(process, port, said)
            try:
                yield served
            except anyio.get_cancelled_exc_class():
                raise
            except BaseException as error:  # a task group would wrap it
                failure = error
            with anyio.CancelScope(shield=True):
                served.terminate()
                status = served.status
                with anyio.move_on_after(END_SECONDS):
                    await anyio.to_thread.run_sync(process.wait, abandon_on_cancel=True)
            tasks.cancel_scope.cancel()
        left = await outlive(
            {one for one in marked(mark) if one.pid != process.pid}, seconds=2
        )
        for one in left:
            os.kill(one.pid, signal.SIGKILL)
    finally:
        code = process.poll()
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout, process.stderr):
            assert stream is not None
            stream.close()
    if failure is not None:
        failure.add_note(f"stderr of what serves: {said.decode()}")
        raise failure
    logged = "".join(
        path.read_text() for path in (home / "state" / "logs").rglob("*.log*")
    )
    assert "Traceback" not in said.decode() + logged, said.decode() + logged
    assert code is not None, (
        f"still running {END_SECONDS:g} s after SIGTERM: {said.decode()}"
    )
    assert not left
    assert code == status
