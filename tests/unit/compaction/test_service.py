"""The ladder of strategies, and which results are accepted. The model is a function in
these tests.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from acp_agent.compaction.budget import Limits
from acp_agent.compaction.calls import MAX_REQUESTS, ModelCalls
from acp_agent.compaction.cuts import Cut
from acp_agent.compaction.estimate import estimate_messages, estimate_text
from acp_agent.compaction.layers import size_of
from acp_agent.compaction.service import CompactionService
from acp_agent.compaction.state import CompactionPolicy
from acp_agent.compaction.strategies import by_name, installed_strategies
from acp_agent.compaction.strategy import Draft, Task, Writer
from acp_agent.conversation.messages import (
    AssistantMessage,
    CompactedBlock,
    Image,
    Message,
    Text,
    ToolResult,
    Usage,
    UserMessage,
)
from acp_agent.errors import AgentError, CompactionError, ModelUnavailableError
from acp_agent.llm.provider import ModelRequest
from support.ladder import (
    AT_THRESHOLD,
    MANUAL,
    MOVES,
    MUST_FIT,
    WINDOW,
    Model,
    answered,
    history,
    run,
    state_of,
)


class DownToo:
    """A provider's own compaction that must not be called."""

    keeps_user_messages = False

    async def compact(
        self,
        request: ModelRequest,
        instructions: str,
        note: Callable[[Any], None] = lambda event: None,
    ) -> tuple[CompactedBlock, Usage]:
        raise ModelUnavailableError("down")


@given(
    st.lists(st.sampled_from(list(MOVES)), min_size=1, max_size=8),
    st.sampled_from([MANUAL, AT_THRESHOLD, MUST_FIT]),
    st.sampled_from(
        [(12, 4_000, 0), (6, 2_000, 6_000), (3, 20_000, 30_000), (60, 400, 800)]
    ),
    st.sampled_from([None, 17_000, WINDOW, 35_000]),
)
def test_every_outcome_is_a_smaller_context_or_a_clear_error(
    moves: list[str],
    policy: CompactionPolicy,
    shape: tuple[int, int, int],
    used: int | None,
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
            long = (
                estimate_text(result.summary) * max(1, state.calibration)
                if "word" in result.summary
                else 0
            )
            assert result.tokens_after <= policy.size_tokens(state) + long
        assert "# Go" not in result.summary or "# Goal" in result.summary


class OwnCut:
    """A strategy that cuts at another place than `Task.cut`."""

    name = "summary"

    def __init__(self, tail: int | None) -> None:
        self._tail = tail

    async def draft(self, task: Task) -> Draft | None:
        return Draft(task.cut(self._tail), "# Goal\nA cart.")


@pytest.mark.parametrize("tail", [None, 0, 1_500, 9_000])
def test_the_size_limit_holds_wherever_a_strategy_cuts(
    tail: int | None,
) -> None:
    state = state_of(history(16, 4_000))
    policy = replace(AT_THRESHOLD, steps=("summary",))
    result = run(
        state, policy, Model(["summary"]), CompactionService({"summary": OwnCut(tail)})
    )
    assert result is not None
    cut = Task(
        state, policy, size_of(state, policy), ModelCalls(Model(["summary"]))
    ).cut(tail)
    assert cut is not None
    assert result.boundary == cut.summarised[-1].seq
    assert result.messages[1:] == tuple(entry.message for entry in cut.kept)
    assert estimate_messages(result.messages) <= policy.size_tokens(state)


@given(st.integers(1, 6), st.integers(0, 2_000), st.integers(1, 12_000))
def test_a_summary_is_used_only_if_it_shortens_the_conversation(
    turns: int, characters: int, length: int
) -> None:
    messages = history(turns, characters)
    before = estimate_messages(messages)
    MOVES["so long"] = lambda _: answered(Text("s" * length))
    try:
        result = run(state_of(messages), MANUAL, Model(["so long"]))
    except CompactionError:
        # The layers around a summary take a few hundred tokens.
        assert before < estimate_text("s" * length) + 500
        return
    assert result is not None
    assert estimate_messages(result.messages) < before


def test_an_unavailable_provider_is_not_asked_again() -> None:
    model = Model(["down"])
    result = run(state_of(history(12, 4_000)), MUST_FIT, model)
    assert result is not None
    assert (result.strategy, model.wire) == ("excerpts", 1)
    assert any("down" in note for note in result.receipt.notes)
    result = run(
        state_of(history(12, 4_000)),
        replace(MUST_FIT, strategy="native"),
        model,
        native=DownToo(),
    )
    assert result is not None
    assert (result.strategy, model.wire) == ("excerpts", 1)


def test_another_model_writes_the_summary_if_the_provider_is_unavailable() -> None:
    model = Model(["summary"])
    result = run(
        state_of(history(12, 4_000)),
        replace(MUST_FIT, strategy="native"),
        model,
        native=DownToo(),
        writer=Writer("other", WINDOW, 4_000),
    )
    assert result is not None
    assert result.strategy == "summary"


def test_a_failing_package_strategy_does_not_stop_the_ladder() -> None:
    class Broken:
        name = "broken"

        async def draft(self, task: Task) -> Draft | None:
            raise KeyError(task.window)

    service = CompactionService({**installed_strategies(), **by_name([Broken()])})
    policy = replace(MUST_FIT, strategy="broken")
    result = run(state_of(history(12, 4_000)), policy, Model(["summary"]), service)
    assert result is not None
    assert result.strategy == "excerpts"
    with pytest.raises(CompactionError, match=r"'broken' failed inside \(KeyError"):
        run(
            state_of(history(12, 4_000)),
            replace(policy, manual=True, must_fit=False),
            Model(["summary"]),
            service,
        )


@pytest.mark.parametrize(
    "policy",
    [MANUAL, AT_THRESHOLD, MUST_FIT],
    ids=["by hand", "threshold", "must fit"],
)
def test_a_strategy_that_replaces_messages_with_nothing_is_refused(
    policy: CompactionPolicy,
) -> None:
    class Eraser:
        name = "eraser"

        async def draft(self, task: Task) -> Draft | None:
            entries = task.state.entries
            return Draft(Cut(entries[:1], (), entries[1:]), "")

    # No text of the user is removed, and there is no room for excerpts.
    answer = AssistantMessage("a1", (Text("a" * 40_000),))
    prompt = UserMessage("u1", (Text("u" * 30_000),))
    state = state_of([answer, prompt, AssistantMessage("a2", (Text("Yes."),))], 18_000)
    service = CompactionService({"eraser": Eraser()})
    with pytest.raises(
        CompactionError,
        match=r"'eraser' removes messages, but puts nothing.*The history is unchanged",
    ):
        run(state, replace(policy, steps=("eraser",)), Model(["summary"]), service)


def test_a_single_huge_prompt_is_shortened() -> None:
    giant: list[Message] = [
        UserMessage("u", (Text("The log says:\n" + "error\n" * 40_000 + "Why?"),))
    ]
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
def test_no_compacted_context_exceeds_the_image_limit(count: int, most: int) -> None:
    messages = history(8, 4_000)
    image = Image("iVBO", "image/png")
    messages += [
        UserMessage("i", (*[image] * count, Text("See."))),
        AssistantMessage("j", (Text("Seen."),)),
    ]
    policy = replace(AT_THRESHOLD, limits=Limits(most, 1_000_000))
    assume(Limits(most, None).exceeded(messages))
    for steps, moves in ((None, ["overflow"]), (("summary",), ["summary"])):
        result = run(
            state_of(messages, window=500_000),
            replace(policy, steps=steps),
            Model(moves),
        )
        assert result is not None
        assert not Limits(most, None).exceeded(result.messages)


@pytest.mark.parametrize("policy", [AT_THRESHOLD, MUST_FIT])
def test_the_oldest_message_is_shortened_first(
    policy: CompactionPolicy,
) -> None:
    state = state_of(history(20, 400, 2_400), 16_000)
    result = run(state, replace(policy, steps=("mask",)), Model(["down"]))
    assert result is not None
    results = [
        message.text for message in result.messages if isinstance(message, ToolResult)
    ]
    masked = [text.startswith("[masked result]") for text in results]
    assert masked == sorted(masked, reverse=True)
    assert masked[0]
    assert not masked[-1]
    shorter = run(state, replace(MUST_FIT, steps=("excerpts",)), Model(["down"]))
    assert shorter is not None
    assert shorter.messages[-1] == state.entries[-1].message
