"""How long excerpts keep a turn waiting, and the event loop: `python -m benchmarks.swap_latency FOLDER`.

One conversation of about 150,000 tokens is put together from a folder of recorded sessions. Prints medians of five for
indexing it, a compaction whose entries were indexed, and both, with the longest pause of the event loop.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import anyio
from anyio import to_thread

from acp_agent.__main__ import SWITCH_SECONDS
from acp_agent.compaction import CompactionPolicy, CompactionService, ConversationState, estimate_messages
from acp_agent.compaction.evaluation.recordings import read_recording
from acp_agent.compaction.excerpts.selection import ExcerptIndex
from acp_agent.conversation.messages import Message
from benchmarks.compactions_in_a_row import no_model

TOKENS = 150_000
WINDOW = 200_000
RUNS, BREATH = 5, 0.002  # seconds between two looks at the clock


async def longest_pause(work: Callable[[], Awaitable[object]]) -> tuple[float, float]:
    """Return the seconds that the work took, and the longest pause of the event loop meanwhile."""
    pause = took = 0.0

    async def tick() -> None:
        nonlocal pause
        while True:
            before = time.perf_counter()
            await anyio.sleep(BREATH)
            pause = max(pause, time.perf_counter() - before - BREATH)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(tick)
        began = time.perf_counter()
        await work()
        took = time.perf_counter() - began
        tasks.cancel_scope.cancel()
    return took, pause


async def main(paths: Sequence[Path]) -> None:
    messages: list[Message] = []
    for path in paths:
        more = read_recording(path).messages
        if estimate_messages((*messages, *more)) <= TOKENS:
            messages += more
    state = ConversationState.of(messages, window=WINDOW)
    policy, service, index = CompactionPolicy("", strategy="excerpts", size=40_000), CompactionService(), ExcerptIndex
    indexed = index.of(state.originals)
    works: dict[str, Callable[[], Awaitable[object]]] = {
        "index": lambda: to_thread.run_sync(index.of, state.originals),
        "swap, indexed as they came": lambda: service(state, policy, no_model, index=indexed),
        "swap, just loaded": lambda: service(state, policy, no_model),
    }
    print(f"{len(messages)} messages, {state.budget.used:,} tokens")
    for name, work in works.items():
        times = [await longest_pause(work) for _ in range(RUNS)]
        took, pause = (statistics.median(column) for column in zip(*times, strict=True))
        print(f"{name:28} {took * 1000:6.0f} ms   longest pause of the event loop {pause * 1000:5.1f} ms")


if __name__ == "__main__":
    sys.setswitchinterval(SWITCH_SECONDS)  # as where the agent serves
    anyio.run(main, sorted(Path(sys.argv[1]).glob("*.json")))
