"""`python -m benchmarks`: run the measures and print one table.

Asserts nothing of time. Exits with 1 only where something failed to work.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import platform
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeAlias

from benchmarks.bench import Bench
from benchmarks.ending import ending, eof, sigterm
from benchmarks.history import load
from benchmarks.large import large
from benchmarks.listing import listing
from benchmarks.model_server import model_server
from benchmarks.opening import burst, opening, waits
from benchmarks.peers import OURS, PEERS, Program
from benchmarks.room import context, turnover, waiting
from benchmarks.table import Failure, Figure, Outcome, render
from benchmarks.turns import compaction, history, turns

Beside: TypeAlias = Callable[[Bench, Program], AsyncGenerator[Figure]]
BESIDE: list[Beside] = [opening, turns, eof, sigterm]
Alone: TypeAlias = Callable[[Bench], Awaitable[list[Figure]]]
ALONE: list[Alone] = [
    waits,
    burst,
    history,
    compaction,
    waiting,
    context,
    turnover,
    load,
    listing,
    large,
    ending,
]
NAMES = [measure.__name__ for measure in (*BESIDE, *ALONE)]


async def beside(
    bench: Bench, measure: Beside, peers: Sequence[Program]
) -> list[Outcome]:
    """Measure all agents in turn, several times; one that fails is measured no further.

    :raises Exception: ours failed.
    """
    figures: dict[str, Figure] = {}
    failures: dict[str, Failure] = {}
    for _ in range(max(1, bench.runs // 5)):
        for program in (OURS, *peers):
            if program.name in failures:
                continue
            try:
                async for seen in measure(bench, program):
                    figure = figures.setdefault(seen.name, replace(seen, values=[]))
                    values = (
                        figure.values
                        if program is OURS
                        else figure.peers.setdefault(program.name, [])
                    )
                    values += seen.values
            except Exception as error:
                if program is OURS:
                    raise
                failures[program.name] = Failure(
                    measure.__name__, repr(error), program.name
                )
    return [*figures.values(), *failures.values()]


async def run(names: list[str], runs: int, peers: Sequence[Program]) -> int:
    """Run the measures with these names, or all.

    :returns: the exit status.
    """
    outcomes: list[Outcome] = []
    busy = os.getloadavg()[0]
    async with model_server() as model:
        bench = Bench(model, runs)
        gc.disable()  # else it would be measured as waiting for an agent
        # The first start of all compiles the modules, which is no part of any later
        # one.
        await beside(Bench(model, 1), opening, peers)
        measures = {
            measure.__name__: partial(beside, bench, measure, peers)
            for measure in BESIDE
        }
        for name, measure in (
            measures | {measure.__name__: partial(measure, bench) for measure in ALONE}
        ).items():
            if names and name not in names:
                continue
            print(f"{name} ...", file=sys.stderr, flush=True)
            model.exchanges.clear()
            try:
                outcomes += await measure()
            except Exception as error:
                outcomes.append(Failure(name, repr(error)))
    machine = f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, load {busy:.1f} at the start"
    print(f"\nPython {platform.python_version()}, {machine}")
    print("".join(f"{peer.name}: {peer.version}\n" for peer in peers))
    print(render(outcomes, [peer.name for peer in peers]))
    return int(
        any(isinstance(outcome, Failure) and not outcome.peer for outcome in outcomes)
    )


def main() -> int:
    """Read the arguments and run."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "measures",
        nargs="*",
        metavar="MEASURE",
        help=f"all, or some of: {', '.join(NAMES)}",
    )
    parser.add_argument(
        "--runs",
        type=int,
        default=15,
        help="of the quick measures; of others a third to a sixth",
    )
    parser.add_argument(
        "--alone", action="store_true", help="leave the other agents out"
    )
    arguments = parser.parse_args()
    unknown = set(arguments.measures) - set(NAMES)
    if unknown or arguments.runs < 1:
        parser.error(
            f"unknown measure {', '.join(unknown)}"
            if unknown
            else "--runs is 1 or more"
        )
    peers = [peer for peer in PEERS if peer.installed and not arguments.alone]
    if not arguments.alone and (
        missing := [peer.name for peer in PEERS if not peer.installed]
    ):
        print(
            f"measured without {', '.join(missing)}, which npm has not installed",
            file=sys.stderr,
        )
    return asyncio.run(run(arguments.measures, arguments.runs, peers))


if __name__ == "__main__":
    sys.exit(main())
