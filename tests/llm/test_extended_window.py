"""A Claude model that is named for its window of a million tokens: every request opens it, and names the model as its
API does."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.client import connected_agent
from support.editors import ZED_BETA
from support.models import Reply, Usage, model_server

BETA = "context-1m-2025-08-07"
STRATEGIES = {"summary": 0, "native": 1}
"""Further values of the header that the summary's request has."""


@pytest.mark.parametrize("strategy", STRATEGIES)
async def test_the_suffix_opens_the_window_in_live_requests_summaries_and_counts(tmp_path: Path, strategy: str) -> None:
    said = "The cart adds prices. " * 150_000
    async with model_server(lambda _: Reply("The cart.", usage=Usage(1_000, 5)), "anthropic") as server:
        server.write_config(tmp_path, {"compaction": {"prepare": False, "strategy": strategy}})
        env = server.env() | {"ACP_AGENT_MODEL": "anthropic/claude-sonnet-4-5[1M]"}
        async with connected_agent(home=tmp_path, env=env, capabilities=ZED_BETA) as agent:
            session = await agent.new_session(tmp_path)
            for question in ("Hello", "And now?", said, "/compact"):
                assert await agent.prompt(session, question, 60) == {"stopReason": "end_turn"}
            assert {update["size"] for update in agent.updates(kind="usage_update")} == {1_000_000}
        asked = [request for request in server.requests if request.path.startswith("/v1/messages")]
        assert any("count_tokens" in request.path for request in asked)
        assert len(server.calls) == 4
        assert {request.body["model"] for request in asked} == {"claude-sonnet-4-5"}
        betas = [request.headers["anthropic-beta"].split(",") for request in asked]
        assert all(BETA in values for values in betas)
        assert len(server.calls[-1].headers["anthropic-beta"].split(",")) == 1 + STRATEGIES[strategy]


async def test_a_model_that_has_the_window_anyway_needs_no_header(tmp_path: Path) -> None:
    async with model_server([Reply("Hi")], "anthropic") as server:
        server.write_config(tmp_path, {})
        env = server.env() | {"ACP_AGENT_MODEL": "anthropic/claude-opus-4-6[1m]"}
        async with connected_agent(home=tmp_path, env=env, capabilities=ZED_BETA) as agent:
            await agent.prompt(await agent.new_session(tmp_path), "Hello", 60)
            assert agent.updates(kind="usage_update")[-1]["size"] == 1_000_000
    [call] = server.calls
    assert call.body["model"] == "claude-opus-4-6"
    assert "anthropic-beta" not in call.headers
