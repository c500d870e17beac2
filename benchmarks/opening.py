"""From the start of the process to the first prompt: time, processor time, memory."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from time import perf_counter

from benchmarks.agent import start_agent
from benchmarks.bench import Bench
from benchmarks.processes import MEMORY, cpu_seconds, memory
from benchmarks.table import Figure

CALM = 2.5
"""Seconds after which what a new session prepares in the background is taken to be ready."""
BURST = 100


async def opening(bench: Bench) -> list[Figure]:
    """Process start to `initialize` and to `session/new`, sent when the first is answered, and memory then."""
    python: list[float] = []
    to_initialize: list[float] = []
    to_session: list[float] = []
    cpu: list[float] = []
    mib: list[float] = []
    for _ in range(bench.runs):
        python.append(_bare_python())
        async with bench.home() as home, start_agent(home.path, bench.model.env) as agent:
            initialized = await agent.initialize()
            _, opened = await agent.new_session(home.project)
            cpu.append(cpu_seconds(agent.process.pid))
            mib.append(memory(agent.process.pid))
            to_initialize.append((initialized.received - agent.started) * 1000)
            to_session.append((opened.received - agent.started) * 1000)
    return [
        Figure("for scale: bare Python, start to exit", "ms", python),
        Figure("process start -> initialize answered", "ms", to_initialize, 41, "180 pi-acp (min 146)"),
        Figure("process start -> session/new answered", "ms", to_session, 150, "315 codex-acp (min 282)"),
        Figure("processor time until session/new", "CPU s", cpu, 0.20, "0.34 codex-acp"),
        Figure(f"memory ({MEMORY}) after session/new, at its answer", "MiB", mib, 90, "76 pydantic-acp"),
    ]


async def first_prompt(bench: Bench) -> list[Figure]:
    """The first prompt, sent at once and after a while, what `session/list` waits meanwhile, and the memory then."""
    at_once: list[float] = []
    later: list[float] = []
    waits: list[float] = []
    calm: list[float] = []
    mib: list[float] = []
    for index in range(2 * bench.fewer):
        async with bench.home() as home, start_agent(home.path, bench.model.env) as agent:
            await agent.initialize()
            session_id, _ = await agent.new_session(home.project)
            if index % 2:
                await asyncio.sleep(CALM)
                calm.append(memory(agent.process.pid))
            turn = asyncio.ensure_future(agent.prompt(session_id, "Hello"))
            listed = 0.0
            while not turn.done():
                await asyncio.wait((turn,), timeout=0.02)
                listed = max(listed, (await agent.request("session/list", {})).ms)
            (later if index % 2 else at_once).append((await turn).ms)
            waits += [] if index % 2 else [listed]
            mib.append(memory(agent.process.pid))
    return [
        Figure("first turn, sent at once", "ms", at_once, None, "71 pi-acp"),
        Figure("  longest wait for session/list meanwhile", "ms", waits, 50),
        Figure(f"first turn, sent after {CALM} s", "ms", later, 60, "71 pi-acp"),
        Figure(f"memory ({MEMORY}) {CALM} s after session/new", "MiB", calm, 90),
        Figure(f"memory ({MEMORY}) after the first turn", "MiB", mib, 90),
    ]


async def burst(bench: Bench) -> list[Figure]:
    """Many sessions opened at once, then a prompt to each at once."""
    opened: list[float] = []
    answered: list[float] = []
    for _ in range(bench.fewer):
        async with bench.home() as home, start_agent(home.path, bench.model.env) as agent:
            await agent.initialize()
            began = perf_counter()
            sessions = await asyncio.gather(*(agent.new_session(home.project) for _ in range(BURST)))
            opened.append(perf_counter() - began)
            began = perf_counter()
            await asyncio.gather(*(agent.prompt(session_id, "Hello") for session_id, _ in sessions))
            answered.append(perf_counter() - began)
    return [
        Figure(f"{BURST} sessions opened at once", "s", opened, 3),
        Figure(f"{BURST} first prompts at once", "s", answered, 5),
    ]


def _bare_python() -> float:
    began = perf_counter()
    subprocess.run([sys.executable, "-I", "-c", ""], check=True)
    return (perf_counter() - began) * 1000
