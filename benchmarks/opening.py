"""From the start of the process to the first prompt: time, processor time, memory."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Mapping
from time import perf_counter

from benchmarks.agent import start_agent
from benchmarks.bench import Bench
from benchmarks.processes import MEMORY, cpu_seconds, memory
from benchmarks.table import Figure

CALM = 3.0
"""Seconds after which what a new session prepares in the background is taken to be ready."""
_BEGUN = 1.5
"""Seconds after which it has surely begun with that."""
_STILL = 0.5
_BUSY = 0.01
"""It is done with it where it takes no more processor time than this, in seconds, within `_STILL`."""


async def opening(bench: Bench) -> list[Figure]:
    """Process start to `initialize` and `session/new`, as an editor does it: the second is sent when the first is
    answered. Memory then, and again when nothing goes on in the background any more, with no prompt sent."""
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
        Figure("process start -> initialize answered", "ms", to_initialize, 150, "180 pi-acp (min 146)"),
        Figure("process start -> session/new answered", "ms", to_session, 250, "315 codex-acp (min 282)"),
        Figure("processor time until session/new", "CPU s", cpu, None, "0.34 codex-acp"),
        Figure(f"memory ({MEMORY}) after session/new, at its answer", "MiB", mib, 60, "76 pydantic-acp"),
        Figure("  and some seconds later, with Anthropic", "MiB", await _prepared(bench, bench.model.env), 60),
        Figure("  and some seconds later, with OpenAI", "MiB", await _prepared(bench, {"OPENAI_API_KEY": "x"}), 60),
    ]


async def _prepared(bench: Bench, env: Mapping[str, str]) -> list[float]:
    """MiB of a process that has prepared all it does by itself behind a new session.

    :param env: has the key of the provider that a prompt would go to.
    """
    mib: list[float] = []
    for _ in range(bench.fewer):
        async with bench.home() as home, start_agent(home.path, env) as agent:
            await agent.initialize()
            await agent.new_session(home.project)
            await asyncio.sleep(_BEGUN)
            used, before = cpu_seconds(agent.process.pid), 0.0
            while used - before > _BUSY:
                await asyncio.sleep(_STILL)
                used, before = cpu_seconds(agent.process.pid), used
            mib.append(memory(agent.process.pid))
    return mib


async def first_prompt(bench: Bench) -> list[Figure]:
    """The first prompt, sent at once and after a while, and the memory with the model's SDK loaded."""
    at_once: list[float] = []
    later: list[float] = []
    mib: list[float] = []
    for index in range(2 * bench.fewer):
        async with bench.home() as home, start_agent(home.path, bench.model.env) as agent:
            await agent.initialize()
            session_id, _ = await agent.new_session(home.project)
            if index % 2:
                await asyncio.sleep(CALM)
            before = len(bench.model.exchanges)
            answered = await agent.prompt(session_id, "Hello")
            request = bench.model.exchanges[before]
            (later if index % 2 else at_once).append((request.arrived - answered.sent) * 1000)
            mib.append(memory(agent.process.pid))
    return [
        Figure("first prompt -> model request, sent at once", "ms", at_once),
        Figure(f"first prompt -> model request, after {CALM:.0f} s", "ms", later),
        Figure(f"memory ({MEMORY}) after the first turn, SDK loaded", "MiB", mib),
    ]


def _bare_python() -> float:
    began = perf_counter()
    subprocess.run([sys.executable, "-I", "-c", ""], check=True)
    return (perf_counter() - began) * 1000
