"""Claude's thinking budget while the window fills: another budget is another prompt for
the provider's cache.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_agent.compaction.budget import TokenBudget
from acp_agent.conversation.messages import Text, UserMessage
from acp_agent.llm.profiles import ModelProfile, profile
from acp_agent.llm.provider import ModelRequest
from support.adapters import wire_body

MODELS = ["claude-opus-4", "claude-haiku-4-5"]
LEVELS = ["low", "medium", "high"]
LONGEST_RECIPE = 1_500
"""Tokens that a summary request has more than the live one."""


def known(model: str, window: int) -> ModelProfile:
    return replace(profile(model), context_window=window)


def body(model: ModelProfile, level: str, used: int) -> dict[str, Any]:
    """The request of a session whose context has `used` tokens, as the session sizes
    it.
    """
    wanted = min(model.max_output_tokens, model.context_window // 2)
    budget = TokenBudget(model.context_window, wanted)
    message = UserMessage("u", (Text("And now?"),))
    return wire_body(
        "anthropic",
        ModelRequest("m", "", (message,), (), budget.output(used, wanted), level),
        model,
        "anthropic",
    )


def budget_of(request: dict[str, Any]) -> int:
    return request["thinking"]["budget_tokens"] if "thinking" in request else 0


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(
    "window", [10_000, 20_000, 32_000, 40_000, 64_000, 100_000, 200_000]
)
def test_within_the_usable_window_every_request_and_the_summary_request_think_alike(
    model: str, level: str, window: int
) -> None:
    profile = known(model, window)
    usable = TokenBudget(window, profile.max_output_tokens).usable
    extra = min(LONGEST_RECIPE, window // 32)
    first = body(profile, level, 0)
    for used in range(0, usable + extra, max(1, window // 200)):
        request = body(profile, level, used)
        assert request.get("thinking") == first.get("thinking")
        assert budget_of(request) < request["max_tokens"]


@given(
    st.sampled_from(LEVELS),
    st.integers(1, 70_000),
    st.integers(1_000, 1_000_000),
    st.integers(1, 130_000),
)
def test_a_budget_is_one_that_the_api_takes_and_never_above_its_level(
    level: str, max_tokens: int, window: int, longest: int
) -> None:
    profile = ModelProfile(window, longest, thinking="budget")
    request = ModelRequest(
        "m", "", (UserMessage("u", (Text("x"),)),), (), max_tokens, level
    )
    if budget := budget_of(wire_body("anthropic", request, profile)):
        assert 1_024 <= budget < max_tokens
        assert budget <= {"low": 4_096, "medium": 12_288, "high": 24_576}[level]
