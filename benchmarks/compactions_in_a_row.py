"""Whether ten compactions in a row keep what one keeps: `python -m
benchmarks.compactions_in_a_row FOLDER`.

Each transcript is cut where a measurement cuts it last. The messages before the cut are
compacted once, and in ten stretches, each with what the compaction before left; the
last of the ten has the size of the one. No model is asked.
"""

from __future__ import annotations

import argparse
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path

import anyio

from acp_agent.compaction import (
    CompactedState,
    CompactionPolicy,
    CompactionService,
    ConversationState,
)
from acp_agent.compaction.cuts import legal_cuts
from acp_agent.compaction.estimate import estimate_message
from acp_agent.compaction.evaluation.needs import Remains, needs_at, read_messages
from acp_agent.compaction.evaluation.recordings import (
    Recording,
    points,
    read_recording,
    state_at,
)
from acp_agent.errors import CompactionError
from acp_agent.llm.provider import ModelEvent, ModelRequest

STRETCHES = 10
MOST_LOST = 0.05


async def no_model(_: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
    """Refuse to answer: excerpts ask no model."""
    raise CompactionError("No model may be asked.")
    yield  # the type of a stream


def stretch_ends(recording: Recording, cut: int) -> list[int]:
    """Return the legal places nearest to the tenths of the tokens before a cut; the
    last is the cut.
    """
    sizes = [estimate_message(message) for message in recording.messages[:cut]]
    places = [
        place for place in legal_cuts(recording.entries, None) if 0 < place <= cut
    ]

    def distance(place: int, number: int) -> float:
        return abs(sum(sizes[:place]) - sum(sizes) * number / STRETCHES)

    ends = [
        min(places, key=lambda place: distance(place, number))
        for number in range(1, STRETCHES)
    ]
    return [*dict.fromkeys(end for end in ends if end < cut), cut]


async def compacted(
    recording: Recording, ends: Sequence[int], share: float, window: int
) -> tuple[int, ConversationState, CompactedState | None]:
    """Compact at each of these places; return how often that came to a result, and the
    last state and result.
    """
    service = CompactionService()
    state = state_at(recording, ends[0], window)
    result = None
    done = 0
    at = 0
    for end in ends:
        since = recording.messages[at:end]
        now = (
            result.next_state(state, since)
            if result
            else state_at(recording, end, window)
        )
        said = sum(estimate_message(message) for message in recording.messages[:end])
        try:
            latest = await service(
                now,
                CompactionPolicy("", strategy="excerpts", size=int(said * share)),
                no_model,
            )
        except CompactionError:
            continue
        if latest is not None:
            state = now
            result = latest
            at = end
            done = done + 1
    return done, state, result


def share(kept: Sequence[bool]) -> float:
    """Return the share that was kept."""
    return sum(kept) / max(1, len(kept))


async def main() -> int:
    """Print both figures for each transcript; return 1 where ten compactions lose more
    than five points.
    """
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compactions_in_a_row")
    parser.add_argument("folder", type=Path)
    parser.add_argument(
        "--size",
        type=float,
        default=0.2,
        metavar="SHARE",
        help="of the tokens said; 0.2",
    )
    arguments = parser.parse_args()
    once = list[bool]()
    often = list[bool]()
    print(
        f"{'transcript':<46} compactions  tokens once  tokens ten  need once  need ten"
    )
    for path in sorted(arguments.folder.glob("*.json")):
        recording = read_recording(path)
        cut = points(recording)[-1]
        needs = [
            each
            for each in needs_at(read_messages(recording), cut)
            if each.kind not in ("rules", "words")
        ]
        window = state_at(recording, cut).budget.window
        _, _, single = await compacted(recording, [cut], arguments.size, window)
        done, _, last = await compacted(
            recording, stretch_ends(recording, cut), arguments.size, window
        )
        if single is None or last is None:
            raise SystemExit(f"{path}: nothing could be compacted.")
        one, ten = (
            [each.kept(Remains(result.messages)) for each in needs]
            for result in (single, last)
        )
        once = once + one
        often = often + ten
        sizes = f"{single.tokens_after:>11,}  {last.tokens_after:>10,}"
        print(
            f"{path.name:<46} {done:>11}  {sizes}  {share(one):>9.1%}  {share(ten):>8.1%}"
        )
    lost = share(once) - share(often)
    print(
        f"all: once {share(once):.1%}, ten in a row {share(often):.1%}, lost {100 * lost:.1f} points"
    )
    return int(lost > MOST_LOST)


if __name__ == "__main__":
    raise SystemExit(anyio.run(main))
