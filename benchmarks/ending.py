"""How long the end takes: in mid-turn with a shell command, and what is left of that; at some moments of the first
prompt, while modules are being loaded; and in mid-answer with an editor that reads no further."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from benchmarks.agent import Agent, start_agent
from benchmarks.bench import Bench
from benchmarks.model_server import JsonObject, Reply
from benchmarks.processes import descendants, living
from benchmarks.table import Figure

FLOOD = ("word " * 200,) * 2_000
"""Deltas that fill the pipe to an editor many times over."""
MOMENTS = (0.0, 0.02, 0.05, 0.1, 0.15, 0.2)
"""Seconds behind the first prompt, which stands right behind `session/new`."""
COMMAND = "sleep 297 & sleep 298; wait"


async def ending(bench: Bench) -> list[Figure]:
    """Standard input closed, and SIGTERM; both must end the process with status 0."""
    eof, eof_left = await _end(bench, lambda agent: agent.close_stdin())
    term, term_left = await _end(bench, lambda agent: agent.terminate())
    return [
        Figure("exit on EOF in mid-turn, shell running", "ms", eof, 20, "17 pi-acp"),
        Figure("  processes left behind", "", eof_left, 0),
        Figure("exit on SIGTERM in mid-turn, shell running", "ms", term, 20, "16 pi-acp"),
        Figure("  processes left behind", "", term_left, 0, "pi-acp 0, codex-acp 2"),
        Figure("exit on EOF 0 to 0.2 s behind the first prompt", "ms", await _end_behind_prompt(bench), 100),
        Figure("exit on EOF in mid-turn, output not read", "ms", await _end_unread(bench), 100),
    ]


async def _end_behind_prompt(bench: Bench) -> list[float]:
    waits: list[float] = []
    bench.model.reply = lambda _: Reply(("Now I wait.",), hangs=True)
    for _ in range(bench.fewer):
        for moment in MOMENTS:
            async with bench.home() as home, start_agent(home.path, bench.model.env) as agent:
                await agent.initialize()
                session_id, _ = await agent.new_session(home.project)
                turn = asyncio.ensure_future(agent.prompt(session_id, "Wait."))
                await asyncio.sleep(moment)
                asked = agent.close_stdin()
                waits.append((await agent.exited() - asked) * 1000)
                turn.cancel()
                await asyncio.gather(turn, return_exceptions=True)
    return waits


async def _end_unread(bench: Bench) -> list[float]:
    waits: list[float] = []
    bench.model.reply = lambda _: Reply(FLOOD, hangs=True)
    for _ in range(bench.fewer):
        async with bench.home() as home, start_agent(home.path, bench.model.env) as agent:
            await agent.initialize()
            session_id, _ = await agent.new_session(home.project)
            answering = asyncio.ensure_future(agent.until(_says))
            turn = asyncio.ensure_future(agent.prompt(session_id, "Go on and on."))
            await answering
            agent.ignore_output()
            held = -1
            while held != agent.unread() or not held:
                held = agent.unread()
                await asyncio.sleep(0.2)
            asked = agent.close_stdin()
            waits.append((await agent.exited() - asked) * 1000)
            turn.cancel()
            await asyncio.gather(turn, return_exceptions=True)
    return waits


async def _end(bench: Bench, end: Callable[[Agent], float]) -> tuple[list[float], list[float]]:
    waits: list[float] = []
    left: list[float] = []
    bench.model.reply = lambda _: Reply(("Now I wait.",), [("shell", {"command": COMMAND})])
    for _ in range(bench.fewer):
        async with bench.home() as home, start_agent(home.path, bench.model.env) as agent:
            await agent.initialize()
            session_id, _ = await agent.new_session(home.project)
            await agent.request("session/set_mode", {"sessionId": session_id, "modeId": "full-access"})
            running = asyncio.ensure_future(agent.until(_runs))
            turn = asyncio.ensure_future(agent.prompt(session_id, "Wait."))
            await running
            children: set[int] = set()
            while len(children) < COMMAND.count("sleep"):
                await asyncio.sleep(0.01)
                children = descendants(agent.process.pid)
            asked = end(agent)
            waits.append((await agent.exited() - asked) * 1000)
            left.append(len(living(children)))
            turn.cancel()
            await asyncio.gather(turn, return_exceptions=True)
    return waits, left


def _says(update: JsonObject) -> bool:
    return update["sessionUpdate"] == "agent_message_chunk"


def _runs(update: JsonObject) -> bool:
    return update["sessionUpdate"] == "tool_call_update" and update.get("status") == "in_progress"
