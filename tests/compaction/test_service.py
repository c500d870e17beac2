"""The ladder of strategies, and which results are accepted. The model is a function here; elsewhere a real one."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from dataclasses import replace

import anyio
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from acp_agent.compaction.calls import MAX_REQUESTS
from acp_agent.compaction.estimate import estimate_messages, estimate_text
from acp_agent.compaction.service import CompactionService
from acp_agent.compaction.state import CompactedState, CompactionPolicy, ConversationState
from acp_agent.compaction.strategies import by_name, installed_strategies
from acp_agent.compaction.strategy import Draft, Task
from acp_agent.compaction.triggers import Limits
from acp_agent.conversation.messages import (
    AssistantMessage,
    AssistantPart,
    Image,
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
    CompactionError,
    ContextOverflowError,
    ModelRequestError,
    ModelStreamError,
    ModelUnavailableError,
)
from acp_agent.llm.provider import (
    Answered,
    Compacted,
    ModelEvent,
    ModelRequest,
    NativeCompaction,
    Retrying,
    TextDelta,
)

WINDOW = 20_000
BY_HAND = CompactionPolicy("Summarise.")
AT_THRESHOLD = replace(BY_HAND, by_hand=False)
MUST_FIT = replace(AT_THRESHOLD, must_fit=True)
Move = Callable[[ModelRequest], ModelEvent | list[ModelEvent]]


def answered(*parts: AssistantPart, stop: StopReason = "end_turn") -> Answered:
    return Answered(parts, stop, Usage(10, 5))


def fails(error: AgentError) -> Move:
    def move(_: ModelRequest) -> ModelEvent:
        raise error

    return move


MOVES: dict[str, Move] = {
    "summary": lambda _: [TextDelta("# Goal"), answered(Text("# Goal\nA cart."))],
    "empty": lambda _: answered(),
    "blank": lambda _: answered(Text(" \n")),
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
        *[Retrying("down", 0.0, 1)] * 6,
        answered(ToolCall("c", "read"), stop="tool_use"),
    ],
    "retries, then summary": lambda _: [*[Retrying("down", 0.0, 1)] * 2, answered(Text("# Goal\nA cart."))],
    "retries": lambda _: [*[Retrying("down", 0.0, 1)] * 6, answered(Text("# Goal\nA cart."))],
}


class Model:
    """Plays moves, the last one for ever; counts what reaches the wire, retries included."""

    def __init__(self, moves: list[str]) -> None:
        self.moves = moves
        self.wire = 0
        self.requests: list[ModelRequest] = []

    async def __call__(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        self.wire += 1
        self.requests.append(request)
        move = self.moves.pop(0) if len(self.moves) > 1 else self.moves[0]
        events = MOVES[move](request)
        for event in events if isinstance(events, list) else [events]:
            yield event
            self.wire += isinstance(event, Retrying)


class DownToo:
    """A provider's own compaction that cannot be asked."""

    keeps_user_messages = False

    async def compact(
        self, request: ModelRequest, instructions: str, again: Callable[[], None] = lambda: None
    ) -> Compacted:
        raise ModelUnavailableError("down")


def run(
    state: ConversationState,
    policy: CompactionPolicy,
    model: Model,
    service: CompactionService | None = None,
    native: NativeCompaction | None = None,
) -> CompactedState | None:
    async def compact() -> CompactedState | None:
        return await (service or CompactionService())(state, policy, model, native=native)

    return anyio.run(compact)


def history(turns: int, characters: int, results: int = 0) -> list[Message]:
    """Turns of a question, maybe a result of a tool, and an answer of so many characters."""
    messages: list[Message] = []
    for turn in range(turns):
        messages.append(UserMessage(f"u{turn}", (Text(f"Question {turn}?"),)))
        if results:
            messages.append(AssistantMessage(f"c{turn}", (ToolCall(f"c{turn}", "read", {"path": f"{turn}.txt"}),)))
            messages.append(ToolResult(f"c{turn}", (Text("r" * results),)))
        messages.append(AssistantMessage(f"a{turn}", (Text("a" * characters),)))
    return messages


def state_of(messages: list[Message], used: int | None = None, window: int = WINDOW) -> ConversationState:
    return ConversationState.of(messages, window=window, used=used)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.sampled_from(list(MOVES)), min_size=1, max_size=8),
    st.sampled_from([BY_HAND, AT_THRESHOLD, MUST_FIT]),
    st.sampled_from([(12, 4_000, 0), (6, 2_000, 6_000), (3, 20_000, 30_000), (60, 400, 800)]),
    st.sampled_from([None, 17_000, WINDOW, 35_000]),
)
def test_every_path_ends_soon_in_a_smaller_context_or_a_clear_error(
    moves: list[str], policy: CompactionPolicy, shape: tuple[int, int, int], used: int | None
) -> None:
    state = state_of(history(*shape), used)
    model = Model(list(moves))
    result = None
    error = ""
    try:
        result = run(state, policy, model)
    except AgentError as failure:
        error = str(failure)
    assert model.wire <= MAX_REQUESTS
    assert not (error and policy.must_fit), "the last step asks nobody"
    assert not error or "unchanged" in error or "Nothing was changed" in error
    if result is not None:
        assert result.summary.strip()
        assert result.tokens_after < result.tokens_before
        if policy.must_fit:
            assert result.tokens_after <= state.budget.limit
        elif result.strategy != "mask":
            assert result.tokens_after <= WINDOW * policy.target
        assert "# Go" not in result.summary or "# Goal" in result.summary


@pytest.mark.parametrize("policy", [BY_HAND, AT_THRESHOLD])
def test_a_result_above_the_target_is_not_used(policy: CompactionPolicy) -> None:
    state = state_of(history(16, 4_000))
    assert run(state, replace(policy, steps=("summary",)), Model(["summary"])) is not None
    with pytest.raises(CompactionError, match="more than the"):
        run(state, replace(policy, steps=("summary",), target=0.05), Model(["large"]))


def test_a_target_below_the_default_counts() -> None:
    # Masking all old results leaves a third of the window.
    state = state_of(history(12, 1_200, 3_000))
    half, less = (run(state, replace(AT_THRESHOLD, target=target), Model(["summary"])) for target in (0.5, 0.3))
    assert half is not None
    assert less is not None
    assert (half.strategy, less.strategy) == ("mask", "summary")


@given(st.integers(1, 6), st.integers(0, 2_000), st.integers(1, 12_000))
def test_a_summary_is_used_only_if_the_conversation_is_shorter_with_it(
    turns: int, characters: int, length: int
) -> None:
    messages = history(turns, characters)
    before = estimate_messages(messages)
    MOVES["so long"] = lambda _: answered(Text("s" * length))
    try:
        result = run(state_of(messages), BY_HAND, Model(["so long"]))
    except CompactionError:
        # The layers around a summary take a few hundred tokens.
        assert before < estimate_text("s" * length) + 500
        return
    assert result is not None
    assert estimate_messages(result.messages) < before


def test_the_request_is_not_made_where_it_cannot_fit_and_the_parts_are() -> None:
    state = state_of(history(30, 4_000))
    assert state.budget.used > WINDOW
    model = Model(["summary"])
    result = run(state, BY_HAND, model)
    assert result is not None
    assert result.strategy == "chunked"
    assert 2 <= len(model.requests) <= 6
    for request in model.requests:
        assert len(request.messages) == 1
        assert estimate_messages(request.messages) + request.max_output_tokens < WINDOW


def test_a_summary_so_far_that_is_longer_than_allowed_is_shortened_so_that_the_next_part_fits() -> None:
    model = Model(["larger than all", "summary"])
    result = run(state_of(history(30, 4_000)), BY_HAND, model)
    assert result is not None
    assert result.strategy == "chunked"
    assert len(model.requests) > 1
    for request in model.requests:
        assert estimate_messages(request.messages) + request.max_output_tokens < WINDOW
    assert "word word" in str(model.requests[1].messages)


def test_parts_fit_the_window_as_the_provider_counts_where_it_counts_more_than_we_do() -> None:
    messages, counts = history(30, 4_000), 2.5
    state = state_of(messages, used=round(counts * estimate_messages(messages)))
    # Each summary so far is as long as it may be.
    model = Model(["large"])
    result = run(state, BY_HAND, model)
    assert result is not None
    assert result.strategy == "chunked"
    assert len(model.requests) > 1
    for request in model.requests:
        assert counts * estimate_messages(request.messages) + request.max_output_tokens < WINDOW


def test_parts_that_are_refused_are_made_smaller_once() -> None:
    model = Model(["overflow", "overflow", "summary"])
    result = run(state_of(history(12, 4_000)), BY_HAND, model)
    assert result is not None
    whole, large, small, *_ = [estimate_messages(request.messages) for request in model.requests]
    assert whole > large > small * 1.5


@pytest.mark.parametrize("policy", [BY_HAND, MUST_FIT])
def test_parts_that_were_refused_are_made_of_as_many_requests_as_are_left(policy: CompactionPolicy) -> None:
    # So many short messages that the oldest parts have to be left out, however short each message is made.
    state = state_of(history(500, 380), window=WINDOW)
    model = Model(["retries, then summary", *["summary"] * 4, "overflow", "summary"])
    result = run(state, policy, model)
    assert result is not None
    assert (result.strategy, model.wire) == ("chunked", MAX_REQUESTS)
    assert "summarised in 4 parts" in result.receipt.notes
    assert any("oldest part" in note for note in result.receipt.notes)


def test_a_summary_takes_six_parts_at_most_so_that_requests_are_left() -> None:
    model = Model(["summary"])
    result = run(state_of(history(500, 380)), BY_HAND, model)
    assert result is not None
    assert (result.strategy, model.wire) == ("chunked", 6)


def test_a_provider_that_is_down_is_not_asked_once_more() -> None:
    model = Model(["down"])
    result = run(state_of(history(12, 4_000)), MUST_FIT, model)
    assert result is not None
    assert (result.strategy, model.wire) == ("ledger", 1)
    assert any("down" in note for note in result.receipt.notes)
    result = run(state_of(history(12, 4_000)), replace(MUST_FIT, strategy="native"), model, native=DownToo())
    assert result is not None
    assert (result.strategy, model.wire) == ("ledger", 1)


def test_retries_count_as_requests() -> None:
    model = Model(["retries, then calls"])
    with pytest.raises(CompactionError, match="No summary was written in 12 requests"):
        run(state_of(history(12, 4_000)), BY_HAND, model)
    assert model.wire == MAX_REQUESTS


def test_a_strategy_of_a_package_that_breaks_does_not_break_the_ladder() -> None:
    class Broken:
        name = "broken"

        async def draft(self, task: Task) -> Draft | None:
            raise KeyError(task.window)

    service = CompactionService({**installed_strategies(), **by_name([Broken()])})
    policy = replace(MUST_FIT, strategy="broken")
    result = run(state_of(history(12, 4_000)), policy, Model(["summary"]), service)
    assert result is not None
    assert result.strategy == "ledger"
    with pytest.raises(CompactionError, match=r"'broken' failed inside \(KeyError"):
        run(state_of(history(12, 4_000)), replace(policy, by_hand=True, must_fit=False), Model(["summary"]), service)


def test_one_giant_prompt_is_shortened_where_nothing_else_is_left() -> None:
    giant: list[Message] = [UserMessage("u", (Text("The log says:\n" + "error\n" * 40_000 + "Why?"),))]
    state = replace(state_of(giant), turn_from=1)
    result = run(state, MUST_FIT, Model(["refused"]))
    assert result is not None
    [message] = result.messages
    assert isinstance(message.parts[0], Text)
    assert message.parts[0].text.startswith("The log says:")
    assert message.parts[0].text.endswith("Why?")
    assert result.tokens_after <= state.budget.limit


@settings(deadline=None)
@given(st.integers(1, 60), st.integers(1, 50))
def test_no_result_holds_more_images_than_a_request_may(count: int, most: int) -> None:
    messages = history(8, 4_000)
    image = Image("iVBO", "image/png")
    messages += [UserMessage("i", (*[image] * count, Text("See."))), AssistantMessage("j", (Text("Seen."),))]
    policy = replace(AT_THRESHOLD, max_images=most, max_bytes=1_000_000)
    assume(Limits(most, None).exceeded(messages))
    for steps, moves in ((None, ["overflow"]), (("summary",), ["summary"])):
        result = run(state_of(messages, window=500_000), replace(policy, steps=steps), Model(moves))
        assert result is not None
        assert not Limits(most, None).exceeded(result.messages)


def test_the_new_size_is_told_in_the_providers_tokens() -> None:
    messages = history(8, 4_000)
    plain, double = (run(state_of(messages, used), BY_HAND, Model(["summary"])) for used in (None, 16_200))
    assert plain is not None
    assert double is not None
    estimated = estimate_messages(double.messages)
    assert double.tokens_after == pytest.approx(estimated * 16_200 / estimate_messages(messages), abs=2)
    assert plain.tokens_after == estimate_messages(plain.messages)


@pytest.mark.parametrize("policy", [AT_THRESHOLD, MUST_FIT])
def test_the_oldest_gives_way_first_and_the_newest_stays(policy: CompactionPolicy) -> None:
    state = state_of(history(20, 400, 2_400), 16_000)
    result = run(state, replace(policy, steps=("mask",)), Model(["down"]))
    assert result is not None
    results = [message.text for message in result.messages if isinstance(message, ToolResult)]
    masked = [text.startswith("[masked result]") for text in results]
    assert masked == sorted(masked, reverse=True)
    assert masked[0]
    assert not masked[-1]
    shorter = run(state, replace(MUST_FIT, steps=("ledger",)), Model(["down"]))
    assert shorter is not None
    assert shorter.messages[-1] == state.entries[-1].message
