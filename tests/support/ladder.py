"""A service, a model that answers by moves, and conversations of any size."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import replace
from typing import Any

import anyio

from acp_agent.compaction.service import CompactionService
from acp_agent.compaction.state import (
    CompactedState,
    CompactionPolicy,
    ConversationState,
)
from acp_agent.compaction.strategy import Writer
from acp_agent.conversation.messages import (
    AssistantMessage,
    AssistantPart,
    CompactedBlock,
    Message,
    StopReason,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Usage,
    UserMessage,
)
from acp_agent.errors import (
    AgentError,
    ContextOverflowError,
    ModelError,
    ModelRequestError,
    ModelStreamError,
    ModelUnavailableError,
)
from acp_agent.llm.provider import (
    Answered,
    ModelEvent,
    ModelRequest,
    NativeCompaction,
    Retrying,
    TextDelta,
)

WINDOW = 20_000
MANUAL = CompactionPolicy("Summarise.")
AT_THRESHOLD = replace(MANUAL, manual=False)
MUST_FIT = replace(AT_THRESHOLD, must_fit=True)
Move = Callable[[ModelRequest], ModelEvent | list[ModelEvent]]


def answered(*parts: AssistantPart, stop: StopReason = "end_turn") -> Answered:
    return Answered(parts, stop, Usage(10, 5))


def says(text: str) -> Move:
    """The move that is this answer."""
    return lambda _: [TextDelta(text), answered(Text(text))]


def fails(error: AgentError) -> Move:
    def move(_: ModelRequest) -> ModelEvent:
        raise error

    return move


MOVES: dict[str, Move] = {
    "summary": says("# Goal\nA cart."),
    "empty": lambda _: answered(),
    "blank": says(" \n"),
    "thinking": lambda _: answered(Thinking("Hm.")),
    "cut off": lambda _: answered(Text("# Go"), stop="max_tokens"),
    "full": lambda _: answered(Text("# Go"), stop="context_overflow"),
    "refusal": lambda _: answered(Text("No."), stop="refusal"),
    "calls": lambda _: answered(ToolCall("c", "read"), stop="tool_use"),
    "large": lambda request: answered(Text("word " * request.max_output_tokens)),
    "larger than all": lambda _: answered(Text("word " * 40_000)),
    "overflow": fails(ContextOverflowError("too long")),
    "down": fails(ModelUnavailableError("down")),
    "refused": fails(ModelRequestError("no")),
    "dropped": fails(ModelStreamError("lost", partial=True)),
    "retries, then calls": lambda _: [
        *[Retrying("down", 0.0)] * 6,
        answered(ToolCall("c", "read"), stop="tool_use"),
    ],
    "retries, then summary": lambda _: [
        *[Retrying("down", 0.0)] * 2,
        answered(Text("# Goal\nA cart.")),
    ],
    "retries": lambda _: [
        *[Retrying("down", 0.0)] * 6,
        answered(Text("# Goal\nA cart.")),
    ],
}


class Model:
    """Plays moves, the last one for ever; counts what reaches the wire, retries
    included.

    :param moves: names of `MOVES`, or moves.
    """

    def __init__(self, moves: Sequence[str | Move]) -> None:
        self.moves = [MOVES[move] if isinstance(move, str) else move for move in moves]
        self.wire = 0
        self.requests: list[ModelRequest] = []

    async def __call__(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        self.wire += 1
        self.requests.append(request)
        move = self.moves.pop(0) if len(self.moves) > 1 else self.moves[0]
        events = move(request)
        for event in events if isinstance(events, list) else [events]:
            yield event
            self.wire += isinstance(event, Retrying)


def run(
    state: ConversationState,
    policy: CompactionPolicy,
    model: Model,
    service: CompactionService | None = None,
    native: NativeCompaction | None = None,
    writer: Writer | None = None,
) -> CompactedState | None:
    """What the service makes of a conversation, maybe nothing."""

    async def compact() -> CompactedState | None:
        return await (service or CompactionService())(
            state, policy, model, native=native, writer=writer
        )

    return anyio.run(compact)


class OwnCompaction:
    """A provider's, which answers or fails."""

    keeps_user_messages = False

    def __init__(self, error: ModelError | None = None) -> None:
        self.error = error

    async def compact(
        self,
        request: ModelRequest,
        instructions: str,
        note: Callable[[Any], None] = lambda event: None,
    ) -> tuple[CompactedBlock, Usage]:
        if self.error:
            raise self.error
        return CompactedBlock(
            "anthropic", {"type": "compaction"}, "# Goal\nA cart."
        ), Usage(10, 5)


def history(turns: int, characters: int, results: int = 0) -> list[Message]:
    """Turns of a question, maybe a result of a tool, and an answer of so many
    characters.
    """
    messages: list[Message] = []
    for turn in range(turns):
        messages.append(UserMessage(f"u{turn}", (Text(f"Question {turn}?"),)))
        if results:
            messages.append(
                AssistantMessage(
                    f"c{turn}", (ToolCall(f"c{turn}", "read", {"path": f"{turn}.txt"}),)
                )
            )
            messages.append(ToolResult(f"c{turn}", (Text("r" * results),)))
        messages.append(AssistantMessage(f"a{turn}", (Text("a" * characters),)))
    return messages


def state_of(
    messages: list[Message], used: int | None = None, window: int = WINDOW
) -> ConversationState:
    """The conversation in a window of so many tokens.

    :param used: tokens of it, by the provider's count.
    """
    return ConversationState.of(messages, window=window, used=used)
