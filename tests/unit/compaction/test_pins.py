"""`/pin` and `/unpin`, in what the model reads and what the editor shows."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from support.client import AgentError
from support.compactions import is_summary_request, shown_compactions
from support.editors import ZED_BETA
from support.layers import summarising, whole_text
from support.memory import stage
from support.replies import Reply, Usage
from support.stage import Stage

PROSE = "The cart adds up what the lines cost. " * 60
SUMMARY = "## Goal and requirements\nThe shop."


def answers(number: int) -> str:
    return f"Answer {number}. {PROSE}"


def last(it: Stage) -> str:
    return whole_text(
        next(
            call.body
            for call in reversed(it.server.calls)
            if not is_summary_request(call.body)
        )
    )


async def answer_to(it: Stage, prompt: str) -> str:
    begun = len(it.agent.lines)
    assert await it.prompt(prompt) == {"stopReason": "end_turn"}
    return it.agent.text(since=begun)


async def test_a_pin_without_room_is_refused_and_the_others_stay(
    tmp_path: Path,
) -> None:
    env = {"ACP_AGENT_CONTEXT_WINDOW": "20000"}
    async with stage(tmp_path, script=summarising([SUMMARY], answers), env=env) as it:
        await it.prompt(f"/pin Keep this. {'k' * 2000}")
        refused = await answer_to(it, f"/pin Not this. {'n' * 2400}")
        assert "This was not pinned" in refused
        assert "are free" in refused
        assert "Remove a pin first" in refused
        await it.prompt(f"Go on. {PROSE}")
        await it.prompt("/compact")
        await it.prompt("Go on.")
        assert f"Keep this. {'k' * 2000}" in last(it)
        assert "Not this." not in last(it)


@pytest.mark.parametrize("pins", [1, 2])
async def test_pins_too_large_for_a_smaller_window_are_reported_without_a_request(
    tmp_path: Path, pins: int
) -> None:
    def answer(body: Mapping[str, Any]) -> Reply:
        return (
            Reply(SUMMARY)
            if is_summary_request(body)
            else Reply(PROSE, usage=Usage(12_600, 500))
        )

    texts = [
        f"Keep {number}: " + "the text is long. " * (2_100 if number == pins else 20)
        for number in (1, 2)[:pins]
    ]
    options: dict[str, Any] = {
        "script": answer,
        "editor": ZED_BETA,
        "config": {"compaction": {"prepare": False}},
    }
    async with stage(
        tmp_path, env={"ACP_AGENT_CONTEXT_WINDOW": "200000"}, **options
    ) as it:
        for text in texts:
            assert "Pinned as" in await answer_to(it, f"/pin {text}")
        for number in range(3):
            await it.prompt(f"Question {number}?")
        env = it.options["env"] | {"ACP_AGENT_CONTEXT_WINDOW": "12000"}
        async with it.restarted(env=env) as later:
            await later.agent.load(it.session, it.folder)
            asked = len(it.server.calls)
            with pytest.raises(AgentError, match="not sent") as caught:
                await later.prompt("And now?")
            await later.prompt("/compact")
            failed = shown_compactions(later.agent)[-1]
            for said in (caught.value.message, failed.text):
                assert re.search(
                    r"the system prompt and the tools take about \d,\d{3} and the pins take about",
                    said,
                )
                assert f"`/unpin {pins}` removes the largest pin (about" in said
                assert "a model with a larger window" in said
            assert len(it.server.calls) == asked
            assert "was taken back" in await answer_to(later, f"/unpin {pins}")
            assert await later.prompt("And now?") == {"stopReason": "end_turn"}
            assert whole_text(it.server.calls[-1].body).count(texts[0]) == pins - 1
