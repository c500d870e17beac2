"""What the receipt, the model and the stream report if a compaction has to make the
context fit.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from acp_agent.compaction import ConversationState
from acp_agent.compaction.budget import Limits
from acp_agent.conversation.messages import (
    AssistantMessage,
    Image,
    Text,
    ToolCall,
    ToolResult,
    UserMessage,
)
from acp_agent.errors import AgentError, ModelRequestError
from acp_agent.llm.provider import NativeCompaction, ToolDefinition
from support.ladder import (
    MANUAL,
    MUST_FIT,
    Model,
    Move,
    OwnCompaction,
    fails,
    history,
    run,
    says,
)

STRATEGIES = ("summary", "native", "mask", "excerpts")
RECALL = ToolDefinition("recall", "Reads entries.", {"type": "object"})


@pytest.mark.parametrize(
    ("strategy", "native", "answer", "said"),
    [
        ("summary", None, "blank", "The model answered with an empty summary."),
        (
            "summary",
            None,
            fails(ModelRequestError("The model is not there.")),
            "The model is not there.",
        ),
        ("summary", None, "larger than all", "so it was not used."),
        (
            "native",
            None,
            "summary",
            "The model's provider has no compaction of its own.",
        ),
        (
            "native",
            OwnCompaction(error=ModelRequestError("No block came.")),
            "summary",
            "No block came.",
        ),
        ("no-such", None, "summary", "summary."),
    ],
)
def test_a_receipt_says_why_a_step_was_skipped(
    strategy: str, native: NativeCompaction | None, answer: str | Move, said: str
) -> None:
    state = ConversationState.of(history(20, 6_000), window=36_000)
    result = run(
        state, replace(MUST_FIT, strategy=strategy), Model([answer]), native=native
    )
    assert result is not None
    assert result.strategy != strategy
    first = result.receipt.notes[0]
    assert first.endswith(said)
    assert "hange" not in "".join(result.receipt.notes)
    with pytest.raises(
        AgentError, match=r"history is unchanged|Nothing was changed"
    ) as caught:
        run(state, replace(MANUAL, strategy=strategy), Model([answer]), native=native)
    assert said.rstrip(".") in str(caught.value)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_context_mentions_recall_only_if_the_model_has_it(strategy: str) -> None:
    image = UserMessage("i", (Image("iVBO", "image/png"), Text("See.")))
    calls = AssistantMessage("c", (ToolCall("c", "read", {"path": "a"}),))
    read = [calls, ToolResult("c", (Text("cart_total\n" * 3_200),))]
    messages = [
        UserMessage("q", (Text("Read it."),)),
        *read,
        *history(5, 3_000),
        *[image] * 9,
        *history(1, 2_000),
    ]
    messages += [
        UserMessage(
            "p", (Text("log\n" * (24_000 if strategy == "excerpts" else 8_000)),)
        )
    ]
    policy = replace(
        MUST_FIT, strategy=strategy, limits=Limits(8), tail=1_000, steps=(strategy,)
    )
    policy = replace(policy, manual=strategy == "mask", must_fit=strategy != "mask")
    for tools in ((), (RECALL,)):
        state = ConversationState.of(messages, window=40_000, tools=tools)
        state = replace(state, turn_from=len(messages))
        result = run(
            state,
            policy,
            Model([says("# Goal\n" + "word " * 3_000)]),
            native=OwnCompaction(),
        )
        assert result is not None
        assert ("recall" in str((result.messages, result.summary))) == bool(tools)
        for rewrite in result.rewritten:
            assert ("`recall` reads entry" in str(rewrite.message)) == bool(tools)
