"""Prompts that are far too large: how soon they are refused, what they take, and what
another session notices.
"""

from __future__ import annotations

import asyncio
from itertools import pairwise

from benchmarks.bench import Bench
from benchmarks.model_server import Reply
from benchmarks.peers import OURS
from benchmarks.processes import peak_memory
from benchmarks.table import Figure


async def large(bench: Bench) -> list[Figure]:
    """Prompts of 20 and 60 MiB, and one of 56 while another session streams, which is
    cancelled behind it.
    """
    times = (list[float](), list[float]())
    peaks = (list[float](), list[float]())
    gaps = list[float]()
    cancels = list[float]()
    for _ in range(bench.fewer):
        async with bench.started(OURS) as (home, agent):
            await agent.initialize()
            session_id, _ = await agent.new_session(home.project)
            other_id, _ = await agent.new_session(home.project)
            bench.model.reply = lambda _: Reply(("Hello.",))
            await agent.prompt(other_id, "Hello")
            for size, took, peak in zip((20, 60), times, peaks, strict=True):
                peak_memory(agent.process.pid)
                idle = peak_memory(agent.process.pid)
                took.append((await agent.refusal(session_id, size, other_id))[0])
                peak.append(peak_memory(agent.process.pid) - idle)
            bench.model.reply = lambda _: Reply(
                [f"word {n} " for n in range(4_000)], pause=0.005
            )
            refused = agent.refusal(session_id, 56, other_id)
            working = asyncio.create_task(
                agent.prompt(other_id, "Go on", stop_reason="cancelled")
            )
            await agent.until(
                lambda update: update["sessionUpdate"] == "agent_message_chunk"
            )
            start = len(agent.updates) - 1
            _, cancelled = await refused
            seen = [*(at for at, _ in agent.updates[start:]), (await working).received]
            cancels.append((seen[-1] - cancelled) * 1000)
            gaps.append(
                max((later - earlier) * 1000 for earlier, later in pairwise(seen))
            )
    return [
        Figure("prompt of 20 MiB -> refused", "ms", times[0], 500),
        Figure("  its peak of memory over idle", "MiB", peaks[0], 120),
        Figure("prompt of 60 MiB -> refused", "ms", times[1], 1000),
        Figure("  its peak of memory over idle", "MiB", peaks[1]),
        Figure("prompt of 56 MiB beside a turn: its longest gap", "ms", gaps, 100),
        Figure("  cancel of that turn, right behind the prompt", "ms", cancels, 50),
    ]
