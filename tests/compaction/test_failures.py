"""Compactions that fail or are cancelled: it is said once, and the history is what it was."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from support.client import AgentError, AgentProcess, connected_agent
from support.compactions import RECIPE_TEXT, bare, shown_compactions
from support.editors import ZED, ZED_BETA
from support.models import ModelServer, Reply, ToolCall, model_server

LONG = "The cart adds prices. " * 250
TOOLS = Reply("Let me look.", tool_calls=[ToolCall("shell", {"command": "touch ran"})])


async def assert_nothing_happened(agent: AgentProcess, server: ModelServer, session: str, summary_call: int) -> None:
    """The next request holds what was there before, and it is answered."""
    server.add(Reply("Still here."))
    assert await agent.prompt(session, "Go on.") == {"stopReason": "end_turn"}
    before, after = bare(server.calls[summary_call].body), bare(server.calls[-1].body)
    assert after["messages"][-1] == {"role": "user", "content": [{"type": "text", "text": "Go on."}]}
    assert {**after, "messages": after["messages"][:-1]} == {**before, "messages": before["messages"][:-1]}
    assert not server.calls[-1].mentions(RECIPE_TEXT)


async def test_a_summary_that_comes_after_tool_calls_were_refused_is_used(tmp_path: Path) -> None:
    async with (
        model_server([Reply(LONG), TOOLS, TOOLS, Reply("# Goal\nA cart."), Reply("After.")]) as server,
        connected_agent(home=tmp_path, env=server.env(), capabilities=ZED_BETA) as agent,
    ):
        session = await agent.new_session(tmp_path)
        await agent.prompt(session, "Count.")
        assert await agent.prompt(session, "/compact") == {"stopReason": "end_turn"}
        [compaction] = shown_compactions(agent)
        assert (compaction.statuses, compaction.text) == (["in_progress", "completed"], "# Goal\nA cart.")
        asked = [bare(call.body) for call in server.calls[1:4]]
        for shorter, longer in pairwise(asked):
            count = len(shorter["messages"])
            assert {**longer, "messages": longer["messages"][:count]} == shorter
            [refusal] = longer["messages"][-1]["content"]
            assert refusal["is_error"]
        assert agent.updates(kind="tool_call") == []
        assert not (tmp_path / "ran").exists()
        await agent.prompt(session, "Go on.")
        assert not server.calls[-1].mentions("Let me look.")


async def test_a_model_that_answers_with_nothing_but_tool_calls_fails_and_nothing_runs(tmp_path: Path) -> None:
    async with (
        model_server([Reply(LONG), TOOLS, TOOLS, TOOLS]) as server,
        connected_agent(home=tmp_path, env=server.env(), capabilities=ZED_BETA) as agent,
    ):
        session = await agent.new_session(tmp_path)
        await agent.prompt(session, "Count.")
        assert await agent.prompt(session, "/compact") == {"stopReason": "end_turn"}
        assert shown_compactions(agent)[0].statuses == ["in_progress", "failed"]
        assert server.remaining == 0
        assert not (tmp_path / "ran").exists()
        await assert_nothing_happened(agent, server, session, 1)


async def test_a_provider_that_fails_again_and_again_changes_nothing(tmp_path: Path) -> None:
    down = Reply(http_status=500, headers={"retry-after": "0"})
    async with (
        model_server([Reply(LONG)] + [down] * 7, "openai") as server,
        connected_agent(home=tmp_path, env=server.env(), capabilities=ZED) as agent,
    ):
        session = await agent.new_session(tmp_path)
        await agent.prompt(session, "Count.")
        with pytest.raises(AgentError, match="did not answer"):
            await agent.prompt(session, "/compact")
        [compaction] = shown_compactions(agent)
        assert compaction.statuses == ["in_progress", "failed"]
        await assert_nothing_happened(agent, server, session, 1)
