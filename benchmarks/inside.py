"""`python -m benchmarks.inside RUNS`: what the agent computes for a long session, as
JSON on stdout.

The one part that imports the agent; it runs in a process of its own, so that nothing
else here does.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncGenerator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

from acp_agent.compaction.budget import TokenBudget
from acp_agent.compaction.service import CompactionService
from acp_agent.compaction.state import (
    CompactedState,
    CompactionPolicy,
    ConversationState,
)
from acp_agent.conversation.context import Context
from acp_agent.conversation.events import (
    AssistantAnswered,
    CallView,
    ContextSwapped,
    Event,
    FileVersion,
    LoggedEvent,
    SessionStarted,
    ToolReturned,
    TurnEnded,
    UserPrompted,
)
from acp_agent.conversation.messages import (
    AssistantMessage,
    Text,
    ToolCall,
    ToolResult,
    Usage,
)
from acp_agent.llm.provider import Answered, ModelEvent, ModelRequest
from acp_agent.storage.store import SessionStore

EVENTS = 10_000
BETWEEN = 1_000
"""Events between two compactions."""
TOKENS = 200_000
STEPS = 20
SUMMARY = "# Goal\n" + "The cart adds prices; src/cart.py holds the total. " * 80


class _Session:
    """A log that grows by turns of twenty steps with a file read and a command each."""

    def __init__(self) -> None:
        self.context = Context()
        self.events: list[Event] = []
        self._number = 0
        self.add(SessionStarted("/shop", model="scripted/one"))

    def add(self, event: Event) -> None:
        self.events.append(event)
        self.context = self.context.apply(LoggedEvent(len(self.events), 0, event))

    def turn(self) -> None:
        self._number += 1
        text = f"Fix price {self._number} in src/part{self._number}.py. Never touch the tests. "
        self.add(UserPrompted(f"msg_u{self._number}", (Text(text * 4),)))
        for step in range(STEPS):
            path = f"/shop/src/part{self._number % 40}_{step}.py"
            calls = (
                ToolCall(f"call_{self._number}_{step}_r", "read", {"path": path}),
                ToolCall(
                    f"call_{self._number}_{step}_s",
                    "shell",
                    {"command": f"pytest -q tests/test_{step}.py"},
                ),
            )
            said = AssistantMessage(
                f"msg_a{self._number}_{step}",
                (Text("I look. "), *calls),
                "one",
                "tool_use",
                None,
            )
            self.add(AssistantAnswered(said))
            read = "\n".join(
                f"{line}\tself.total += line.price * {line + step}"
                for line in range(60)
            )
            self._returned(
                calls[0], read, (FileVersion(path, f"digest-{self._number}"),)
            )
            self._returned(
                calls[1],
                f"{read[:1200]}\n{step} passed, 1 failed in 0.31s\n[exit status 1]",
                (),
            )
        done = AssistantMessage(
            f"msg_e{self._number}", (Text("Done. " * 20),), "one", "end_turn", None
        )
        self.add(AssistantAnswered(done))
        self.add(TurnEnded("end_turn"))

    def swap(self, result: CompactedState) -> None:
        now = self.context
        self.add(
            ContextSwapped(
                compaction_id=f"cmp_{len(self.events)}",
                message_id=f"msg_c{len(self.events)}",
                trigger="threshold",
                summary=result.summary,
                sent=result.sent,
                keep_from=min(
                    (
                        e.seq
                        for e in now.entries
                        if not e.summary and e.seq > result.boundary
                    ),
                    default=0,
                )
                or len(self.events) + 1,
                carried=replace(now.carried(), memory=result.memory),
                tokens_before=result.tokens_before,
                tokens_after=result.tokens_after,
                pinned=result.pinned,
                rewritten=result.rewritten,
                earlier=now.swaps,
            )
        )

    def _returned(
        self, call: ToolCall, text: str, files: tuple[FileVersion, ...]
    ) -> None:
        result = ToolResult(call.id, (Text(text),), is_error=False)
        self.add(ToolReturned(result, CallView(call.name, "read"), files))


def state_of(context: Context, window: int) -> ConversationState:
    request = ModelRequest("one", context.instructions, context.messages)
    return ConversationState.from_context(
        context, request, TokenBudget(window, window // 4)
    )


async def model(request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
    yield Answered((Text(SUMMARY),), "end_turn", Usage(1, 1))


async def main(runs: int) -> dict[str, list[float]]:
    session = _Session()
    service = CompactionService()
    policy = CompactionPolicy("Summarise.", manual=False)
    while len(session.events) < EVENTS:
        begun = len(session.events)
        while len(session.events) - begun < BETWEEN:
            session.turn()
        state = state_of(session.context, 2 * TOKENS)
        result = await service(state, replace(policy, steps=("summary",)), model)
        if result is None:
            raise RuntimeError("there was nothing to compact")
        session.swap(result)
    session.turn()
    with TemporaryDirectory(prefix="acp-bench-") as folder:
        contexts = await _contexts(Path(folder) / "sessions.db", session, runs)
    return {"context": contexts}


async def _contexts(path: Path, session: _Session, runs: int) -> list[float]:
    times: list[float] = []
    store = await SessionStore.open(path)
    await store.create("s", "/shop", (), session.events[:1])
    for begin in range(1, len(session.events), 500):
        await store.append("s", begin, session.events[begin : begin + 500])
    await store.aclose()
    for _ in range(runs):
        store = await SessionStore.open(path)
        began = perf_counter()
        context = await store.context("s")
        times.append((perf_counter() - began) * 1000)
        await store.aclose()
        if context != session.context:
            raise RuntimeError(
                "the context that was read is not the one that was written"
            )
    return times


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main(int(sys.argv[1])))))
