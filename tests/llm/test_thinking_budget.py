"""Claude's thinking budget while the window fills: another budget is another prompt for the provider's cache."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from acp_agent.compaction.budget import TokenBudget
from acp_agent.conversation.messages import Text, UserMessage
from acp_agent.llm import anthropic_wire
from acp_agent.llm.profiles import ModelProfile, profile
from acp_agent.llm.provider import ModelRequest
from support.dialogues import asks_for_summary, check_continues
from support.replies import Reply, Usage
from support.stage import stage

MODELS = ["claude-3-7-sonnet", "claude-opus-4", "claude-haiku-4-5"]
LEVELS = ["low", "medium", "high"]
LONGEST_RECIPE = 1_500
"""Tokens that a summary request has more than the live one."""


def known(model: str, window: int) -> ModelProfile:
    return replace(profile(model), context_window=window)


def body(model: ModelProfile, level: str, used: int) -> dict[str, Any]:
    """The request of a session whose context has `used` tokens, as the session sizes it."""
    wanted = min(model.max_output_tokens, model.context_window // 2)
    budget = TokenBudget(model.context_window, wanted)
    message = UserMessage("u", (Text("And now?"),))
    return anthropic_wire.request_body(
        ModelRequest("m", "", (message,), (), budget.output(used, wanted), level), model, "anthropic"
    )


def budget_of(request: dict[str, Any]) -> int:
    return request["thinking"]["budget_tokens"] if "thinking" in request else 0


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("window", [10_000, 20_000, 32_000, 40_000, 64_000, 100_000, 200_000])
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


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("level", LEVELS)
def test_up_to_the_very_end_of_the_window_the_budget_takes_few_values_and_leaves_room_for_the_answer(
    model: str, level: str
) -> None:
    profile = known(model, 200_000)
    requests = [body(profile, level, used) for used in range(0, 200_000, 500)]
    budgets = list(dict.fromkeys(map(budget_of, requests)))
    assert budgets == sorted(budgets, reverse=True)
    assert len(budgets) <= 4
    assert budgets[-1] == 1_024
    assert all(3 * budget_of(request) <= 2 * request["max_tokens"] for request in requests)


def test_what_a_session_that_fills_its_window_sends() -> None:
    profile = known("claude-haiku-4-5", 200_000)
    sent = {used: body(profile, "high", used) for used in (0, 120_000, 150_000, 159_000, 160_000, 190_000, 199_000)}
    said = {used: (request["max_tokens"], request["thinking"]) for used, request in sent.items()}
    assert said == snapshot(
        {
            0: (64000, {"type": "enabled", "budget_tokens": 24576}),
            120000: (64000, {"type": "enabled", "budget_tokens": 24576}),
            150000: (46000, {"type": "enabled", "budget_tokens": 24576}),
            159000: (37000, {"type": "enabled", "budget_tokens": 24576}),
            160000: (36000, {"type": "enabled", "budget_tokens": 12288}),
            190000: (6000, {"type": "enabled", "budget_tokens": 1024}),
            199000: (2048, {"type": "enabled", "budget_tokens": 1024}),
        }
    )


@given(st.sampled_from(LEVELS), st.integers(1, 70_000), st.integers(1_000, 1_000_000), st.integers(1, 130_000))
def test_a_budget_is_one_that_the_api_takes_and_never_above_its_level(
    level: str, max_tokens: int, window: int, longest: int
) -> None:
    profile = ModelProfile(window, longest, thinking="budget")
    request = ModelRequest("m", "", (UserMessage("u", (Text("x"),)),), (), max_tokens, level)
    options: Any = anthropic_wire.thinking_options(request, profile)
    if options:
        budget = options["thinking"]["budget_tokens"]
        assert 1_024 <= budget < max_tokens
        assert budget <= {"low": 4_096, "medium": 12_288, "high": 24_576}[level]
    # Where there is room for the least budget, thought that was asked for is not given up.
    elif window >= 8 * 1_024 and longest >= 2 * 1_024:
        assert max_tokens < 1_536


async def test_a_session_up_to_its_compaction_and_the_summary_request_think_alike(tmp_path: Path) -> None:
    def answer(body: Mapping[str, Any]) -> Reply:
        return Reply("# Goal\nA cart." if asks_for_summary(body) else "The cart adds prices. " * 500)

    config = {"thought_level": "high", "compaction": {"prepare": False, "wait": True}}
    env = {"ACP_AGENT_CONTEXT_WINDOW": "40000", "ACP_AGENT_MODEL": "anthropic/claude-sonnet-4-5"}
    async with stage(tmp_path, script=answer, config=config, env=env, dialect="anthropic") as it:
        while not any(asks_for_summary(call.body) for call in it.server.calls):
            assert await it.prompt("Go on.") == {"stopReason": "end_turn"}
        *live, summary, after = [call.body for call in it.server.calls]
        assert len({body["max_tokens"] for body in live}) > 1
        assert [body["thinking"] for body in (*live, summary, after)] == [
            {"type": "enabled", "budget_tokens": 5_000}
        ] * (len(live) + 2)
        check_continues(summary, live[-1])


async def test_a_summary_request_at_the_edge_of_a_step_thinks_as_the_live_request_does_and_fits(tmp_path: Path) -> None:
    said = "The cart adds up prices. " * 24_000
    script = [Reply("Hello."), Reply("Yes.", usage=Usage(158_990, 10)), Reply("# Goal\nA cart.")]
    env = {"ACP_AGENT_MODEL": "anthropic/claude-haiku-4-5"}
    config = {"thought_level": "high", "compaction": {"prepare": False}}
    async with stage(tmp_path, script=script, config=config, env=env, dialect="anthropic") as it:
        await it.prompt("Hello?")
        await it.prompt(said)
        await it.prompt("/compact")
        _, live, summary = [call.body for call in it.server.calls]
        assert summary["thinking"] == live["thinking"] == {"type": "enabled", "budget_tokens": 24_576}
        # What the live request would get now; the recipe comes on top of what is in use.
        assert summary["max_tokens"] * 2 >= 24_576 * 3
        assert 159_000 + summary["max_tokens"] + LONGEST_RECIPE <= 200_000
        check_continues(summary, live)
