"""The list of sessions where there are many."""

from __future__ import annotations

import subprocess
import sys
from time import perf_counter

from benchmarks.agent import CHECKOUT, Agent, start_agent
from benchmarks.bench import Bench, Home
from benchmarks.model_server import JsonObject
from benchmarks.table import Figure

SESSIONS = 10_000
DIRECTORIES = 100
"""In turn, so that the sessions of one lie among those of all others."""


async def listing(bench: Bench) -> list[Figure]:
    """`session/list` with ten thousand sessions: a page, and all of one directory."""
    first = list[float]()
    one = list[float]()
    async with bench.home() as home:
        _make_many(home)
        async with start_agent(home.path, bench.model.env) as agent:
            await agent.initialize()
            await _pages(agent, {})  # the first one loads the agent
            for _ in range(bench.fewer):
                first.append((await agent.request("session/list", {})).ms)
                one.append(
                    await _pages(
                        agent, {"cwd": "/home/ada/project7"}, SESSIONS // DIRECTORIES
                    )
                )
    return [
        Figure(f"session/list of {SESSIONS:,}: a page", "ms", first, 10),
        Figure(f"  all of one directory among {DIRECTORIES}", "ms", one, 10),
    ]


async def _pages(
    agent: Agent, params: JsonObject, expected: int | None = None
) -> float:
    began = perf_counter()
    cursor = None
    ids = set[object]()
    while True:
        asked: JsonObject = params if cursor is None else {**params, "cursor": cursor}
        page = (await agent.request("session/list", asked)).result
        ids |= {row["sessionId"] for row in page["sessions"]}
        cursor = page.get("nextCursor")
        if cursor is None:
            break
    if expected not in (None, len(ids)):
        raise RuntimeError(f"{len(ids)} sessions were listed, not {expected}")
    return (perf_counter() - began) * 1000


def _make_many(home: Home) -> None:
    words = (
        sys.executable,
        "-m",
        "benchmarks.many",
        str(home.path / "state" / "sessions.db"),
        str(SESSIONS),
    )
    subprocess.run((*words, str(DIRECTORIES)), cwd=CHECKOUT, check=True)
