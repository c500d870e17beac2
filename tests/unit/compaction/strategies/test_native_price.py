"""A provider that keeps all user messages is asked to compact only if the rest is large
enough.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from acp_agent.conversation.messages import (
    Amendment,
    AssistantMessage,
    CompactedBlock,
    JsonObject,
    Message,
    Text,
    Usage,
    UserMessage,
)
from acp_agent.errors import CompactionError
from acp_agent.llm.provider import ModelRequest
from support.ladder import MANUAL, Model, run, state_of

POLICY = replace(MANUAL, strategy="native", keeps_reasoning=True, keeps_prompts=True)
LONG = Text("The cart adds prices. " * 400)
SHORT = Text("Go on.")


class Provider:
    """A provider that replaces the conversation with its own compaction block."""

    def __init__(self) -> None:
        self.asked = 0

    async def compact(
        self,
        request: ModelRequest,
        instructions: str,
        note: Callable[[Any], None] = lambda event: None,
    ) -> tuple[CompactedBlock, Usage]:
        self.asked += 1
        return CompactedBlock(
            "openai", {"items": [{"type": "compaction", "encrypted_content": "e"}]}, ""
        ), Usage(1, 1)


def talk(said: Text, answered: Text, *others: Message) -> list[Message]:
    turns: list[Message] = [*others]
    for number in range(4):
        turns += [
            UserMessage(f"u{number}", (said,)),
            AssistantMessage(f"a{number}", (answered,)),
        ]
    return turns


def block(said: str, encrypted: int) -> UserMessage:
    """Return the message that an earlier compaction left.

    :param encrypted: length of the encrypted item in characters.
    """
    prompt: JsonObject = {
        "type": "message",
        "role": "user",
        "content": [{"type": "input_text", "text": said}],
    }
    item: JsonObject = {"type": "compaction", "encrypted_content": "e" * encrypted}
    return UserMessage("u", (CompactedBlock("openai", {"items": [prompt, item]}, ""),))


@pytest.mark.parametrize(
    "messages",
    [
        talk(SHORT, LONG),
        talk(SHORT, LONG, block(SHORT.text, 300_000)),
        talk(SHORT, LONG, Amendment("n", (Text("Another AGENTS.md. " * 12_000),))),
    ],
    ids=["answers", "an encrypted item", "what the agent told"],
)
def test_openai_compacts_if_the_user_wrote_less_than_most_of_the_text(
    messages: list[Message],
) -> None:
    provider = Provider()
    result = run(state_of(messages), POLICY, Model([]), native=provider)
    assert result is not None
    assert (result.strategy, provider.asked) == ("native", 1)


@pytest.mark.parametrize(
    "messages",
    [talk(LONG, SHORT), talk(SHORT, SHORT, block(LONG.text * 12, 300))],
    ids=["prompts", "prompts that were kept before"],
)
def test_openai_does_not_compact_if_the_user_wrote_most_of_the_text(
    messages: list[Message],
) -> None:
    provider = Provider()
    with pytest.raises(
        CompactionError,
        match=r"keeps all that you have said.*use the strategy `summary`",
    ):
        run(state_of(messages), POLICY, Model([]), native=provider)
    assert provider.asked == 0
