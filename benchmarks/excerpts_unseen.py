"""What stays of recorded sessions when the whole new context takes a share of the
conversation, by agent and method.

    python -m benchmarks.excerpts_unseen SESSION... [--size SHARE] [--method NAME]
    [--running]

Measure A of `excerpts_measure`: names, paths and numbers that the agent itself writes
after the cut and could only know from before it (`need`), with three words on either
side (`ctx`), and rare plain words (`words`). The agent of a session is its file's name
up to the first hyphen. Unless `--running` is given, no turn is running, so that nothing
is exempt from the size, and all messages are the conversation's.
"""

from __future__ import annotations

import argparse
import ast
from collections import defaultdict
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from unittest.mock import patch

from acp_agent.compaction.evaluation.recordings import read_recording
from acp_agent.conversation.messages import Entry
from benchmarks.baselines import CHOOSERS
from benchmarks.excerpts_measure import Case, cases
from benchmarks.kept import COLUMNS, OURS, Tally, by_excerpts, cell, tally

SIZES = (0.1, 0.2, 0.4)


def context_of(case: Case, method: str, size: float) -> str:
    """Return all that the model reads after a compaction, as one text."""
    tokens = int(case.state.budget.messages * size)
    if method == OURS:
        return by_excerpts(case, tokens)
    entries: Sequence[Entry] = case.state.entries
    return CHOOSERS[method](entries, tokens)


def measured(
    found: dict[str, list[Case]], method: str, size: float
) -> dict[str, Tally]:
    """Return what is kept and needed, by agent."""
    counted: dict[str, Tally] = defaultdict(Tally)
    for agent, group in found.items():
        for case in group:
            counted[agent] += tally(case, context_of(case, method, size))
    return counted


def main() -> None:
    """Measure what the command line says."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sessions", nargs="+", type=Path)
    parser.add_argument(
        "--size",
        type=float,
        action="append",
        default=[],
        help="share of the conversation",
    )
    parser.add_argument(
        "--method", action="append", default=[], choices=[OURS, *CHOOSERS]
    )
    parser.add_argument(
        "--running",
        action="store_true",
        help="the turn that each cut interrupts is running",
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        help="a constant, as in layers.TAIL_SHARE=0",
    )
    parser.add_argument(
        "--total", action="store_true", help="leave out the rows of single agents"
    )
    arguments = parser.parse_args()
    found: dict[str, list[Case]] = defaultdict(list)
    for path in arguments.sessions:
        found[path.stem.split("-")[0]] += cases(
            read_recording(path), idle=not arguments.running
        )
    said = {
        name: ast.literal_eval(value)
        for name, value in (each.split("=", 1) for each in arguments.set)
    }
    sizes = arguments.size or SIZES
    print(
        "| method | agent |"
        + "".join(f" {size:.0%} {'/'.join(COLUMNS)} |" for size in sizes)
    )
    print("| --- " * (len(sizes) + 2) + "|")
    for method in arguments.method or [OURS, *CHOOSERS]:
        with ExitStack() as stack:
            for constant, value in said.items():
                stack.enter_context(patch(f"acp_agent.compaction.{constant}", value))
            results = [measured(found, method, size) for size in sizes]
        agents = [] if arguments.total else list(found)
        for agent in ["all", *agents]:
            groups = [
                result.values() if agent == "all" else [result[agent]]
                for result in results
            ]
            cells = (cell(sum(group, Tally())) for group in groups)
            print(f"| {method} | {agent} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
