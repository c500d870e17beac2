"""What a turn costs beside the model: waiting, processor time, and the stream at full speed."""

from __future__ import annotations

import asyncio

from benchmarks.agent import Agent, start_agent
from benchmarks.bench import Bench, Home
from benchmarks.model_server import JsonObject, ModelServer, Reply
from benchmarks.processes import cpu_seconds
from benchmarks.table import Figure

WARM_TURNS = 5
TURNS = 40
HISTORIES = (10, 2_000)
"""Messages that the session has when it is measured."""
HISTORY_TURNS = 20
DELTAS = 2_000
CHUNKS = ("agent_message_chunk",)


async def hello(bench: Bench) -> list[Figure]:
    """Warm turns of one short answer: the agent's own part before the model's request and after its end."""
    before: list[float] = []
    after: list[float] = []
    own: list[float] = []
    whole: list[float] = []
    cpu: list[float] = []
    bench.model.reply = _hello
    async with bench.home() as home, start_agent(home.path, bench.model.env) as agent:
        session_id = await _warm(agent, home)
        for _ in range(TURNS):
            start = len(bench.model.exchanges)
            used = cpu_seconds(agent.process.pid)
            answered = await agent.prompt(session_id, "Hello")
            cpu.append((cpu_seconds(agent.process.pid) - used) * 1000)
            exchange = bench.model.exchanges[start]
            before.append((exchange.arrived - answered.sent) * 1000)
            after.append((answered.received - exchange.ended) * 1000)
            own.append(before[-1] + after[-1])
            whole.append(answered.ms)
    return [
        Figure("warm prompt -> model request", "ms", before, 4, "5.9 pi-acp"),
        Figure("model's end -> PromptResponse", "ms", after, 2, "4.2 pi-acp"),
        Figure("warm prompt's own overhead, both", "ms", own, 6, "12 (whole turn)"),
        Figure("hello turn, whole", "ms", whole, None, "11.7 pi-acp (min 7.2)"),
        Figure("processor time per hello turn", "CPU ms", cpu, 8, "13.3 gemini-cli"),
    ]


async def history(bench: Bench) -> list[Figure]:
    """The same behind a short and behind a long history: what a warm turn costs must not grow faster than that does."""
    figures: list[Figure] = []
    bench.model.reply = _hello
    async with bench.home() as home, start_agent(home.path, bench.model.env) as agent:
        session_id = await _warm(agent, home)
        turns = WARM_TURNS
        for messages in HISTORIES:
            own: list[float] = []
            cpu: list[float] = []
            while turns * 2 < messages + HISTORY_TURNS * 2:
                bench.model.exchanges.clear()  # each has all messages in it
                used = cpu_seconds(agent.process.pid)
                answered = await agent.prompt(session_id, "Hello")
                turns += 1
                if turns * 2 > messages:
                    exchange = bench.model.exchanges[0]
                    cpu.append((cpu_seconds(agent.process.pid) - used) * 1000)
                    own.append((exchange.arrived - answered.sent + answered.received - exchange.ended) * 1000)
            figures.append(Figure(f"warm prompt's own overhead, {messages:,} messages", "ms", own, 8))
            figures.append(Figure("  processor time of its turn", "CPU ms", cpu))
    return figures


async def deltas(bench: Bench) -> list[Figure]:
    """One answer of many small pieces, each sent by itself and at once."""
    cpu: list[float] = []
    spans: list[float] = []
    chunks: list[float] = []
    text = [f"word {number} " for number in range(DELTAS)]
    async with bench.home() as home, start_agent(home.path, bench.model.env) as agent:
        bench.model.reply = _hello
        session_id = await _warm(agent, home)
        bench.model.reply = lambda _: Reply(text)
        for _ in range(bench.runs):
            start = len(agent.updates)
            used = cpu_seconds(agent.process.pid)
            await agent.prompt(session_id, "Count.")
            cpu.append(cpu_seconds(agent.process.pid) - used)
            shown = [(at, update) for at, update in agent.updates_since(start) if update["sessionUpdate"] in CHUNKS]
            if "".join(update["content"]["text"] for _, update in shown) != "".join(text):
                raise RuntimeError("the text that arrived is not the text that was sent")
            spans.append((shown[-1][0] - shown[0][0]) * 1000)
            chunks.append(len(shown))
    return [
        Figure(f"{DELTAS:,} text deltas: processor time", "CPU s", cpu, 0.1, "0.16 pi-acp (1:1), 0.14 vibe (3 chunks)"),
        Figure(f"{DELTAS:,} text deltas: first -> last chunk", "ms", spans, None, "90 pi-acp (1:1)"),
        Figure(f"{DELTAS:,} text deltas: chunks sent", "", chunks, None, "2,000, vibe 3"),
    ]


async def cancel(bench: Bench) -> list[Figure]:
    """`session/cancel` while the model streams -> `cancelled`."""
    waits: list[float] = []
    async with bench.home() as home, start_agent(home.path, bench.model.env) as agent:
        bench.model.reply = _hello
        session_id = await _warm(agent, home)
        bench.model.reply = lambda _: Reply(("I am thinking",), hangs=True)
        for _ in range(bench.runs):
            shown = asyncio.ensure_future(agent.until(_is_chunk))
            turn = asyncio.ensure_future(agent.prompt(session_id, "Wait.", stop_reason="cancelled"))
            await shown
            sent = agent.notify("session/cancel", {"sessionId": session_id})
            waits.append(((await turn).received - sent) * 1000)
    return [Figure("cancel in mid-turn -> cancelled", "ms", waits, 3, "5.4 gemini-cli")]


async def compaction(bench: Bench) -> list[Figure]:
    """`/compact` of a small session, with a model that takes half a second; and the same cancelled."""
    first: list[float] = []
    added: list[float] = []
    waits: list[float] = []
    async with bench.home() as home, start_agent(home.path, bench.model.env) as agent:
        bench.model.reply = _hello
        session_id = await _warm(agent, home)
        for _ in range(bench.runs):
            await _lengthen(bench.model, agent, session_id)
            bench.model.reply = lambda _: Reply(_SUMMARY, pause=0.025)
            start, asked = len(agent.updates), len(bench.model.exchanges)
            answered = await agent.prompt(session_id, "/compact")
            seen = [(at, update) for at, update in agent.updates_since(start) if _is_compaction(update)]
            if not seen or seen[-1][1].get("status") != "completed":
                raise RuntimeError("the compaction was not completed")
            exchange = bench.model.exchanges[asked]
            first.append((seen[0][0] - answered.sent) * 1000)
            added.append(answered.ms - (exchange.ended - exchange.arrived) * 1000)
        for _ in range(bench.runs):
            await _lengthen(bench.model, agent, session_id)
            bench.model.reply = lambda _: Reply(_SUMMARY[:3], hangs=True)
            shown = asyncio.ensure_future(agent.until(_is_summary))
            turn = asyncio.ensure_future(agent.prompt(session_id, "/compact", stop_reason="cancelled"))
            await shown
            sent = agent.notify("session/cancel", {"sessionId": session_id})
            waits.append(((await turn).received - sent) * 1000)
    return [
        Figure("/compact -> first sign", "ms", first, None, "16 claude 0.100, 2 vibe (as a tool call)"),
        Figure("/compact: wait beyond the model's own time", "ms", added, 10, "10 pi-acp"),
        Figure("/compact cancelled -> cancelled", "ms", waits, None, "3 claude 0.100"),
    ]


_SUMMARY = ("## Goal\n", *(f"- point {number}\n" for number in range(19)))


async def _warm(agent: Agent, home: Home) -> str:
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


def _hello(request: JsonObject) -> Reply:
    return Reply(("Hello", ", ", "world."))


def _is_chunk(update: JsonObject) -> bool:
    return update["sessionUpdate"] in CHUNKS


def _is_compaction(update: JsonObject) -> bool:
    return update["sessionUpdate"] == "compaction_update"


def _is_summary(update: JsonObject) -> bool:
    return update["sessionUpdate"] == "compaction_summary_chunk"
