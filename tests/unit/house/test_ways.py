"""How many functions of the package something passes on its way is no more than house.json allows."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from support.checkout import REPOSITORY
from support.client import AgentProcess
from support.editors import BARE
from support.memory import agent_in_memory
from support.models import ModelServer, Reply, model_server
from support.ways import LINE_READ, SDK_CALLED, SDK_RETURNED, SWAPPED, WRITTEN, traced

PATIENCE = 60
LONG = " ".join(f"The module src/module_{number}.py has {number} lines." for number in range(400))
"""An answer that there is something to compact of."""


@asynccontextmanager
async def asked(tmp_path: Path, server: ModelServer) -> AsyncGenerator[tuple[AgentProcess, str]]:
    """An agent in this process that has answered a prompt, and the session: what is loaded or made with the first one
    is no part of a way."""
    async with agent_in_memory(home=tmp_path, env=server.env(), capabilities=BARE) as agent:
        session = await agent.new_session(tmp_path)
        server.add(Reply(LONG))
        await agent.prompt(session, "Which modules are there?", PATIENCE)
        yield agent, session


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
    async with model_server(dialect="openai") as server, asked(tmp_path, server) as (agent, session):
        server.add(Reply("The first one."))
        with traced() as trace:
            turn = await agent.start_prompt(session, "Which one first?")
            await server.wait_calls(2, PATIENCE)
        await turn.result(PATIENCE)
    check("a prompt, from stdin to the SDK", trace.way(trace.first(LINE_READ), trace.last(SDK_CALLED)))


async def test_a_delta_passes_no_more_functions_from_the_sdk_to_stdout_than_its_ceiling(tmp_path: Path) -> None:
    hold = anyio.Event()
    async with model_server(dialect="openai") as server, asked(tmp_path, server) as (agent, session):
        server.add(Reply("The first one.", hold=hold))
        turn = await agent.start_prompt(session, "Which one first?")
        await server.wait_held(1, PATIENCE)
        with traced() as trace:
            since = len(agent.lines)
            hold.set()
            await agent.wait_update("agent_message_chunk", timeout=PATIENCE, since=since)
        await turn.result(PATIENCE)
    shown = trace.first(WRITTEN)
    check("a delta, from the SDK to stdout", trace.way_up(trace.last(SDK_RETURNED, before=shown), shown))


async def test_a_compaction_by_hand_passes_no_more_functions_from_stdin_to_its_swap_than_its_ceiling(
    tmp_path: Path,
) -> None:
    async with model_server(dialect="openai") as server, asked(tmp_path, server) as (agent, session):
        server.add(Reply("# Summary\n\nThere are 400 modules."))
        with traced() as trace:
            await agent.prompt(session, "/compact", PATIENCE)
    check("/compact, from stdin to its swap", trace.way(trace.first(LINE_READ), trace.first(SWAPPED)))


async def test_a_way_that_leads_nowhere_is_an_error() -> None:
    with traced() as trace:
        pass
    with pytest.raises(LookupError, match="it was not seen that bytes were read from stdin"):
        trace.first(LINE_READ)
