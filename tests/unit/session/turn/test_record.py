"""How turns end in the log: an interrupted turn becomes valid, and a refused turn
leaves the context.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_agent.conversation.closing import closing_events
from acp_agent.conversation.context import Context
from acp_agent.conversation.events import (
    CallView,
    Event,
    LoggedEvent,
    TurnEnded,
    UserPrompted,
)
from acp_agent.conversation.messages import Text
from support.client import AgentError
from support.histories import anthropic
from support.logs import legal_logs
from support.memory import stage
from support.replies import Reply
from support.stored import refuse_events, stored_kinds


@given(legal_logs(), st.data())
def test_the_next_request_is_valid_wherever_a_log_was_cut_off(
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
        asked = blocks(asking, "tool_use")
        answered = blocks(answering, "tool_result")
        assert sorted(str(call["id"]) for call in asked) == sorted(
            str(result["tool_use_id"]) for result in answered
        )
        # A message begins with its tool results.
        assert answering["content"][: len(answered)] == answered
    assert all(turn["content"] for turn in turns)


async def test_a_turns_last_answer_is_stored_only_together_with_the_turns_end(
    tmp_path: Path,
) -> None:
    async with stage(tmp_path, Reply("Hello."), laws=False) as it:
        refuse_events(it.home, "turn_ended")
        with pytest.raises(AgentError, match="refused"):
            await it.prompt("Hi")
        stored = stored_kinds(it.home)
        assert "partial_answer" in stored
        assert "assistant_answered" not in stored


async def test_a_turn_stays_open_while_the_model_or_a_recipe_has_work_left(
    tmp_path: Path,
) -> None:
    recipe = (
        "---\nname: json\ndescription: Answers in JSON.\nhooks:\n  turn_end:\n    handler: validate_output\n"
        "    params: {schema: {type: object}}\n---\nAnswer.\n"
    )
    replies = [
        Reply("I look", stop="pause_turn"),
        Reply("Here."),
        Reply("no JSON"),
        Reply("{}"),
    ]
    files = {".acp-agent/recipes/json.md": recipe}
    async with stage(
        tmp_path, *replies, dialect="anthropic", files=files, trusted=True
    ) as it:
        for prompt in ("Look", "/json"):
            assert await it.prompt(prompt) == {"stopReason": "end_turn"}
        # The harness rejects an answer after the end of its turn.
        kinds = [
            kind
            for kind in stored_kinds(it.home)
            if kind in ("assistant_answered", "turn_ended")
        ]
        assert kinds == ["assistant_answered", "assistant_answered", "turn_ended"] * 2


def blocks(turn: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    return [block for block in turn["content"] if block["type"] == kind]
