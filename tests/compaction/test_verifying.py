"""The check of a summary, beside whatever else the agent does meanwhile."""

from __future__ import annotations

import threading
from typing import SupportsIndex

from acp_agent.compaction.state import CompactionPolicy, ConversationState
from acp_agent.compaction.verifying import verify
from acp_agent.conversation.messages import Text, UserMessage

STATE = ConversationState.of([UserMessage("u1", (Text("And what now?"),))], window=100_000)
MEND = CompactionPolicy("Summarise.", verify="mend")
GHOST = "It is in `src/ghost.py`."


class Written(str):
    """A summary that knows which threads took pieces out of it."""

    __slots__ = ("threads",)

    def __init__(self, _: str) -> None:
        self.threads: set[threading.Thread] = set()

    def __getitem__(self, key: SupportsIndex | slice) -> str:
        self.threads.add(threading.current_thread())
        return super().__getitem__(key)


async def test_a_summary_and_its_correction_are_looked_through_beside_the_event_loop() -> None:
    first, second = Written(GHOST), Written(GHOST)

    async def mend(_: str) -> str:
        return second

    verified = await verify(STATE, MEND, first, mend)
    assert verified.text == "It is in `src/ghost.py` [unverified]."
    for summary in (first, second):
        assert summary.threads
        assert threading.current_thread() not in summary.threads
