"""The agent with a model server that this project did not write, in each provider's dialect."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from support.aimock import DIALECTS, PATHS, Dialect, aimock, fixture
from support.client import connected_agent
from support.compactions import RECIPE_TEXT
from support.editors import ZED_BETA
from support.repo import BUG, make_repo

READ = fixture("Look at", {"toolCalls": [{"name": "read", "arguments": {"path": "shop/cart.py"}}]}, hasToolResult=False)
FOUND = "`Cart.total` forgets the quantity. " * 120
ANSWER = fixture("Look at", {"content": FOUND}, hasToolResult=True)
SUMMARY = "## Goal and requirements\nThe user looked at `shop/cart.py`; `Cart.total` forgets the quantity: café, 価格."
NEXT = fixture("What is next", {"content": "Repair it."})
LONG = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen"
TOOLS = {"read", "write", "edit", "list", "glob", "grep", "shell"}

each_dialect = pytest.mark.parametrize("dialect", DIALECTS)


def cut(prompt: str, text: str) -> dict[str, Any]:
    """A fixture whose stream is cut in the middle of its text."""
    return fixture(prompt, {"content": text}, chunkSize=8, truncateAfterChunks=8, latency=2)


@each_dialect
async def test_a_tool_runs_and_its_result_goes_back_to_the_model(dialect: Dialect, tmp_path: Path) -> None:
    repo = make_repo(tmp_path / "shop")

    async with (
        aimock([READ, ANSWER], dialect, tmp_path) as server,
        connected_agent(home=tmp_path, env=server.env, capabilities=ZED_BETA) as agent,
    ):
        session = await agent.new_session(repo.path)
        result = await agent.prompt(session, "Look at shop/cart.py")
        asked, told = await server.journal()

    assert result == {"stopReason": "end_turn"}
    assert agent.text() == FOUND
    assert agent.desk.reads == [str(repo.program)]
    assert asked.path == told.path == PATHS[dialect]
    assert asked.body["stream"] is True
    assert {tool["function"]["name"] for tool in asked.body["tools"]} >= TOOLS
    assert "Prices are whole cents." in asked.text("system")
    assert asked.text("user") == "Look at shop/cart.py"
    call, answered = told.messages[-2:]
    assert call["tool_calls"][0]["function"]["name"] == "read"
    assert json.loads(call["tool_calls"][0]["function"]["arguments"]) == {"path": "shop/cart.py"}
    assert answered["tool_call_id"] == call["tool_calls"][0]["id"]
    assert BUG in told.text("tool")


@each_dialect
async def test_after_compact_the_model_gets_the_summary_in_place_of_the_conversation(
    dialect: Dialect, tmp_path: Path
) -> None:
    repo = make_repo(tmp_path / "shop")
    fixtures = [fixture(RECIPE_TEXT, {"content": SUMMARY}), NEXT, READ, ANSWER]  # the first that fits answers

    async with aimock(fixtures, dialect, tmp_path) as server:
        async with connected_agent(home=tmp_path, env=server.env, capabilities=ZED_BETA) as agent:
            session = await agent.new_session(repo.path)
            await agent.prompt(session, "Look at shop/cart.py")
            await agent.prompt(session, "/compact keep the amounts in euros")
            used = [update["used"] for update in agent.updates(kind="usage_update")]
            assert agent.text("compaction_summary_chunk") == SUMMARY
            [begun, done] = agent.updates(kind="compaction_update")
            agent.kill()
            await agent.wait_exit()
        async with connected_agent(home=tmp_path, env=server.env, capabilities=ZED_BETA) as agent:
            await agent.resume(session, repo.path)
            await agent.prompt(session, "What is next?")
            assert agent.text() == "Repair it."
        *_, asked_summary, asked_next = await server.journal()

    assert (begun["status"], done["status"]) == ("in_progress", "completed")
    assert done["summary"][0] == {"type": "text", "text": SUMMARY}
    assert used[-1] < used[-2]
    assert "keep the amounts in euros" in asked_summary.text("user")
    assert SUMMARY in asked_next.text("user")
    assert "What is next?" in asked_next.text("user")
    assert RECIPE_TEXT not in asked_next.text("user")
    assert BUG not in json.dumps(asked_next.body)


@each_dialect
async def test_a_summary_whose_stream_is_cut_leaves_the_conversation_as_it_was(
    dialect: Dialect, tmp_path: Path
) -> None:
    repo = make_repo(tmp_path / "shop")

    async with (
        aimock([cut(RECIPE_TEXT, LONG), READ, ANSWER, NEXT], dialect, tmp_path) as server,
        connected_agent(home=tmp_path, env=server.env, capabilities=ZED_BETA) as agent,
    ):
        session = await agent.new_session(repo.path)
        await agent.prompt(session, "Look at shop/cart.py")
        since = len(agent.lines)
        await agent.prompt(session, "/compact")
        said = agent.text(since=since)
        statuses = [update["status"] for update in agent.updates(kind="compaction_update")]
        await agent.prompt(session, "What is next?")
        _, told, summary, following = await server.journal()

    assert statuses == ["in_progress", "failed"]
    assert "broke off" in said
    assert summary.interrupted
    assert list(following.messages[: len(told.messages)]) == list(told.messages)
    assert FOUND.strip() in following.text("assistant")
    assert RECIPE_TEXT not in following.text("user")
    assert LONG[:16] not in json.dumps(following.body)
