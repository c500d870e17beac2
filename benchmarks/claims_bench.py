"""`python -m benchmarks.claims_bench FOLDER`: how much of what was invented a check of
summaries finds, and how much of what is true it marks. The corpus is
`benchmarks/claims/`; FOLDER holds the recorded sessions that it names.

Only `unverified` knows the check.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from acp_agent.compaction.evaluation.recordings import read_recording
from acp_agent.compaction.evidence import Evidence
from acp_agent.compaction.state import ConversationState
from acp_agent.compaction.verify import index_of
from acp_agent.compaction.verify import unverified as check
from acp_agent.conversation.context import Entry

CORPUS = Path(__file__).parent / "claims"


_LAST: list[tuple[Sequence[Entry], Evidence]] = []
"""The conversation that was asked about last, and its index, which takes longer to make
than all that is looked up.
"""


def unverified(entries: Sequence[Entry], text: str) -> list[str]:
    """The adapter: the pieces of a summary that the check does not find in the
    conversation, as they stand in it.
    """
    if not _LAST or _LAST[0][0] is not entries:
        state = ConversationState.of(
            (entry.message for entry in entries), window=1_000_000
        )
        _LAST[:] = [(entries, index_of(state))]
    return [piece.text for piece in check(text, _LAST[0][1])]


@dataclass(frozen=True, slots=True)
class Checked:
    """One sentence and what the check said of it.

    :ivar group: true, hard (with an invented name, path, number, address or quotation)
        or soft.
    :ivar hit: a true one: anything in it is marked; a hard one: the invented span is; a
        soft one: anything is.
    :ivar beside: a hard one: something is marked outside of the invented span.
    """

    group: str
    kind: str
    text: str
    marked: tuple[str, ...]
    hit: bool
    beside: bool = False


def checked(case: dict[str, Any], entries: Sequence[Entry]) -> Iterator[Checked]:
    """Every sentence of a file, each checked as a summary of its own."""
    for one in case["true_sentences"]:
        marked = tuple(unverified(entries, _bullet(one["text"])))
        yield Checked("true", one["kind"], one["text"], marked, bool(marked))
    for one in case["inventions"]:
        text = one["text"]
        span = one["invented"]
        marked = tuple(unverified(entries, _bullet(text)))
        if one["found_by_name"]:
            touching = [_overlaps(piece, span, text) for piece in marked]
            yield Checked(
                "hard", one["kind"], text, marked, any(touching), not all(touching)
            )
        else:
            yield Checked("soft", one["kind"], text, marked, bool(marked))


def _bullet(sentence: str) -> str:
    return f"## Summary\n\n- {sentence}\n"


def _overlaps(piece: str, span: str, text: str) -> bool:
    """Whether some place where the piece stands meets the span."""
    start = text.index(span)
    at = text.find(piece)
    while at >= 0:
        if at < start + len(span) and start < at + len(piece):
            return True
        at = text.find(piece, at + 1)
    return False


def entries_of(folder: Path, name: str, cut: int) -> tuple[Entry, ...]:
    """The first messages of a recorded session."""
    whole = json.loads((folder / name).read_text(encoding="utf-8"))
    with TemporaryDirectory() as made:
        part = Path(made) / name
        part.write_text(
            json.dumps({**whole, "messages": whole["messages"][:cut]}), encoding="utf-8"
        )
        return read_recording(part).entries


def report(results: Iterable[Checked], in_summaries: Sequence[str]) -> str:
    """The table."""
    all_of = Counter[str]()
    hit = Counter[str]()
    kinds = Counter[tuple[str, str]]()
    hit_kinds = Counter[tuple[str, str]]()
    beside = 0
    for one in results:
        all_of[one.group] += 1
        kinds[one.group, one.kind] += 1
        hit[one.group] += one.hit
        hit_kinds[one.group, one.kind] += one.hit
        beside += one.beside
    found = hit["hard"] + hit["soft"]
    false = hit["true"]
    lines = [
        _line("precision", found, found + false),
        _line("precision, hard kinds only", hit["hard"], hit["hard"] + false),
        _line("recall", found, all_of["hard"] + all_of["soft"]),
        _line("recall, hard kinds", hit["hard"], all_of["hard"]),
        _line("recall, soft kinds", hit["soft"], all_of["soft"]),
        _line("true sentences marked", false, all_of["true"]),
        f"| pieces marked in the summaries, all of which are true | {len(in_summaries)} | |",
        f"| hard inventions with a mark beside the invented span | {beside} | |",
    ]
    lines += [
        _line(f"{group}: {kind}", hit_kinds[group, kind], kinds[group, kind])
        for group, kind in sorted(kinds)
    ]
    return "\n".join(["| measure | of | |", "| --- | --- | --- |", *lines])


def _line(name: str, part: int, whole: int) -> str:
    return f"| {name} | {part} of {whole} | {part / whole if whole else 0:.3f} |"


def main() -> None:
    """Check the corpus and print the table."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.claims_bench", description=main.__doc__
    )
    parser.add_argument("sessions", type=Path, help="folder with the recorded sessions")
    parser.add_argument(
        "--list",
        action="store_true",
        help="list what is marked wrongly and what is not found",
    )
    parser.add_argument(
        "--files", default="*.json", help="files of the corpus, as in `other_*.json`"
    )
    options = parser.parse_args()
    results: list[Checked] = []
    in_summaries: list[str] = []
    for path in sorted(CORPUS.glob(options.files)):
        case = json.loads(path.read_text(encoding="utf-8"))
        if not (options.sessions / case["transcript"]).exists():
            print(
                f"{case['transcript']} is not in {options.sessions}; its sentences are left out."
            )
            continue
        entries = entries_of(options.sessions, case["transcript"], case["cut"])
        in_summaries += unverified(entries, case["summary"])
        results += checked(case, entries)
    print(report(results, in_summaries))
    if not options.list:
        return
    print(f"in the summaries: {in_summaries}")
    for one in results:
        if one.hit == (one.group == "true"):
            print(f"{one.group} {one.kind}: {one.text}  <- {list(one.marked)}")


if __name__ == "__main__":
    main()
