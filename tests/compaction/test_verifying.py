"""The check of a summary, beside whatever else the agent does meanwhile."""

from __future__ import annotations

import threading
from typing import SupportsIndex

import pytest
from anyio import fail_after, lowlevel, to_thread

from acp_agent.compaction.state import CompactionPolicy, ConversationState
from acp_agent.compaction.verifying import verify
from acp_agent.conversation.messages import Text, UserMessage
from acp_agent.errors import ModelError

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

    async def write() -> str:
        return first

    async def mend(_: str) -> str:
        return second

    verified = await verify(STATE, MEND, write, mend)
    assert verified.text == "It is in `src/ghost.py` [unverified]."
    for summary in (first, second):
        assert summary.threads
        assert threading.current_thread() not in summary.threads


async def test_the_conversation_is_read_while_the_model_writes() -> None:
    threads = to_thread.current_default_thread_limiter()

    async def write() -> str:
        with fail_after(30):
            while not threads.borrowed_tokens:
                await lowlevel.checkpoint()
        return GHOST

    assert (await verify(STATE, MEND, write, _no_correction)).unverified == ("src/ghost.py",)


async def test_a_model_that_fails_while_the_conversation_is_read_is_told_as_what_it_is() -> None:
    async def write() -> str:
        await lowlevel.checkpoint()
        raise ModelError("It is overloaded.")

    with pytest.raises(ModelError, match="overloaded"):
        await verify(STATE, MEND, write, _no_correction)


async def _no_correction(_: str) -> str:
    raise ModelError("It is overloaded.")
