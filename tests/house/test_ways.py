"""How many functions of the package something passes on its way is no more than house.json allows."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from acp_agent.app import connection, sessions_database
from acp_agent.jsonrpc.stdio import claim_stdio
from support.checkout import REPOSITORY
from support.models import ModelServer, Reply, model_server
from support.ways import LINE_READ, SDK_CALLED, SDK_RETURNED, SWAPPED, WRITTEN, traced

PATIENCE = 60
LONG = " ".join(f"The module src/module_{number}.py has {number} lines." for number in range(400))
"""An answer that there is something to compact of."""


class Editor:
    """The other end of the agent's pipes, with an open session."""

    def __init__(self, write_fd: int, lines: asyncio.StreamReader) -> None:
        self._write_fd = write_fd
        self._lines = lines
        self._last_id = 0
        self.session = ""

    def send(self, method: str, **params: Any) -> int:
        self._last_id += 1
        line = {"jsonrpc": "2.0", "id": self._last_id, "method": method, "params": params}
        os.write(self._write_fd, json.dumps(line).encode() + b"\n")
        return self._last_id

    def say(self, text: str) -> int:
        return self.send("session/prompt", sessionId=self.session, prompt=[{"type": "text", "text": text}])

    async def line(self, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The next line of a kind."""
        with anyio.fail_after(PATIENCE):
            while not wanted(line := json.loads(await self._lines.readline())):
                pass
        return line

    async def result(self, id: int) -> dict[str, Any]:
        return (await self.line(lambda line: line.get("id") == id))["result"]


@asynccontextmanager
async def editor(tmp_path: Path, server: ModelServer) -> AsyncGenerator[Editor]:
    """One whose agent runs in this process, from `Connection.run` on, and has answered a prompt: what is loaded or made
    with the first one is no part of a way."""
    env = {**server.env(), "HOME": str(tmp_path), "ACP_AGENT_HOME": str(tmp_path / "home"), "PATH": os.environ["PATH"]}
    stdin, to_agent = os.pipe()
    from_agent, stdout = os.pipe()
    lines = asyncio.StreamReader(limit=2**24)
    pipe, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(lines), os.fdopen(from_agent, "rb", 0)
    )
    transport = claim_stdio(read_fd=stdin, write_fd=stdout)
    async with sessions_database(env) as database, anyio.create_task_group() as tasks:
        tasks.start_soon(connection(transport, database, env).run)
        try:
            made = Editor(to_agent, lines)
            await made.result(made.send("initialize", protocolVersion=1, clientCapabilities={}))
            opened = await made.result(made.send("session/new", cwd=str(tmp_path), mcpServers=[]))
            made.session = opened["sessionId"]
            server.add(Reply(LONG))
            await made.result(made.say("Which modules are there?"))
            yield made
            await made.result(made.send("session/close", sessionId=made.session))  # and the connection to the model
        finally:
            os.close(to_agent)
    pipe.close()


def check(name: str, way: list[str]) -> None:
    """The way is no longer than its ceiling; pytest's `-s` shows it."""
    ceiling = json.loads((REPOSITORY / ".ci" / "house.json").read_text())["ways"][name]
    listed = "\n".join(f"{number:4}  {function}" for number, function in enumerate(way, 1))
    print(f"\n{name}: {len(way)} functions of at most {ceiling}\n{listed}")
    assert len(way) <= ceiling, (
        f"{name}: {len(way)} functions, and its ceiling in .ci/house.json is {ceiling}:\n{listed}"
    )


async def test_a_prompt_passes_no_more_functions_from_stdin_to_the_call_of_the_sdk_than_its_ceiling(
    tmp_path: Path,
) -> None:
    async with model_server(dialect="openai") as server, editor(tmp_path, server) as it:
        server.add(Reply("The first one."))
        with traced() as trace:
            id = it.say("Which one first?")
            await server.wait_calls(2, PATIENCE)
        await it.result(id)
    check("a prompt, from stdin to the SDK", trace.way(trace.first(LINE_READ), trace.last(SDK_CALLED)))


async def test_a_delta_passes_no_more_functions_from_the_sdk_to_stdout_than_its_ceiling(tmp_path: Path) -> None:
    hold = anyio.Event()
    async with model_server(dialect="openai") as server, editor(tmp_path, server) as it:
        server.add(Reply("The first one.", hold=hold))
        id = it.say("Which one first?")
        await server.wait_held(1, PATIENCE)
        with traced() as trace:
            hold.set()
            await it.line(lambda line: "agent_message_chunk" in str(line))
        await it.result(id)
    shown = trace.first(WRITTEN)
    check("a delta, from the SDK to stdout", trace.way_up(trace.last(SDK_RETURNED, before=shown), shown))


async def test_a_compaction_by_hand_passes_no_more_functions_from_stdin_to_its_swap_than_its_ceiling(
    tmp_path: Path,
) -> None:
    async with model_server(dialect="openai") as server, editor(tmp_path, server) as it:
        server.add(Reply("# Summary\n\nThere are 400 modules."))
        with traced() as trace:
            await it.result(it.say("/compact"))
    check("/compact, from stdin to its swap", trace.way(trace.first(LINE_READ), trace.first(SWAPPED)))


async def test_a_way_that_leads_nowhere_is_an_error() -> None:
    with traced() as trace:
        pass
    with pytest.raises(LookupError, match="it was not seen that bytes were read from stdin"):
        trace.first(LINE_READ)
