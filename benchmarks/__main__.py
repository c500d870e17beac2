"""`python -m benchmarks`: run the measures and print one table.

Asserts nothing of time. Exits with 1 only where something failed to work.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import platform
import sys
from collections.abc import Awaitable, Callable

from benchmarks.bench import Bench
from benchmarks.ending import ending
from benchmarks.history import load
from benchmarks.large import large
from benchmarks.listing import listing
from benchmarks.model_server import model_server
from benchmarks.opening import burst, first_prompt, opening
from benchmarks.room import context, turnover, waiting
from benchmarks.table import Failure, Figure, Outcome, render
from benchmarks.turns import cancel, compaction, deltas, hello, history

MEASURES: tuple[Callable[[Bench], Awaitable[list[Figure]]], ...] = (
    opening,
    first_prompt,
    burst,
    hello,
    history,
    deltas,
    cancel,
    compaction,
    waiting,
    context,
    turnover,
    load,
    listing,
    large,
    ending,
)


async def run(names: list[str], runs: int) -> int:
    """Run the measures with these names, or all.

    :returns: the exit status.
    """
    outcomes: list[Outcome] = []
    busy = os.getloadavg()[0]
    async with model_server() as model:
        bench = Bench(model, runs)
        # The first start of all compiles the modules, which is no part of any later one.
        await opening(Bench(model, 1))
        for measure in MEASURES:
            if names and measure.__name__ not in names:
                continue
            print(f"{measure.__name__} ...", file=sys.stderr, flush=True)
            try:
                outcomes += await measure(bench)
            except Exception as error:
                outcomes.append(Failure(measure.__name__, f"{type(error).__name__}: {error}"))
    machine = f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, load {busy:.1f} at the start"
    print(f"\nPython {platform.python_version()}, {machine}\n")
    print(render(outcomes))
    return int(any(isinstance(outcome, Failure) for outcome in outcomes))


def main() -> int:
    """Read the arguments and run."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    known = [measure.__name__ for measure in MEASURES]
    parser.add_argument("measures", nargs="*", metavar="MEASURE", help=f"all, or some of: {', '.join(known)}")
    parser.add_argument("--runs", type=int, default=15, help="runs of the quick measures; a third of it of the others")
    arguments = parser.parse_args()
    unknown = set(arguments.measures) - set(known)
    if unknown or arguments.runs < 1:
        parser.error(f"unknown measure {', '.join(unknown)}" if unknown else "--runs is 1 or more")
    return asyncio.run(run(arguments.measures, arguments.runs))


if __name__ == "__main__":
    sys.exit(main())
