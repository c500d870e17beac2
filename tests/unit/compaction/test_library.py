"""Compaction from Python code, without an agent. The programs in docs/library.md are
run by tests/e2e/docs.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncGenerator
from dataclasses import replace

import anyio
import pytest
from pydantic import TypeAdapter

from acp_agent.compaction import (
    CompactedState,
    CompactionPolicy,
    CompactionService,
    ConversationState,
    Draft,
    Task,
    by_name,
    installed_strategies,
)
from acp_agent.conversation.messages import (
    AssistantMessage,
    Message,
    Text,
    ToolCall,
    ToolResult,
    Usage,
    UserMessage,
)
from acp_agent.errors import CompactionError
from acp_agent.llm.provider import Answered, ModelEvent, ModelRequest, TextDelta
from support.checkout import REPOSITORY

POLICY = CompactionPolicy(prompt="Summarise the conversation above.")
RULE = "Never rename `total`."
HISTORY: tuple[Message, ...] = (
    UserMessage("1", (Text(f"Read shop.py. {RULE}"),)),
    AssistantMessage(
        "2", (ToolCall("call_1", "read", {"path": "shop.py"}),), stop_reason="tool_use"
    ),
    ToolResult("call_1", (Text("def add_prices(): ...\n" * 2_000),)),
    AssistantMessage("3", (Text("It adds up prices. " * 400),)),
    UserMessage("4", (Text("Go on."),)),
    AssistantMessage("5", (Text("Done."),)),
)


class Asked:
    """A model of the library's user."""

    def __init__(self, text: str = "# Goal\nA shop.") -> None:
        self.requests: list[ModelRequest] = []
        self.text = text

    async def __call__(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        self.requests.append(request)
        yield TextDelta(self.text)
        yield Answered(
            (Text(self.text),), "end_turn", Usage(1_000, 20, cache_read_tokens=1_000)
        )


def state(
    messages: tuple[Message, ...] = HISTORY, window: int = 32_000
) -> ConversationState:
    return ConversationState.of(
        messages, window=window, model="m", system="Be brief.", cwd="/shop"
    )


async def compacted(
    of: ConversationState, policy: CompactionPolicy = POLICY
) -> CompactedState:
    result = await CompactionService()(of, policy, Asked())
    assert result is not None
    return result


async def test_the_summary_request_is_the_live_request_plus_one_message() -> None:
    model = Asked()
    of = state()
    shown: list[str] = []

    async def show(text: str) -> None:
        shown.append(text)

    result = await CompactionService()(of, POLICY, model, show=show)
    [request] = model.requests
    assert replace(request, messages=of.request.messages) == of.request
    assert request.messages[:-1] == of.request.messages
    assert result is not None
    assert (result.summary, "".join(shown)) == ("# Goal\nA shop.", "# Goal\nA shop.")
    assert result.tokens_after < result.tokens_before
    assert result.receipt.cached == pytest.approx(0.5)  # pyright: ignore[reportUnknownMemberType]
    assert result.messages == tuple(entry.message for entry in result.entries)


async def test_pins_and_user_text_survive_a_second_compaction_and_a_store() -> None:
    first = await compacted(state())
    more: tuple[Message, ...] = (
        UserMessage("6", (Text("And more. " * 900),)),
        AssistantMessage("7", (Text("So."),)),
    )
    stored = TypeAdapter(ConversationState).dump_json(first.next_state(state(), more))
    second = await compacted(TypeAdapter(ConversationState).validate_json(stored))
    assert [entry.message for entry in second.source] == [*HISTORY, *more]
    [opening] = [
        part.text for part in second.messages[0].parts if isinstance(part, Text)
    ][:1]
    assert RULE in opening
    assert "def add_prices()" in str(second.sent), (
        "excerpts are of what the first compaction took away"
    )


async def test_a_cancelled_compaction_ends_the_model_call() -> None:
    closed = anyio.Event()

    async def slow(request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        try:
            yield TextDelta("#")
            await anyio.sleep_forever()
        finally:
            closed.set()

    async def cancel(_: str) -> None:
        scope.cancel()

    with anyio.fail_after(5), anyio.CancelScope() as scope:
        await CompactionService()(state(), POLICY, slow, show=cancel)
    assert scope.cancelled_caught
    assert closed.is_set()


@pytest.mark.process
async def test_nothing_is_printed_in_a_program_without_logging() -> None:
    code = """if True:
        import asyncio
        from acp_agent.compaction import CompactionPolicy, CompactionService, ConversationState
        from acp_agent.conversation.messages import AssistantMessage, Text, UserMessage
        from acp_agent.errors import CompactionError

        async def crash(request):
            raise RuntimeError("in the user's own code")
            yield

        async def main():
            history = [UserMessage("1", (Text("Why? " * 4_000),)), AssistantMessage("2", (Text("So. " * 4_000),))]
            state = ConversationState.of(history, window=32_000)
            try:
                await CompactionService()(state, CompactionPolicy(prompt="Summarise."), crash)
            except CompactionError:
                raise SystemExit(3)

        asyncio.run(main())
    """
    ran = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        cwd=REPOSITORY,
        timeout=30,
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (3, "", "")


async def test_a_custom_strategy_needs_no_package() -> None:
    class Blunt:
        name = "blunt"

        async def draft(self, task: Task) -> Draft | None:
            cut = task.cut(0)
            return None if cut is None else Draft(cut, "Something was said.")

    mine = by_name([Blunt()])
    policy = replace(POLICY, strategy="blunt")
    for strategies in (mine, installed_strategies() | mine):
        result = await CompactionService(strategies)(state(), policy, Asked())
        assert result is not None
        assert (result.strategy, result.summary, result.receipt.requests) == (
            "blunt",
            "Something was said.",
            0,
        )
    with pytest.raises(
        CompactionError,
        match=r"Unknown compaction strategy 'summary'\. Available strategies: blunt",
    ):
        await CompactionService(mine)(state(), POLICY, Asked())
