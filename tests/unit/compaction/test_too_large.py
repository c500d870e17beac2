"""A request that certainly does not fit and cannot be shortened is not sent. One that
may fit is.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.client import AgentError
from support.compactions import shown_compactions
from support.editors import ZED_BETA
from support.memory import agent_in_memory
from support.models import Reply, Usage, model_server

TINY = {"ACP_AGENT_CONTEXT_WINDOW": "700"}
"""Less than the system prompt and the tools take, which no compaction can shorten."""
LONG = "The cart adds prices. " * 900


@pytest.mark.parametrize("dialect", ["anthropic", "openai"])
async def test_a_request_that_is_certainly_too_large_is_not_sent(
    tmp_path: Path, dialect: Any
) -> None:
    async with (
        model_server((), dialect) as server,
        agent_in_memory(
            home=tmp_path, env=server.env() | TINY, capabilities=ZED_BETA
        ) as agent,
    ):
        session = await agent.new_session(tmp_path)
        with pytest.raises(
            AgentError,
            match=r"does not fit the model's context window \(700\).*not sent",
        ) as error:
            await agent.prompt(session, "Hello?")
        assert "larger window" in error.value.message
        assert server.calls == []
        # A larger model answers, and the prompt that nobody could answer is not in its
        # way.
        assert "left out" in error.value.message


async def test_a_session_too_large_for_every_strategy_sends_no_request(
    tmp_path: Path,
) -> None:
    config = {
        "models": {
            "openai/gpt-test": {"context_window": 40_000},
            "openai/tiny-test": {"context_window": 1_200},
        },
        "compaction": {"prepare": False},
    }
    script = [Reply(LONG, usage=Usage(9_000, 400)), Reply("Here.")]
    async with model_server(script, "openai") as server:
        server.write_config(tmp_path, config)
        async with agent_in_memory(
            home=tmp_path, env=server.env(), capabilities=ZED_BETA
        ) as agent:
            session = await agent.new_session(tmp_path)
            await agent.prompt(session, "One?")
            await agent.set_config_option(session, "model", "openai/tiny-test")
            with pytest.raises(AgentError, match="not sent"):
                await agent.prompt(session, "Two?")
            assert [call.body["model"] for call in server.calls] == ["gpt-test"]
            assert shown_compactions(agent) == []
            await agent.set_config_option(session, "model", "openai/gpt-test")
            assert await agent.prompt(session, "Three?") == {"stopReason": "end_turn"}
            assert server.calls[-1].mentions(LONG)
            assert not server.calls[-1].mentions("Two?")
