"""How turns end in the log: one that broke off is legal, and one that was refused has left the context."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_agent.conversation.closing import closing_events
from acp_agent.conversation.context import Context
from acp_agent.conversation.events import CallView, Event, LoggedEvent, TurnEnded, UserPrompted
from acp_agent.conversation.messages import Text
from support.client import AgentError
from support.compactions import bare, is_summary_request, shown_compactions
from support.editors import ZED_BETA
from support.histories import anthropic
from support.logs import legal_logs
from support.memory import stage
from support.replies import Reply, ToolCall, Usage
from support.stage import Stage

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


@pytest.mark.parametrize("how", ["the model", "the provider"])
async def test_a_compaction_of_a_refused_turn_is_taken_back_with_its_prompt(tmp_path: Path, how: str) -> None:
    replies = [
        Reply(LONG, usage=Usage(FULL - 400, 400)),
        Reply(SUMMARY),
        answer(how),
        Reply("# Goal\nThe cart again."),
        Reply("Gladly."),
    ]
    async with stage(tmp_path, *replies, env=WINDOW, config=AT_ONCE, editor=ZED_BETA, dialect="anthropic") as it:
        await it.prompt("First")
        begun = len(it.agent.lines)
        await refused(it, how)
        [compaction] = shown_compactions(it.agent)
        assert compaction.statuses[-1] == "completed"
        full, compacted, back = used(it)
        assert compacted < full == back == FULL
        labels = it.agent.methods_between(begun)
        # The last word on the context, and before the answer.
        assert labels[-2] == "usage_update"
        assert "session/prompt" in labels[-1]
        await it.prompt("/compact status")
        assert f"In use: {FULL:,}" in it.agent.text()
        assert "(taken back with a prompt that the provider refused)" in it.agent.text()

        async with it.restarted() as later:
            await later.agent.load(it.session, it.folder)
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
        assert await it.prompt("Go on") == {"stopReason": "end_turn"}
        # Nor does a later refusal take it back.
        assert await it.prompt("POISON") == {"stopReason": "refusal"}
        assert await it.prompt("Are you there?") == {"stopReason": "end_turn"}
        assert it.server.calls[-1].mentions(SUMMARY.splitlines()[-1])
        assert not it.server.calls[-1].mentions(LONG)
        assert not it.server.calls[-1].mentions("POISON")


@given(legal_logs(), st.data())
def test_wherever_a_log_breaks_off_the_next_request_is_one_that_providers_take(
    log: tuple[LoggedEvent, ...], data: st.DataObject
) -> None:
    context = Context.from_log(log[: data.draw(st.integers(0, len(log)))])
    new: tuple[Event, ...] = (
        *closing_events(context, "interrupted", lambda call: CallView(call.name)),
        TurnEnded("interrupted"),
        UserPrompted("msg_next", (Text("Go on."),)),
    )
    for event in new:
        context = context.apply(LoggedEvent(context.head + 1, 0, event))

    turns: list[dict[str, Any]] = anthropic(context.messages)
    roles = [turn["role"] for turn in turns]
    assert roles == ["user", "assistant"] * (len(roles) // 2) + ["user"]
    for asking, answering in pairwise(turns):
        asked, answered = blocks(asking, "tool_use"), blocks(answering, "tool_result")
        assert sorted(str(call["id"]) for call in asked) == sorted(str(result["tool_use_id"]) for result in answered)
        # Results open the message, whatever else stands in it.
        assert answering["content"][: len(answered)] == answered
    assert all(turn["content"] for turn in turns)


def blocks(turn: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    return [block for block in turn["content"] if block["type"] == kind]
