"""A long session: made by working in it, and loaded by another process."""

from __future__ import annotations

import asyncio

from benchmarks.agent import Agent, start_agent
from benchmarks.bench import Bench, Home
from benchmarks.model_server import JsonObject, ModelServer, Reply
from benchmarks.opening import CALM
from benchmarks.table import Figure

UPDATES = 10_000
CALLS = 96
"""Tool calls in a turn; with the prompt, a text before and a text behind them that
makes 99 updates to replay.
"""
TURNS_BETWEEN = 12
"""Turns between two compactions, which keep the model's requests short; each adds two
updates to the replay.
"""


async def load(bench: Bench) -> list[Figure]:
    """`session/load`: as the first request of a process, and in a process that has
    calmed down.
    """
    first = list[float]()
    long = list[float]()
    short = list[float]()
    async with bench.home() as home:
        long_id, short_id = await _make_sessions(bench.model, home)
        for _ in range(bench.fewer):
            async with start_agent(home.path, bench.model.env) as agent:
                await agent.initialize()
                first.append(await _load(agent, home, long_id))
                if len(agent.updates) < UPDATES:
                    raise RuntimeError(
                        f"{len(agent.updates)} updates were replayed, not {UPDATES}"
                    )
            async with start_agent(home.path, bench.model.env) as agent:
                await agent.initialize()
                await agent.new_session(home.project)
                await asyncio.sleep(CALM)
                short.append(await _load(agent, home, short_id))
                long.append(await _load(agent, home, long_id))
    return [
        Figure("session/load of 2 turns", "ms", short),
        Figure(f"session/load of {UPDATES:,} updates", "ms", long, 300),
        Figure("  the same as a process's first request", "ms", first, 1000),
    ]


async def _load(agent: Agent, home: Home, session_id: str) -> float:
    params: JsonObject = {
        "sessionId": session_id,
        "cwd": str(home.project),
        "mcpServers": [],
    }
    return (await agent.request("session/load", params)).ms


async def _make_sessions(model: ModelServer, home: Home) -> tuple[str, str]:
    async with start_agent(home.path, model.env) as agent:
        await agent.initialize()
        short_id, _ = await agent.new_session(home.project)
        model.reply = lambda _: Reply(("Hello.",))
        for _ in range(2):
            await agent.prompt(short_id, "Hello")
        long_id, _ = await agent.new_session(home.project)
        made = turns = 0
        while made < UPDATES:
            model.reply = at_work
            await agent.prompt(long_id, "Read the notes again and again.")
            made += CALLS + 3
            turns += 1
            if turns % TURNS_BETWEEN == 0:
                made += await _compact(model, agent, long_id)
        return long_id, short_id


async def _compact(model: ModelServer, agent: Agent, session_id: str) -> int:
    model.reply = lambda _: Reply(("## Goal\n- The notes were read.\n",))
    await agent.prompt(session_id, "/compact")
    return 2


def at_work(request: JsonObject) -> Reply:
    """Calls of a tool after a prompt, and a last word after their results."""
    last: str | list[JsonObject] = request["messages"][-1]["content"]
    if isinstance(last, list) and any(block["type"] == "tool_result" for block in last):
        return Reply(("That was all.",))
    return Reply(("I read the notes.",), [("read", {"path": "notes.txt"})] * CALLS)
