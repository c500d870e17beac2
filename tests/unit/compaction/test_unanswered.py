"""Conversations from other programs whose last message the model has not answered yet."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest

from acp_agent.compaction import CompactionPolicy, CompactionService, ConversationState
from acp_agent.compaction.cuts import unanswered_from
from acp_agent.compaction.state import unanswered_prompt
from acp_agent.conversation.messages import (
    AssistantMessage,
    Entry,
    Message,
    Text,
    ToolCall,
    ToolResult,
    Usage,
    UserMessage,
)
from acp_agent.errors import CompactionError
from acp_agent.llm.provider import Answered, ModelEvent, ModelRequest

SUMMARY = "## Goal\nFind out why the cart forgets the quantity.\n## Done\nshop/cart.py was read, nothing was changed."
STRATEGIES = ["excerpts", "summary", "mask"]


def user(name: str, text: str) -> UserMessage:
    return UserMessage(name, (Text(text),))


def answer(name: str, text: str, *calls: str) -> AssistantMessage:
    return AssistantMessage(
        name, (Text(text), *(ToolCall(call, "read", {"path": "a"}) for call in calls))
    )


def result(call: str, text: str) -> ToolResult:
    return ToolResult(call, (Text(text),))


LONG = "\n".join(
    f"total_{number} in shop/cart_{number}.py adds prices." for number in range(800)
)
QUESTION = user("q", "And why is the tax of shop/tax.py rounded twice?")
LARGE_QUESTION = user("q", f"Why does this fail?\n{LONG}")
BEFORE = [user("1", "Why does the cart forget the quantity?"), answer("2", LONG)]


async def model(request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
    yield Answered((Text(SUMMARY),), "end_turn", Usage(1_000, 50))


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("manual", [True, False])
@pytest.mark.parametrize("question", [QUESTION, LARGE_QUESTION], ids=["short", "long"])
async def test_a_conversation_of_one_prompt_is_never_compacted(
    strategy: str, manual: bool, question: UserMessage
) -> None:
    state = ConversationState.of([question], window=200_000)
    policy = CompactionPolicy(
        "Summarise.", strategy=strategy, manual=manual, size=2_000
    )
    assert await CompactionService()(state, policy, model) is None


@pytest.mark.parametrize("strategy", ["excerpts", "summary"])
@pytest.mark.parametrize("manual", [True, False])
@pytest.mark.parametrize("question", [QUESTION, LARGE_QUESTION], ids=["short", "long"])
async def test_an_unanswered_prompt_is_kept_word_for_word_after_the_summary(
    strategy: str, manual: bool, question: UserMessage
) -> None:
    state = ConversationState.of([*BEFORE, question], window=32_000)
    policy = CompactionPolicy(
        "Summarise.", strategy=strategy, manual=manual, size=2_000
    )
    compacted = await CompactionService()(state, policy, model)
    assert compacted is not None
    assert compacted.messages[-1] == question
    assert LONG[-60:] not in str(compacted.messages[:-1])


async def test_a_prompt_after_a_compaction_is_kept_by_the_next_compaction() -> None:
    service = CompactionService()
    policy = CompactionPolicy("", strategy="excerpts", size=2_000)
    state = ConversationState.of(BEFORE, window=200_000)
    compacted = await service(state, policy, model)
    assert compacted is not None
    state = compacted.next_state(
        state, [user("3", "Go on."), answer("4", LONG), LARGE_QUESTION]
    )
    again = await service(state, policy, model)
    assert again is not None
    assert again.messages[-1] == LARGE_QUESTION


async def test_a_prompt_too_large_for_the_window_is_refused_and_not_replaced() -> None:
    state = ConversationState.of([user("q", LONG * 3)], window=20_000)
    with pytest.raises(CompactionError, match="What has to stay in the conversation"):
        await CompactionService()(
            state, CompactionPolicy("", strategy="excerpts", size=1_000), model
        )


@pytest.mark.parametrize(
    ("messages", "prompt", "stays_from"),
    [
        ([], None, 0),
        (BEFORE, None, 2),
        ([QUESTION], 1, 0),
        ([*BEFORE, QUESTION], 3, 2),
        ([*BEFORE, QUESTION, user("more", "Please.")], 3, 2),
        ([*BEFORE, QUESTION, answer("3", "", "c"), result("c", "x")], 3, 3),
        (
            [
                *BEFORE,
                QUESTION,
                answer("3", "", "c"),
                result("c", "x"),
                user("steers", "No."),
            ],
            3,
            3,
        ),
        (
            [
                *BEFORE,
                QUESTION,
                answer("3", "", "c"),
                result("c", "x"),
                answer("4", "Done."),
            ],
            None,
            6,
        ),
    ],
)
def test_the_prompt_is_the_first_one_after_the_last_answer_without_calls(
    messages: list[Message], prompt: int | None, stays_from: int
) -> None:
    entries = tuple(
        Entry(number, message) for number, message in enumerate(messages, 1)
    )
    assert unanswered_prompt(entries) == prompt
    assert unanswered_from(entries, prompt) == stays_from
