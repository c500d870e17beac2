"""Providers that refuse requests that do not fit: a turn that reads many files, and a
window that is smaller than expected.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from support.compactions import is_summary_request, shown_compactions
from support.editors import ZED_BETA
from support.memory import agent_in_memory
from support.models import Reply, ToolCall, model_server

STEPS = 10


def size(body: Mapping[str, Any]) -> int:
    """Return the approximate tokens of a request, as the server counts them."""
    return len(str(body)) // 4


@pytest.mark.parametrize(("window", "parallel"), [(16_000, 1), (40_000, 2)])
async def test_a_turn_whose_steps_fill_half_the_window_each_ends_normally(
    tmp_path: Path, window: int, parallel: int
) -> None:
    # About seven thousand tokens.
    (tmp_path / "long.txt").write_text("The cart adds prices.\n" * 1_000)
    reads = [
        ToolCall("read", {"path": str(tmp_path / "long.txt"), "limit": 999 - number})
        for number in range(parallel)
    ]

    def answer(body: Mapping[str, Any]) -> Reply:
        if is_summary_request(body):
            return Reply("# Goal\nRead on.")
        live.append(size(body))
        return Reply("Next.", tool_calls=reads) if len(live) < STEPS else Reply("Done.")

    live: list[int] = []
    async with (
        model_server(answer, max_prompt_tokens=window) as server,
        agent_in_memory(
            home=tmp_path,
            env=server.env() | {"ACP_AGENT_CONTEXT_WINDOW": str(window)},
            capabilities=ZED_BETA,
        ) as agent,
    ):
        session = await agent.new_session(tmp_path)
        assert await agent.prompt(session, "Read it ten times.", 60) == {
            "stopReason": "end_turn"
        }
        assert len(live) == STEPS
        assert len(shown_compactions(agent)) > 2
        assert await agent.prompt(session, "And now?", 60) == {"stopReason": "end_turn"}


async def test_a_conversation_too_large_for_the_summary_model_fits_one_call(
    tmp_path: Path,
) -> None:
    def answer(body: Mapping[str, Any]) -> Reply:
        counted = "\n".join(
            f"Item {number} of {size(body)} costs {number * 7} cents."
            for number in range(280)
        )
        return Reply("# Goal\nCount." if is_summary_request(body) else counted)

    config = {
        "models": {
            "openai/gpt-test": {"context_window": 60_000},
            "openai/small-test": {"context_window": 12_000},
        },
        "compaction": {"model": "openai/small-test", "prepare": False},
    }
    async with model_server(answer, "openai") as server:
        server.write_config(tmp_path, config)
        async with agent_in_memory(
            home=tmp_path, env=server.env(), capabilities=ZED_BETA
        ) as agent:
            session = await agent.new_session(tmp_path)
            for number in range(6):
                await agent.prompt(
                    session, f"Question {number}? {'What does the cart add? ' * 60}"
                )
            assert size(server.calls[-1].body) > 15_000
            assert await agent.prompt(session, "/compact", 60) == {
                "stopReason": "end_turn"
            }
            [asked] = [
                call.body for call in server.calls if is_summary_request(call.body)
            ]
            assert (asked["model"], asked["tools"]) == (
                "small-test",
                server.calls[0].body["tools"],
            )
            assert "<recorded_excerpts>" in str(asked)
            assert 8_000 < size(asked) < 12_000
            [compaction] = shown_compactions(agent)
            assert (compaction.statuses[-1], compaction.text) == (
                "completed",
                "# Goal\nCount.",
            )
