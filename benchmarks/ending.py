"""How long the end takes: in mid-turn with a shell command, until that is gone too; and
at some moments of the first prompt, while modules are being loaded.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncGenerator, Callable
from time import perf_counter

from benchmarks.agent import Agent
from benchmarks.bench import Bench
from benchmarks.model_server import Reply
from benchmarks.peers import OURS, Program
from benchmarks.processes import descendants, living
from benchmarks.table import Figure

MOMENTS = (0.0, 0.02, 0.05, 0.1, 0.15, 0.2)
"""Seconds behind the first prompt, which stands right behind `session/new`."""
COMMAND = "mkfifo pipe; cat pipe & cat pipe; wait"
"""Not `sleep`, which one of the others refuses to run, nor `tail -f`, which takes Linux
15 ms to end.
"""
LIMIT = 10.0
"""Seconds after which a process is taken to stay."""


async def eof(bench: Bench, program: Program) -> AsyncGenerator[Figure]:
    """Standard input closed in mid-turn."""
    waits = [await _end(bench, program, lambda agent: agent.close_stdin())]
    yield Figure("exit on EOF in mid-turn, shell running", "ms", waits, 20)


async def sigterm(bench: Bench, program: Program) -> AsyncGenerator[Figure]:
    """SIGTERM in mid-turn."""
    waits = [await _end(bench, program, lambda agent: agent.terminate())]
    yield Figure("exit on SIGTERM in mid-turn, shell running", "ms", waits, 20)


async def ending(bench: Bench) -> list[Figure]:
    """Standard input closed while the model's SDK is being loaded."""
    waits = list[float]()
    bench.model.reply = lambda _: Reply(("Now I wait.",), hangs=True)
    for moment in MOMENTS * bench.fewer:
        async with bench.started(OURS) as (home, agent):
            await agent.initialize()
            session_id, _ = await agent.new_session(home.project)
            turn = asyncio.ensure_future(agent.prompt(session_id, "Wait."))
            await asyncio.sleep(moment)
            asked = agent.close_stdin()
            waits.append((await agent.exited() - asked) * 1000)
            turn.cancel()
            await asyncio.gather(turn, return_exceptions=True)
    return [Figure("exit on EOF 0 to 0.2 s behind the first prompt", "ms", waits, 100)]


async def _end(bench: Bench, program: Program, end: Callable[[Agent], float]) -> float:
    bench.model.reply = lambda _: Reply(("Now I wait.",), [program.call(COMMAND)])
    tree = set[int]()
    async with bench.started(program) as (home, agent):
        await agent.initialize()
        session_id, _ = await agent.new_session(home.project)
        if program.mode:
            await agent.request(
                "session/set_mode", {"sessionId": session_id, "modeId": program.mode}
            )
        turn = asyncio.ensure_future(agent.prompt(session_id, "Wait."))
        began = perf_counter()
        try:
            names = dict[int, str]()
            while sum(name.endswith("cat") for name in names.values()) < COMMAND.count(
                "cat"
            ):
                if turn.done() or perf_counter() - began > LIMIT:
                    raise RuntimeError(
                        f"its shell command does not run: {sorted(names.values())}"
                    )
                await asyncio.sleep(0.01)
                names = descendants(agent.process.pid)
            tree = {agent.process.pid, *names}
            asked = end(agent)
            while (left := living(tree)) and perf_counter() - asked < LIMIT:  # noqa: ASYNC110 - there is no event
                await asyncio.sleep(0.001)
            took = (perf_counter() - asked) * 1000
            if left:
                raise RuntimeError(
                    f"{len(left)} of {len(tree)} processes are still there {LIMIT:.0f} s later"
                )
            if program is OURS:
                await agent.exited()
            return took
        finally:
            turn.cancel()
            await asyncio.gather(turn, return_exceptions=True)
            for pid in living(tree):
                os.kill(pid, signal.SIGKILL)
