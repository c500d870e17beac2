"""What a turn costs beside the model: waiting, processor time, and the stream at full
speed.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator

from benchmarks.agent import Agent
from benchmarks.bench import Bench, Home
from benchmarks.history import CALLS, at_work
from benchmarks.model_server import ModelServer, Reply
from benchmarks.peers import OURS, Program
from benchmarks.processes import cpu_seconds, tree
from benchmarks.table import Figure

WARM_TURNS = 5
"""After these, agents that ask the model for a title have done that."""
TURNS = 12
FEW_TURNS = 3
HISTORIES = ((2_000, 8), (20_000, 10))
"""Messages that the session has when it is measured, and the target."""
HISTORY_TURNS = 20
DELTAS = 2_000
CHUNK = "agent_message_chunk"


async def turns(bench: Bench, program: Program) -> AsyncGenerator[Figure]:
    """Warm turns: of one short answer, cancelled ones, and with an answer of many small
    pieces, each sent by itself.
    """
    model = bench.model
    async with bench.started(program) as (home, agent):
        pid = agent.process.pid
        session_id = await _warm(model, agent, home)
        for number in range(TURNS):
            model.exchanges.clear()
            used = tree(cpu_seconds, pid)
            answered = await agent.prompt(session_id, f"Hello, take {number:02}")
            cpu = (tree(cpu_seconds, pid) - used) * 1000
            exchange = next(
                each
                for each in model.exchanges
                if f"Hello, take {number:02}" in json.dumps(each.body)
            )
            before = (exchange.arrived - answered.sent) * 1000
            after = (answered.received - exchange.ended) * 1000
            yield Figure("warm prompt -> model request", "ms", [before], 4)
            yield Figure("model's end -> PromptResponse", "ms", [after], 2)
            yield Figure("warm prompt's own overhead, both", "ms", [before + after], 6)
            yield Figure("hello turn, whole", "ms", [answered.ms])
            yield Figure("processor time per hello turn", "CPU ms", [cpu], 8)
        model.reply = lambda _: Reply(("I am thinking",), hangs=True)
        for _ in range(FEW_TURNS):
            took = await _cancelled(agent, session_id, "Wait.", CHUNK)
            yield Figure("cancel in mid-turn -> cancelled", "ms", [took], 3)
        text = [f"word {number} " for number in range(DELTAS)]
        model.reply = lambda _: Reply(text)
        for _ in range(FEW_TURNS):
            start = len(agent.updates)
            used = tree(cpu_seconds, pid)
            answered = await agent.prompt(session_id, "Count.")
            cpu = tree(cpu_seconds, pid) - used
            seen = [
                update
                for _, update in agent.updates_since(start)
                if update["sessionUpdate"] == CHUNK
            ]
            if "".join(update["content"]["text"] for update in seen) != "".join(text):
                raise RuntimeError(
                    "the text that arrived is not the text that was sent"
                )
            yield Figure(
                f"turn of {DELTAS:,} text deltas, whole", "ms", [answered.ms], 100
            )
            yield Figure("  its processor time", "CPU s", [cpu], 0.1)
            yield Figure("  chunks sent", "", [len(seen)])


async def history(bench: Bench) -> list[Figure]:
    """Warm turns behind a long and a very long history: what they cost must not grow
    faster than that does.
    """
    figures = list[Figure]()
    made = WARM_TURNS * 2
    async with bench.started(OURS) as (home, agent):
        session_id = await _warm(bench.model, agent, home)
        for messages, target in HISTORIES:
            bench.model.reply = at_work
            while made < messages:
                bench.model.exchanges.clear()  # each has all messages in it
                await agent.prompt(session_id, "Look.")
                made += 3 + CALLS
            bench.model.reply = lambda _: Reply(("Hello",))
            own = list[float]()
            for _ in range(HISTORY_TURNS):
                bench.model.exchanges.clear()
                answered = await agent.prompt(session_id, "Hello")
                exchange = bench.model.exchanges[0]
                own.append(
                    (
                        exchange.arrived
                        - answered.sent
                        + answered.received
                        - exchange.ended
                    )
                    * 1000
                )
            figures.append(
                Figure(
                    f"warm prompt's own overhead, {messages:,} messages",
                    "ms",
                    own,
                    target,
                )
            )
    return figures


async def compaction(bench: Bench) -> list[Figure]:
    """`/compact` of a small session, with a model that takes half a second; and the
    same cancelled.
    """
    first = list[float]()
    added = list[float]()
    waits = list[float]()
    async with bench.started(OURS) as (home, agent):
        session_id = await _warm(bench.model, agent, home)
        for _ in range(bench.runs):
            await _lengthen(bench.model, agent, session_id)
            bench.model.reply = lambda _: Reply(_SUMMARY, pause=0.025)
            start = len(agent.updates)
            asked = len(bench.model.exchanges)
            answered = await agent.prompt(session_id, "/compact")
            seen = [
                (at, update)
                for at, update in agent.updates_since(start)
                if update["sessionUpdate"] == "compaction_update"
            ]
            if not seen or seen[-1][1].get("status") != "completed":
                raise RuntimeError("the compaction was not completed")
            exchange = bench.model.exchanges[asked]
            first.append((seen[0][0] - answered.sent) * 1000)
            added.append(answered.ms - (exchange.ended - exchange.arrived) * 1000)
        for _ in range(bench.runs):
            await _lengthen(bench.model, agent, session_id)
            bench.model.reply = lambda _: Reply(_SUMMARY[:3], hangs=True)
            waits.append(
                await _cancelled(
                    agent, session_id, "/compact", "compaction_summary_chunk"
                )
            )
    return [
        Figure("/compact -> first sign", "ms", first),
        Figure("/compact: wait beyond the model's own time", "ms", added, 10),
        Figure("/compact cancelled -> cancelled", "ms", waits),
    ]


_SUMMARY = ("## Goal\n", *(f"- point {number}\n" for number in range(19)))


async def _warm(model: ModelServer, agent: Agent, home: Home) -> str:
    model.reply = lambda _: Reply(("Hello", ", ", "world."))
    await agent.initialize()
    session_id, _ = await agent.new_session(home.project)
    for _ in range(WARM_TURNS):
        await agent.prompt(session_id, "Hello")
    return session_id


async def _lengthen(model: ModelServer, agent: Agent, session_id: str) -> None:
    """Give the session something that is worth a summary."""
    model.reply = lambda _: Reply(("A long story. " * 400,))
    for _ in range(3):
        await agent.prompt(session_id, "Tell me more. " * 100)


async def _cancelled(agent: Agent, session_id: str, text: str, sign: str) -> float:
    """Cancel a turn at the first update of a kind; milliseconds until it was answered."""
    shown = asyncio.ensure_future(
        agent.until(lambda update: update["sessionUpdate"] == sign)
    )
    turn = asyncio.ensure_future(
        agent.prompt(session_id, text, stop_reason="cancelled")
    )
    await shown
    sent = agent.notify("session/cancel", {"sessionId": session_id})
    return ((await turn).received - sent) * 1000
