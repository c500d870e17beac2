"""Automatic compactions at windows from 8k to 1M tokens: `python -m
benchmarks.small_windows FOLDER`.

Walks through recorded sessions request by request, and counts what becomes of each
attempt to compact without a model. One that comes to nothing is a fault. `no attempt`:
hardly anything could leave; `still full`: the fixed parts fill the rest.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import NamedTemporaryFile

import anyio

from acp_agent.compaction import (
    CompactedState,
    CompactionPolicy,
    CompactionService,
    ConversationState,
)
from acp_agent.compaction.assembly import LEAST_GAIN
from acp_agent.compaction.budget import NEW_INPUT
from acp_agent.compaction.estimate import estimate_messages
from acp_agent.compaction.evaluation.recordings import Recording, read_recording
from acp_agent.compaction.layers import size_of, unanswered
from acp_agent.conversation.messages import AssistantMessage, ToolResult, UserMessage
from acp_agent.errors import AgentError, NoRoomError
from benchmarks.compactions_in_a_row import no_model

WINDOWS = (8_000, 16_000, 32_000, 200_000, 1_000_000)
LARGE = 200_000  # from here on, no session of its own fills the window
THRESHOLD = 0.8
COLUMNS = (
    "requests",
    "no attempt",
    "attempts",
    "must fit",
    "mask",
    "excerpts",
    "no room",
    "fault",
    "still full",
)


def requests(recording: Recording) -> Iterator[tuple[int, int]]:
    """Yield for each request how many messages it has, and the number of the prompt of
    its turn.
    """
    prompt = 1
    messages = recording.messages
    for count, entry in enumerate(recording.entries, 1):
        if isinstance(entry.message, UserMessage):
            prompt = entry.seq
        more = count < len(messages) and not isinstance(
            messages[count], AssistantMessage
        )
        if isinstance(entry.message, UserMessage | ToolResult) and not more:
            yield count, prompt


async def walk(recording: Recording, window: int, faults: list[str]) -> Counter[str]:
    """Return what happened in one session with one window. A request that cannot be
    made to fit ends it.
    """
    service = CompactionService()
    found = Counter[str]()
    last: tuple[ConversationState, CompactedState] | None = None
    again = 0.0
    at = 0
    for count, prompt in requests(recording):
        found["requests"] += 1
        since = recording.messages[at:count]
        system = recording.system
        cwd = recording.cwd
        first = ConversationState.of(since, window=window, system=system, cwd=cwd)
        state = replace(
            last[1].next_state(last[0], since) if last else first, turn_from=prompt
        )
        budget = state.budget
        full = budget.used > budget.limit
        if not full and (
            not budget.exceeded(budget.used, THRESHOLD) or budget.used < again
        ):
            continue
        policy = CompactionPolicy(
            "", manual=False, must_fit=full, steps=("mask", "excerpts")
        )
        why = "no step had anything to do"
        try:
            result = await service(state, policy, no_model)
        except AgentError as error:
            result = None
            why = f"{type(error).__name__}: {error}"
            found["no room"] += isinstance(error, NoRoomError)
        else:
            if (
                result is None
                and not full
                and _may_leave(state, policy) < window * LEAST_GAIN
            ):
                # Nothing is shown, and nothing is tried again before more has come in.
                found["no attempt"] += 1
                again = budget.used + budget.usable * NEW_INPUT
                continue
        found.update({"attempts": 1, "must fit": full})
        again = (
            result.tokens_after if result else budget.used
        ) + budget.usable * NEW_INPUT
        if result is not None:
            found[result.strategy] += 1
            last = (state, result)
            at = count
            found["still full"] += result.tokens_after > (
                budget.most if full else budget.usable * THRESHOLD
            )
            continue
        found["fault"] += 1
        faults.append(
            f"{recording.name} at request {count}, window {window:,}, used {budget.used:,}: {why}"
        )
        if full:
            break
    return found


def _may_leave(state: ConversationState, policy: CompactionPolicy) -> int:
    """Return the tokens by which what is not exempt from the size is larger than it."""
    exempt = {entry.seq for entry in unanswered(state)}
    beside = estimate_messages(
        entry.message for entry in state.entries if entry.seq not in exempt
    )
    return beside - size_of(state, policy)


def joined(paths: Sequence[Path], times: int) -> Recording:
    """Return all transcripts one after the other, so many times, for windows that none
    of them fills.
    """
    messages = [
        message
        for path in paths
        for message in json.loads(path.read_text())["messages"]
    ]
    with NamedTemporaryFile("w", suffix=".json") as file:
        json.dump({"messages": messages * times}, file)
        file.flush()
        return read_recording(Path(file.name))


async def main() -> int:
    """Print the table and the faults; return 1 where there is one."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.small_windows")
    parser.add_argument("folder", type=Path)
    paths = sorted(parser.parse_args().folder.glob("*.json"))
    faults = list[str]()
    recordings = [read_recording(path) for path in paths]
    print("   window  " + "  ".join(f"{column:>10}" for column in COLUMNS))
    for window in WINDOWS:
        walked = recordings if window < LARGE else [joined(paths, -(-window // LARGE))]
        total = sum(
            [await walk(recording, window, faults) for recording in walked],
            Counter[str](),
        )
        print(
            f"{window:>9,}  " + "  ".join(f"{total[column]:>10,}" for column in COLUMNS)
        )
    print("\n".join(faults))
    return int(bool(faults))


if __name__ == "__main__":
    raise SystemExit(anyio.run(main))
