"""From the start of the process to the first prompt: time, processor time, memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from time import perf_counter

from benchmarks.bench import Bench
from benchmarks.model_server import Reply
from benchmarks.peers import OURS, Program
from benchmarks.processes import MEMORY, cpu_seconds, memory, tree
from benchmarks.table import Figure

CALM = 2.5
"""Seconds after which what a new session prepares in the background is taken to be
ready.
"""
CANCEL_SECONDS = 0.4
"""After a first prompt; the SDK is being loaded then."""
BURST = 100


async def opening(bench: Bench, program: Program) -> AsyncGenerator[Figure]:
    """Process start to `initialize` and to `session/new`, sent when the first is
    answered; then a prompt at once, or in another process after a while, with what was
    taken until then.
    """
    bench.model.reply = lambda _: Reply(("Hello",))
    for when, target in (("sent at once", 1_360), (f"sent after {CALM} s", 60)):
        async with bench.started(program) as (home, agent):
            pid = agent.process.pid
            initialized = await agent.initialize()
            session_id, opened = await agent.new_session(home.project)
            started = [
                (answered.received - agent.started) * 1000
                for answered in (initialized, opened)
            ]
            yield Figure("process start -> initialize answered", "ms", started[:1], 41)
            yield Figure(
                "process start -> session/new answered", "ms", started[1:], 150
            )
            if target == 60:
                yield Figure(
                    "processor time until session/new",
                    "CPU s",
                    [tree(cpu_seconds, pid)],
                    0.20,
                )
                yield Figure(
                    f"memory ({MEMORY}) after session/new, at its answer",
                    "MiB",
                    [tree(memory, pid)],
                    90,
                )
                await asyncio.sleep(CALM)
                yield Figure(
                    f"memory ({MEMORY}) {CALM} s after session/new",
                    "MiB",
                    [tree(memory, pid)],
                    90,
                )
            turn = await agent.prompt(session_id, "Hello")
            yield Figure(f"first turn, {when}", "ms", [turn.ms], target)
            yield Figure(
                f"memory ({MEMORY}) after the first turn",
                "MiB",
                [tree(memory, pid)],
                90,
            )


async def waits(bench: Bench) -> list[Figure]:
    """What `session/list`, and then a cancel, wait while a first prompt, sent at once,
    loads the model's SDK; and what an agent takes that has nothing to do.
    """
    longest = list[float]()
    cancelled = list[float]()
    idle = list[float]()
    bench.model.reply = lambda _: Reply(("Hello",))
    for _ in range(bench.fewer):
        async with bench.started(OURS) as (home, agent):
            await agent.initialize()
            session_id, _ = await agent.new_session(home.project)
            turn = asyncio.ensure_future(
                agent.prompt(session_id, "Hello", stop_reason="cancelled")
            )
            began = perf_counter()
            listed = list[float]()
            while perf_counter() - began < CANCEL_SECONDS:
                await asyncio.sleep(0.02)
                listed.append((await agent.request("session/list", {})).ms)
            sent = agent.notify("session/cancel", {"sessionId": session_id})
            cancelled.append(((await turn).received - sent) * 1000)
            longest.append(max(listed))
            await asyncio.sleep(CALM)
            used = cpu_seconds(agent.process.pid)
            await asyncio.sleep(CALM)
            idle.append((cpu_seconds(agent.process.pid) - used) * 1000)
    return [
        Figure("longest wait for session/list in a first turn", "ms", longest, 50),
        Figure("cancel of a first turn while the SDK is loaded", "ms", cancelled, 50),
        Figure(f"processor time of {CALM} idle seconds", "CPU ms", idle, 0),
    ]


async def burst(bench: Bench) -> list[Figure]:
    """Many sessions opened at once, then a prompt to each at once."""
    opened = list[float]()
    answered = list[float]()
    bench.model.reply = lambda _: Reply(("Hello",))
    for _ in range(bench.fewer):
        async with bench.started(OURS) as (home, agent):
            await agent.initialize()
            began = perf_counter()
            sessions = await asyncio.gather(
                *(agent.new_session(home.project) for _ in range(BURST))
            )
            opened.append(perf_counter() - began)
            began = perf_counter()
            await asyncio.gather(
                *(agent.prompt(session_id, "Hello") for session_id, _ in sessions)
            )
            answered.append(perf_counter() - began)
    return [
        Figure(f"{BURST} sessions opened at once", "s", opened, 3),
        Figure(f"{BURST} first prompts at once", "s", answered, 5),
    ]
