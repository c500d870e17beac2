"""A turn that is refused, by the model or by the provider: editor, log and context tell the same of it afterwards."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from support.client import AgentError
from support.compactions import bare, both_editors, is_summary_request, shown_compactions
from support.editors import ZED_BETA, Editor
from support.replies import Reply, ToolCall, Usage
from support.stage import Stage, stage

REFUSED = {"type": "error", "error": {"type": "invalid_request_error", "message": "image exceeds 5 MB"}}
LONG = "The cart adds prices. " * 900
SUMMARY = "# Goal\nA cart."
WINDOW = {"ACP_AGENT_CONTEXT_WINDOW": "20000"}
FULL = 14_400
"""Tokens with which the next turn waits for a compaction."""
AT_ONCE: Mapping[str, Any] = {"compaction": {"prepare": False, "wait": True}}


def used(it: Stage) -> list[int]:
    return [update["used"] for update in it.agent.updates(kind="usage_update")]


async def refused(it: Stage, how: str) -> None:
    if how == "the model":
        assert await it.prompt("POISON") == {"stopReason": "refusal"}
    else:
        with pytest.raises(AgentError, match="left out"):
            await it.prompt("POISON")


def answer(how: str) -> Reply:
    return Reply("I will not.", stop="refusal") if how == "the model" else Reply(http_status=400, body=REFUSED)


async def test_the_meter_goes_back_to_where_it_was_before_a_refused_turn(tmp_path: Path) -> None:
    read = ToolCall("read", {"path": "a.txt"})
    replies = [
        Reply("Hello.", usage=Usage(1_000, 20)),
        Reply("Looking.", tool_calls=[read], usage=Usage(3_000, 20)),
        Reply("I will not.", stop="refusal", usage=Usage(3_500, 5)),
    ]
    async with stage(tmp_path, *replies) as it:
        await it.prompt("First")
        assert await it.prompt("POISON") == {"stopReason": "refusal"}
        assert used(it) == [1_020, 3_020, 1_020]
        assert it.agent.lines[-2].update_kind == "usage_update"
        assert "left the context" not in it.agent.text()


@both_editors
@pytest.mark.parametrize("how", ["the model", "the provider"])
async def test_a_compaction_of_a_refused_turn_is_taken_back_and_everybody_is_told(
    tmp_path: Path, how: str, editor: Editor
) -> None:
    replies = [
        Reply(LONG, usage=Usage(FULL - 400, 400)),
        Reply(SUMMARY),
        answer(how),
        Reply("# Goal\nThe cart again."),
        Reply("Gladly."),
    ]
    async with stage(tmp_path, *replies, env=WINDOW, config=AT_ONCE, editor=editor, dialect="anthropic") as it:
        await it.prompt("First")
        begun = len(it.agent.lines)
        await refused(it, how)
        [compaction] = shown_compactions(it.agent)
        assert compaction.statuses[-1] == "completed"
        full, compacted, back = used(it)
        assert compacted < full == back == FULL
        assert "the compaction of its turn with it" in it.agent.text(since=begun)
        labels = it.agent.methods_between(begun)
        # The last word on the context, and before the answer.
        assert labels[-2] == "usage_update"
        assert "session/prompt" in labels[-1]
        await it.prompt("/compact status")
        assert f"In use: {FULL:,}" in it.agent.text()
        assert "(taken back with a prompt that the provider refused)" in it.agent.text()

        async with it.restarted() as later:
            await later.agent.load(it.session, it.folder)
            assert "the compaction of its turn with it" in later.agent.text()
            assert (await later.update("usage_update"))["used"] == FULL
            assert await later.prompt("Something good") == {"stopReason": "end_turn"}
        before, again = (bare(call.body) for call in it.server.calls if is_summary_request(call.body))
        assert "POISON" in str(before["messages"])
        # What is summarised now is what was there before the refused prompt.
        assert "POISON" not in str(again["messages"])
        assert LONG in str(again["messages"])
        last = it.server.calls[-1]
        assert not last.mentions("POISON")
        assert last.mentions("The cart again.")


async def test_a_turn_that_had_come_further_keeps_its_compaction(tmp_path: Path) -> None:
    read = ToolCall("read", {"path": "a.txt"})
    replies = [
        Reply(LONG, usage=Usage(FULL - 400, 400)),
        Reply(SUMMARY),
        Reply("Looking.", tool_calls=[read], usage=Usage(3_000, 20)),
        Reply(http_status=400, body=REFUSED),
        Reply("Gladly."),
        Reply("I will not.", stop="refusal"),
        Reply("Still here."),
    ]
    async with stage(tmp_path, *replies, env=WINDOW, config=AT_ONCE, editor=ZED_BETA) as it:
        await it.prompt("First")
        with pytest.raises(AgentError, match="image exceeds"):
            await it.prompt("Look")
        assert used(it)[-1] == 3_020
        assert "left the context" not in it.agent.text()
        assert await it.prompt("Go on") == {"stopReason": "end_turn"}
        # Nor does a later refusal take it back.
        assert await it.prompt("POISON") == {"stopReason": "refusal"}
        assert "left the context" not in it.agent.text()
        assert await it.prompt("Are you there?") == {"stopReason": "end_turn"}
        assert it.server.calls[-1].mentions(SUMMARY.splitlines()[-1])
        assert not it.server.calls[-1].mentions(LONG)
        assert not it.server.calls[-1].mentions("POISON")
