"""Conversations in windows that are too small for them, and models that write summaries of them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable

import anyio

from acp_agent.compaction import CompactedState, CompactionPolicy, CompactionService, ConversationState
from acp_agent.conversation.messages import AssistantMessage, CompactedBlock, Message, Text, Usage, UserMessage
from acp_agent.errors import AgentError, ModelError
from acp_agent.llm.provider import Answered, Compacted, ModelEvent, ModelRequest, NativeCompaction, TextDelta

STRATEGIES = ("summary", "native", "mask", "excerpts")
SHORT = "# Goal\nA cart."


class Model:
    """Writes these, the last one for ever; a failure is raised."""

    def __init__(self, *answers: str | AgentError) -> None:
        self.answers = [*answers] or [SHORT]
        self.requests: list[ModelRequest] = []

    async def __call__(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        self.requests.append(request)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, AgentError):
            raise answer
        yield TextDelta(answer)
        yield Answered((Text(answer),), "end_turn", Usage(10, 5))


class OwnCompaction:
    """A provider's, which answers or fails."""

    keeps_user_messages = False

    def __init__(self, text: str = SHORT, error: ModelError | None = None) -> None:
        self.text = text
        self.error = error

    async def compact(
        self, request: ModelRequest, instructions: str, again: Callable[[], None] = lambda: None
    ) -> Compacted:
        if self.error:
            raise self.error
        return Compacted(CompactedBlock("anthropic", {"type": "compaction"}, self.text), Usage(10, 5))


def run(
    state: ConversationState,
    policy: CompactionPolicy,
    model: Model | None = None,
    native: NativeCompaction | None = None,
    shown: list[str] | None = None,
) -> CompactedState | None:
    """What the service makes of a conversation, maybe nothing.

    :param shown: takes what streams.
    """

    async def show(text: str) -> None:
        if shown is not None:
            shown.append(text)

    async def compact() -> CompactedState | None:
        return await CompactionService()(state, policy, model or Model(), show=show, native=native)

    return anyio.run(compact)


def compacted(state: ConversationState, policy: CompactionPolicy, model: Model | None = None) -> CompactedState:
    """What the service makes of a conversation, which has to be something."""
    result = run(state, policy, model, OwnCompaction())
    assert result is not None
    return result


def talk(turns: int, characters: int) -> list[Message]:
    messages: list[Message] = []
    for turn in range(turns):
        messages.append(UserMessage(f"u{turn}", (Text(f"Question {turn}?"),)))
        messages.append(AssistantMessage(f"a{turn}", (Text("a " * (characters // 2)),)))
    return messages
