"""Planning a compaction, and which summaries are accepted. The model is a function here; elsewhere it is a real one."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_agent.compaction.budget import TokenBudget
from acp_agent.compaction.estimate import estimate_message, estimate_messages
from acp_agent.compaction.service import SHORT_HISTORY_TOKENS, CompactionService, Summary
from acp_agent.conversation.context import Context
from acp_agent.conversation.messages import Text, Usage, UserMessage
from acp_agent.errors import CompactionError
from acp_agent.llm.provider import Answered, ModelEvent, ModelRequest, TextDelta
from support.logs import LogBuilder

WINDOW = TokenBudget(10_000, 1_000)
SERVICE = CompactionService()


def history(turns: int, characters: int, counted: int | None = None) -> Context:
    """Turns with answers of equal length.

    :param counted: tokens of the whole, as the provider counts them.
    """
    log = LogBuilder()
    for turn in range(turns):
        log.prompt(f"Question {turn}?")
        last = counted is not None and turn == turns - 1
        log.step("a" * characters, usage=Usage(counted or 0, 0) if last else None)
        log.end()
    return log.context


def request(context: Context) -> ModelRequest:
    return ModelRequest("m", context.instructions, context.messages)


def summarise(context: Context, text: str, *, by_hand: bool) -> Summary:
    plan = SERVICE.plan(context, request(context), WINDOW)
    assert plan is not None

    async def model(asked: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        assert asked.messages[:-1] == context.messages
        yield TextDelta(text)
        yield Answered((Text(text),), "end_turn", Usage())

    async def show(chunk: str) -> None:
        assert chunk == text

    async def run() -> Summary:
        return await SERVICE.summarise(plan, "Summarise.", model, show, by_hand=by_hand)

    return anyio.run(run)


@pytest.mark.parametrize("counted", [None, 2_500, 20_000], ids=["nobody", "the provider, less", "the provider, more"])
def test_the_tail_is_a_fifth_of_the_window_by_whoever_counts_more(counted: int | None) -> None:
    context = history(turns=20, characters=1_000, counted=counted)
    plan = SERVICE.plan(context, request(context), WINDOW)
    assert plan is not None
    kept = estimate_messages(entry.message for entry in plan.cut.kept)
    assert 0 < kept * max(1.0, plan.calibration) <= WINDOW.tail
    assert plan.tokens_before == (counted or plan.tokens_before)


@given(st.integers(1, 6), st.integers(0, 2_000), st.integers(1, 12_000), st.booleans())
def test_a_summary_is_accepted_only_if_the_new_context_is_smaller_or_short(
    turns: int, characters: int, length: int, by_hand: bool
) -> None:
    context = history(turns, characters)
    before = estimate_messages(context.messages)
    try:
        summary = summarise(context, "s" * length, by_hand=by_hand)
    except CompactionError:
        assert not by_hand or length > SHORT_HISTORY_TOKENS
        assert length + SHORT_HISTORY_TOKENS > characters
        return
    size = estimate_message(UserMessage("", summary.sent))
    assert size < before or (by_hand and size < SHORT_HISTORY_TOKENS)
    if not by_hand:
        plan = SERVICE.plan(context, request(context), WINDOW)
        assert plan is not None
        assert 0 < summary.tokens_after < plan.tokens_before
    assert ("s" * length) in summary.sent[0].text


def test_the_new_size_is_told_in_the_providers_tokens() -> None:
    text = "s" * 400
    plain = summarise(history(4, 400), text, by_hand=True).tokens_after
    plan = SERVICE.plan(history(4, 400), request(history(4, 400)), WINDOW)
    assert plan is not None
    double = summarise(history(4, 400, counted=plan.tokens_before * 2), text, by_hand=True).tokens_after
    assert double == pytest.approx(plain * 2, abs=2)
