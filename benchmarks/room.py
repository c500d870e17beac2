"""Compaction of long sessions: what a user waits for, how long the agent computes, and
what stays in memory.
"""

from __future__ import annotations

import asyncio
import json
import sys
from itertools import pairwise

from benchmarks.agent import CHECKOUT, Agent, start_agent
from benchmarks.bench import Bench, Home
from benchmarks.model_server import JsonObject, ModelServer, Reply
from benchmarks.peers import OURS
from benchmarks.processes import MEMORY, memory
from benchmarks.table import Figure

WINDOW = 200_000
USABLE = 150_000
"""A quarter of the window is kept for the answer."""
SUMMARY_SECONDS = 5.0
DELTA_SECONDS = 0.01
"""Between two pieces of an answer, as a quick model sends them."""
HISTORY = 20
"""Turns of 20,000 characters before the one that is measured."""
SESSIONS = 500
_ASKS = "Go on"
_SUMMARY = "## Goal\n- The cart adds prices.\n"


async def waiting(bench: Bench) -> list[Figure]:
    """An automatic compaction in the middle of a turn, with a summary call that takes
    five seconds: the longest time between two updates that the editor gets.
    """
    longest = list[float]()
    for _ in range(max(1, bench.fewer // 2)):
        async with bench.home() as home:
            env = bench.model.env | {"ACP_AGENT_CONTEXT_WINDOW": str(WINDOW)}
            async with start_agent(home.path, env) as agent:
                session_id = await _with_history(bench.model, agent, home)
                work = _Work()
                bench.model.reply = work.reply
                start = len(agent.updates)
                await agent.prompt(session_id, f"{_ASKS} until the cart is right.")
                seen = agent.updates_since(start)
                done = [
                    u
                    for _, u in seen
                    if u["sessionUpdate"] == "compaction_update"
                    and u.get("status") == "completed"
                ]
                if (len(done), work.summaries) != (1, 1):
                    raise RuntimeError(
                        f"{len(done)} compactions were completed, of {work.summaries} summaries"
                    )
                longest.append(
                    max(
                        (later - earlier) * 1000
                        for (earlier, _), (later, _) in pairwise(seen)
                    )
                )
    return [
        Figure(
            f"automatic compaction, summary of {SUMMARY_SECONDS:.0f} s: longest gap",
            "ms",
            longest,
            50,
        )
    ]


class _Work:
    """A turn of steps that fill the context from 0.72 of what is usable to 0.92, slowly
    enough for a summary.
    """

    steps = 24

    def __init__(self) -> None:
        self.summaries = 0
        self._step = 0

    def reply(self, request: JsonObject) -> Reply:
        """The next step; a summary where one is asked for."""
        if _is_summary(request):
            self.summaries += 1
            return Reply((_SUMMARY,), pause=SUMMARY_SECONDS, tokens=int(USABLE * 0.72))
        self._step += 1
        compacted = (
            "conversation_summary" in str(request["messages"][0]["content"])[:200_000]
        )
        share = 0.3 if compacted else 0.72 + 0.2 * self._step / self.steps
        calls: list[tuple[str, JsonObject]] = (
            [("read", {"path": "notes.txt"})] if self._step < self.steps else []
        )
        return Reply(
            [f"word {n} " for n in range(30)],
            calls,
            pause=DELTA_SECONDS,
            tokens=int(USABLE * share),
        )


async def context(bench: Bench) -> list[Figure]:
    """What the agent computes for a long session, measured in a process of its own."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "benchmarks.inside",
        str(bench.runs),
        stdout=asyncio.subprocess.PIPE,
        cwd=CHECKOUT,
    )
    out, _ = await process.communicate()
    if process.returncode != 0:
        raise RuntimeError(
            f"the measuring process exited with status {process.returncode}"
        )
    seen: dict[str, list[float]] = json.loads(out)
    return [
        Figure("context of a compacted 10,000-event session", "ms", seen["context"], 20)
    ]


async def turnover(bench: Bench) -> list[Figure]:
    """Memory after many sessions that were prompted, closed, opened again and closed."""
    left = list[float]()
    added = list[float]()
    bench.model.reply = lambda _: Reply(("That was all.",))
    for _ in range(max(1, bench.fewer // 2)):
        async with bench.started(OURS) as (home, agent):
            await agent.initialize()
            place: JsonObject = {"cwd": str(home.project), "mcpServers": []}
            for number in range(2 * SESSIONS):
                if number == SESSIONS:
                    left.append(memory(agent.process.pid))
                session_id, _ = await agent.new_session(home.project)
                await agent.prompt(session_id, f"{_ASKS} {number}. " + "word " * 200)
                await agent.request("session/close", {"sessionId": session_id})
                await agent.request("session/load", {"sessionId": session_id, **place})
                await agent.request("session/close", {"sessionId": session_id})
            added.append(memory(agent.process.pid) - left[-1])
    return [
        Figure(
            f"memory ({MEMORY}) after {SESSIONS} sessions that were closed", "MiB", left
        ),
        Figure(f"  what {SESSIONS} more add", "MiB", added, 1),
    ]


async def _with_history(model: ModelServer, agent: Agent, home: Home) -> str:
    await agent.initialize()
    session_id, _ = await agent.new_session(home.project)
    for number in range(HISTORY):
        text = f"The cart adds price {number}. " * 400
        model.reply = lambda _, text=text, number=number: Reply(
            (text,), tokens=number * 5_000 + 2_000
        )
        await agent.prompt(session_id, f"{_ASKS} with part {number}. {text}")
    return session_id


def _is_summary(request: JsonObject) -> bool:
    last: str | list[JsonObject] = request["messages"][-1]["content"]
    if isinstance(last, str):
        return not last.startswith(_ASKS)
    return last[-1]["type"] == "text" and not last[-1]["text"].startswith(_ASKS)
