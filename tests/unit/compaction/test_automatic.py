"""Automatic compactions without a prepared summary: before the next model call, once
the context exceeds the threshold.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from acp_agent.compaction.strategies.modelless import SUMMARY as EXCERPTS
from support.compactions import (
    asked_last,
    is_summary_request,
    messages,
    said,
    shown_compactions,
)
from support.editors import ZED_BETA
from support.memory import agent_in_memory
from support.models import ModelServer, Reply, ToolCall, Usage, model_server

WINDOW = {"ACP_AGENT_CONTEXT_WINDOW": "20000"}
USABLE = 15_000
"""Of that window, a quarter is kept for the answer."""
LONG = "The cart adds prices. " * 1_000
SUMMARY = Reply("# Goal\nA cart.")


@pytest.fixture(autouse=True)
def nothing_is_prepared(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir(mode=0o700)
    (tmp_path / "state" / "config.yaml").write_text("compaction: {prepare: off}\n")


def summaries(server: ModelServer) -> list[int]:
    """Return the indices of the calls that asked for a summary."""
    return [
        index
        for index, call in enumerate(server.calls)
        if is_summary_request(call.body)
    ]


@pytest.mark.parametrize(
    "wait", [False, True], ids=["excerpts at once", "a summary that is waited for"]
)
async def test_a_context_above_the_threshold_is_compacted_before_the_next_call(
    tmp_path: Path, wait: bool
) -> None:
    (tmp_path / "state" / "config.yaml").write_text(
        f"compaction: {{prepare: off, wait: {str(wait).lower()}}}\n"
    )
    script = [
        Reply(LONG, usage=Usage(input=int(USABLE * 0.8) - 600, output=400)),
        Reply(LONG, usage=Usage(input=int(USABLE * 0.8) - 300, output=400)),
        *([SUMMARY] if wait else []),
        Reply("Three.", usage=Usage(1000, 5)),
        Reply("Four.", usage=Usage(1010, 5)),
    ]
    async with (
        model_server(script, "openai") as server,
        agent_in_memory(
            home=tmp_path, env=server.env() | WINDOW, capabilities=ZED_BETA
        ) as agent,
    ):
        session = await agent.new_session(tmp_path)
        await agent.prompt(session, "One?")
        await agent.prompt(session, "Two?")
        assert shown_compactions(agent) == []
        begun = len(agent.lines)
        assert await agent.prompt(session, "Three?") == {"stopReason": "end_turn"}
        await agent.prompt(session, "Four?")

        [compaction] = shown_compactions(agent)
        assert (compaction.statuses, compaction.text) == (
            ["in_progress", "completed"],
            "# Goal\nA cart." if wait else EXCERPTS,
        )
        labels = agent.methods_between(begun)
        assert (
            labels.index("compaction_update")
            < labels.index("usage_update")
            < labels.index("agent_message_chunk")
        )
        sizes = [
            (update["used"], update["size"])
            for update in agent.updates(kind="usage_update", since=begun)
        ]
        assert sizes[0][0] < USABLE * 0.8
        assert {size for _, size in sizes} == {20_000}
        assert summaries(server) == ([2] if wait else [])
        if wait:
            assert [
                said(message) for message in messages(server.calls[2].body)[:-1]
            ] == ["One?", LONG, "Two?", LONG]
            assert server.calls[3].mentions("# Goal\nA cart.")
        after = server.calls[-2]
        assert asked_last(after.body) == "Three?"
        assert [message["role"] for message in messages(after.body)] == ["user"]
        assert after.mentions("<recorded_excerpts>")
        assert not after.mentions(LONG)
        # The last count from before the compaction is void: it does not cause another.
        assert server.remaining == 0


async def test_it_compacts_at_most_twice_without_new_input(tmp_path: Path) -> None:
    (tmp_path / "long.txt").write_text("The cart adds prices.\n" * 100)
    read = ToolCall("read", {"path": str(tmp_path / "long.txt")})

    def answer(body: Mapping[str, Any]) -> Reply:
        if len(server.calls) > 7 or asked_last(body) == "Again?":
            return Reply("Enough.", usage=Usage(14_000, 5))
        return Reply("Step.", tool_calls=[read], usage=Usage(14_000, 5))

    async with (
        model_server(answer, "openai") as server,
        agent_in_memory(
            home=tmp_path, env=server.env() | WINDOW, capabilities=ZED_BETA
        ) as agent,
    ):
        session = await agent.new_session(tmp_path)
        assert await agent.prompt(session, "Loop.") == {"stopReason": "end_turn"}
        assert len(shown_compactions(agent)) == 2
        assert await agent.prompt(session, "Again?") == {"stopReason": "end_turn"}
        assert len(shown_compactions(agent)) == 3
