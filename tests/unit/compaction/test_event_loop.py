"""What reads a whole conversation runs beside the event loop: the turn, other sessions
and the editor go on meanwhile.

Counted are the calls of the agent's functions in the event loop's thread, which are the
same on every machine. They must not be more for a conversation that is longer.
"""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import replace
from types import FrameType

import pytest

from acp_agent.compaction.service import CompactionService
from acp_agent.compaction.state import CompactionPolicy, ConversationState
from support.checkout import REPOSITORY
from support.ladder import AT_THRESHOLD, MANUAL, MUST_FIT, Model, history

PACKAGE = str(REPOSITORY / "acp_agent")
SHORT = 20
LONG = 400
"""Turns of four messages."""


async def calls_on_the_loop(
    policy: CompactionPolicy, turns: int, left: str | None
) -> Counter[tuple[str, str]]:
    """Compact a conversation that fills most of its window; the calls of this thread,
    by file and function.

    Each step of a generator counts as a call.
    """
    calls = Counter[tuple[str, str]]()

    def note(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(PACKAGE):
            calls[code.co_filename, code.co_name] += 1

    messages = history(turns, 200, 2_000)
    service = CompactionService()
    model = Model(["summary"])
    used = ConversationState.of(messages, window=10**9).budget.used
    state = ConversationState.of(messages, window=used * 5 // 4)
    before = sys.getprofile()
    sys.setprofile(note)
    try:
        result = await service(state, policy, model)
    finally:
        sys.setprofile(before)
    assert (None if result is None else result.strategy) == left
    return calls


@pytest.mark.parametrize(
    ("policy", "strategy"),
    [
        (replace(MANUAL, strategy="summary"), "summary"),
        (replace(MANUAL, strategy="excerpts"), "excerpts"),
        (replace(MANUAL, strategy="mask"), "mask"),
        (AT_THRESHOLD, "mask"),
        (MUST_FIT, "mask"),
        (replace(AT_THRESHOLD, steps=("summary",)), "summary"),
    ],
    ids=[
        "summary",
        "excerpts",
        "mask",
        "at the threshold",
        "must fit",
        "in the background",
    ],
)
async def test_compacting_a_longer_conversation_does_not_block_the_event_loop(
    policy: CompactionPolicy, strategy: str
) -> None:
    await calls_on_the_loop(policy, SHORT, strategy)  # loads what is loaded once
    short, long = [
        await calls_on_the_loop(policy, turns, strategy) for turns in (SHORT, LONG)
    ]
    assert long - short == {}
