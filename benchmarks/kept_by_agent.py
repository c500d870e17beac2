"""The tables of `docs/compact-eval.md`: what stays of sessions of other agents, by
agent and method.

    python -m benchmarks.kept_by_agent FOLDER... [--running] [--jobs NUMBER]

A folder holds recorded sessions that `acp-agent compact-eval` reads, named
AGENT-NUMBER.json. The measure is that of `excerpts_unseen`. Idle: no turn is running,
so that the whole new context takes a share of the conversation. Running: the last
prompt before each cut is being worked on; the prompt and its newest steps stay in
addition to the size, for every method. Cuts between two turns are left out then.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

from acp_agent.compaction.estimate import estimate_messages
from acp_agent.compaction.evaluation.recordings import read_recording
from acp_agent.compaction.layers import unanswered
from benchmarks.baselines import ORDERS, lines_of, within
from benchmarks.excerpts_measure import Case, cases
from benchmarks.kept import COLUMNS, OURS, Tally, by_excerpts, cell, joined, tally

METHODS = ("newest", "textrank", "sketch", OURS)
SIZES = (0.1, 0.2, 0.4)
Counts = dict[tuple[str, float], Tally]
"""By method and size."""


def cases_of(path: Path, *, running: bool) -> Iterator[Case]:
    """Yield a session at its cuts, those between two turns only if no turn is to be
    running.
    """
    for case in cases(read_recording(path), idle=not running):
        if not running or case.state.turn_from is not None:
            yield case


def contexts(case: Case, method: str) -> Iterator[tuple[float, str]]:
    """Yield each size and all that the model reads after a compaction to it, as one
    text.
    """
    tokens = {size: int(case.state.budget.messages * size) for size in SIZES}
    if method == OURS:
        for size in SIZES:
            yield size, by_excerpts(case, tokens[size])
        return
    exempt = unanswered(case.state)
    seqs = {entry.seq for entry in exempt}
    stays = joined(entry.message for entry in exempt)
    lines = lines_of(entry for entry in case.state.entries if entry.seq not in seqs)
    order = list(ORDERS[method](lines))
    for size in SIZES:
        yield size, "\n".join([within(lines, order, tokens[size]), stays])


def counted(
    path: Path, *, running: bool, methods: Sequence[str]
) -> tuple[Path, int, int, Counts]:
    """Return a session with its tokens, the number of its cuts, and what is kept and
    needed of it.
    """
    counts: Counts = defaultdict(Tally)
    cuts = 0
    for case in cases_of(path, running=running):
        cuts += 1
        for method in methods:
            for size, context in contexts(case, method):
                counts[method, size] += tally(case, context)
    return path, estimate_messages(read_recording(path).messages), cuts, counts


def rows(
    results: Sequence[tuple[Path, int, int, Counts]], methods: Iterable[str]
) -> Iterator[str]:
    """Yield the lines of the table: each agent's sessions, then all."""
    groups: dict[str, list[tuple[Path, int, int, Counts]]] = {}
    for result in results:
        groups.setdefault(result[0].stem.split("-")[0], []).append(result)
    columns = "/".join(COLUMNS)
    yield f"| sessions | method | {' | '.join(f'{size:.0%} {columns}' for size in SIZES)} |"
    yield "| --- " * (len(SIZES) + 2) + "|"
    for agent, group in [*sorted(groups.items()), ("all", list(results))]:
        cuts = sum(cuts for _, _, cuts, _ in group)
        if not cuts:
            continue
        tokens = [tokens for _, tokens, cuts, _ in group if cuts]
        label = f"{agent}: {len(tokens)} of {min(tokens):,} to {max(tokens):,} tokens, {cuts} cuts"
        for method in methods:
            totals = (
                sum((counts[method, size] for *_, counts in group), Tally())
                for size in SIZES
            )
            yield f"| {label} | {method} | {' | '.join(map(cell, totals))} |"
            label = ""


def main() -> None:
    """Measure what the command line says."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument(
        "--running",
        action="store_true",
        help="measure running turns in place of idle sessions",
    )
    parser.add_argument("--method", action="append", default=[], choices=METHODS)
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    arguments = parser.parse_args()
    methods = arguments.method or METHODS
    paths = sorted(
        path for folder in arguments.folders for path in folder.glob("*.json")
    )
    work = partial(counted, running=arguments.running, methods=methods)
    with ProcessPoolExecutor(arguments.jobs) as pool:
        results = list(pool.map(work, paths))
    print("\n".join(rows(results, methods)))


if __name__ == "__main__":
    main()
