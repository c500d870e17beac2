"""Tool calls: announced, run in order, returned to the model whatever it got wrong, and
bounded.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from support.editors import BARE, TOAD, Editor
from support.memory import stage
from support.replies import Reply, ToolCall, Usage
from support.stage import conversation, results


async def test_ids_that_the_model_repeats_become_different_ones(tmp_path: Path) -> None:
    twice = [
        ToolCall("read", {"path": "a.txt"}, id="same"),
        ToolCall("list", {}, id="same"),
    ]
    replies = [Reply(tool_calls=twice), Reply(tool_calls=twice[:1]), Reply("Done.")]
    async with stage(tmp_path, *replies, dialect="anthropic") as it:
        assert await it.prompt() == {"stopReason": "end_turn"}
        ids = [call["toolCallId"] for call in it.calls()]
        assert len(ids) == len(set(ids)) == 3
        assert "same" not in ids
        for call in it.server.calls[1:]:
            asked = [
                block["id"]
                for message in call.body["messages"]
                for block in message["content"]
                if isinstance(block, dict) and block["type"] == "tool_use"
            ]
            assert len(asked) == len(set(asked))
        assert len(results(it.server.calls[1].body)) == 2


@pytest.mark.parametrize("editor", [TOAD, BARE], ids=["toad", "bare"])
async def test_the_plan_is_shown_whole_each_time_and_once_more_with_load(
    tmp_path: Path, editor: Editor
) -> None:
    first = [
        {"content": "Read", "status": "in_progress", "priority": "high"},
        {"content": "Write"},
    ]
    second = [
        {"content": "Read", "status": "completed"},
        {"content": "Write", "status": "in_progress"},
    ]
    replies = [
        *(
            Reply(tool_calls=[ToolCall("plan", {"entries": plan})])
            for plan in (first, second)
        ),
        Reply("Done."),
    ]
    async with stage(tmp_path, *replies, editor=editor) as it:
        await it.prompt()
        plans = [update["entries"] for update in it.agent.updates(kind="plan")]
        assert plans[0] == [
            first[0],
            {"content": "Write", "status": "pending", "priority": "medium"},
        ]
        assert [entry["status"] for entry in plans[1]] == ["completed", "in_progress"]
        heard = len(it.agent.lines)
        await it.agent.load(it.session, it.folder)
        assert it.agent.updates(kind="plan", since=heard)[-1]["entries"] == plans[1]


async def test_a_turn_without_end_stops_at_the_limit_and_the_next_prompt_works(
    tmp_path: Path,
) -> None:
    def answer(request: Mapping[str, Any]) -> Reply:
        if conversation(request)[-1][1].endswith("Enough"):
            return Reply("Yes.")
        return Reply(tool_calls=[ToolCall("list", {})])

    async with stage(tmp_path, script=answer, config={"max_turn_requests": 3}) as it:
        assert await it.prompt("Go on for ever") == {"stopReason": "max_turn_requests"}
        assert len(it.server.calls) == 3
        assert [call["status"] for call in it.calls()] == ["completed"] * 3
        assert await it.prompt("Enough") == {"stopReason": "end_turn"}


async def test_a_turn_that_costs_too_much_stops(tmp_path: Path) -> None:
    config = {
        "max_turn_cost": 0.001,
        "models": {
            "anthropic/claude-test": {"prices": {"input": 1000.0, "output": 1000.0}}
        },
    }
    async with stage(
        tmp_path,
        Reply(tool_calls=[ToolCall("list", {})]),
        config=config,
        dialect="anthropic",
    ) as it:
        assert await it.prompt() == {"stopReason": "max_turn_requests"}
        assert len(it.server.calls) == 1


async def test_project_instructions_are_in_the_system_prompt(tmp_path: Path) -> None:
    files = {"AGENTS.md": "Prices are whole cents.\n", "CLAUDE.md": "Be brief.\n"}
    async with stage(tmp_path, Reply("Yes."), files=files, dialect="anthropic") as it:
        await it.prompt()
        system = str(it.server.calls[0].body["system"])
        assert "Prices are whole cents." in system
        assert "Be brief." in system
        assert str(it.folder) in system


async def test_usage_is_that_of_the_last_answer_and_never_a_sum(tmp_path: Path) -> None:
    replies = [
        Reply(
            tool_calls=[ToolCall("list", {})],
            usage=Usage(input=10, output=5, cache_read=1000, cache_write=100),
        ),
        Reply("Done.", usage=Usage(input=20, output=7, cache_read=1100)),
    ]
    async with stage(tmp_path, *replies, dialect="anthropic") as it:
        await it.prompt()
        seen = [
            (update["used"], update["size"])
            for update in it.agent.updates(kind="usage_update")
        ]
        assert seen == [(1115, 200_000), (1127, 200_000)]
        async with it.restarted(
            env={**it.options["env"], "ACP_AGENT_CONTEXT_WINDOW": "50000"}
        ) as later:
            await later.agent.load(it.session, it.folder)
            usage = await later.update("usage_update")
            assert (usage["used"], usage["size"]) == (1127, 50_000)
