"""What stays of recorded sessions when a summary stands beside the excerpts.

    python -m benchmarks.beside_summary FOLDER... [--size SHARE]

A folder holds recorded sessions, `NAME.json`, as `acp-agent compact-eval` reads them.
Beside each is a summary, `NAME.MESSAGES.md`, which was written from that many of its
first messages. The measure is that of `excerpts_unseen`: names, paths and numbers that
the agent writes later and could only know from these messages (`need`), with three
words on either side (`ctx`), and rare plain words (`words`). No turn is running. The
whole new context, with the summary, takes a share of the conversation.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from acp_agent.compaction.estimate import estimate_text
from acp_agent.compaction.evaluation.recordings import read_recording, state_at
from acp_agent.compaction.layers import fill, planned_cut
from benchmarks.baselines import CHOOSERS
from benchmarks.excerpts_measure import Case, written
from benchmarks.kept import COLUMNS, Tally, by_excerpts, cell, joined, tally

SIZES = (0.25,)


@dataclass(frozen=True, slots=True)
class Summarised:
    """A recorded session at the place for which its summary was written."""

    name: str
    case: Case
    summary: str

    def room(self, size: float) -> int:
        """Return the tokens of a share of the conversation."""
        return int(self.case.state.budget.messages * size)

    @property
    def share(self) -> float:
        """Return the share of the conversation's tokens that the summary takes."""
        return estimate_text(self.summary) / self.case.state.budget.messages


def read(folder: Path) -> Iterator[Summarised]:
    """Yield the sessions of a folder that have a summary."""
    for path in sorted(folder.glob("*.md")):
        name, _, count = path.stem.rpartition(".")
        recorded = folder / f"{name}.json"
        recording = read_recording(recorded)
        cut = _entries_of(recorded, int(count))
        state = replace(state_at(recording, cut), turn_from=None)
        case = Case(state, (), *written(recording, cut, None))
        yield Summarised(name, case, path.read_text("utf-8"))


def _entries_of(recorded: Path, messages: int) -> int:
    """Return the number of entries that the first messages of a recorded session
    become.
    """
    whole = json.loads(recorded.read_text("utf-8"))
    with TemporaryDirectory() as folder:
        part = Path(folder) / recorded.name
        part.write_text(
            json.dumps({**whole, "messages": whole["messages"][:messages]}), "utf-8"
        )
        return len(read_recording(part).entries)


def beside(session: Summarised, size: float) -> str:
    """Return the new context with the summary, and excerpts for what is left of the
    size.
    """
    state = session.case.state
    tokens = session.room(size)
    cut = planned_cut(state, tokens, leave_tail=False)
    assert cut is not None
    layers = fill(state, cut, tokens, summary=session.summary)
    kept = joined(entry.message for entry in cut.retained)
    return "\n".join([*(getattr(part, "text", "") for part in layers.parts), kept])


def without(session: Summarised, size: float) -> str:
    """Return the new context of the same size without a summary."""
    return by_excerpts(session.case, session.room(size))


METHODS: Mapping[str, Callable[[Summarised, float], str]] = {
    "summary alone": lambda session, _: session.summary,
    "summary, and the newest lines": lambda session, size: (
        session.summary
        + CHOOSERS["newest"](
            session.case.state.entries,
            max(0, session.room(size) - estimate_text(session.summary)),
        )
    ),
    "excerpts alone": without,
    "summary and excerpts": beside,
}


def measured(sessions: Sequence[Summarised], method: str, size: float) -> Tally:
    """Return what is kept and needed of all sessions."""
    found = Tally()
    for session in sessions:
        found += tally(session.case, METHODS[method](session, size))
    return found


def main() -> None:
    """Measure what the command line says."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument(
        "--size",
        type=float,
        action="append",
        default=[],
        help="share of the conversation",
    )
    parser.add_argument(
        "--each", action="store_true", help="one row for each session, too"
    )
    options = parser.parse_args()
    sessions = [session for folder in options.folders for session in read(folder)]
    print(
        "| session | tokens before the cut | share of the summary | facts |\n| --- | --- | --- | --- |"
    )
    for session in sessions:
        before = session.case.state.budget.messages
        print(
            f"| {session.name} | {before:,} | {session.share:.3f} | {len(session.case.facts)} |"
        )
    print(f"\n| size | method | {'/'.join(COLUMNS)} |\n| --- | --- | --- |")
    groups = {"": sessions} | (
        {session.name: [session] for session in sessions} if options.each else {}
    )
    for size in options.size or SIZES:
        for name, group in groups.items():
            for method in METHODS:
                kept = cell(measured(group, method, size))
                print(f"| {size:.0%} | {name} {method} | {kept} |")


if __name__ == "__main__":
    main()
