"""A provider that has no room for a request: what was said is made short, and the prompt is answered."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from support.client import AgentError
from support.compactions import RECIPE_TEXT, shown_compactions
from support.dialogues import asks_for_summary, check_legal, texts
from support.editors import ZED_BETA
from support.models import DialectName, Reply, Request, ToolCall
from support.stage import Stage, stage

TAKES = 9_000
"""Tokens that the provider takes of a sudden."""
FIRST = "Find out why the total of the cart is wrong. Never touch setup.py."
LONG = "The cart adds prices. " * 900
"""About 5,000 tokens."""
Script = Callable[[Mapping[str, Any]], Reply]


@asynccontextmanager
async def talked(tmp_path: Path, answer: Script, dialect: DialectName = "anthropic") -> AsyncGenerator[Stage]:
    """A session with three long answers, after which the provider takes less than they are.

    :param answer: to every request of a turn.
    """

    def reply(body: Mapping[str, Any]) -> Reply:
        if asks_for_summary(body):
            return Reply("# Goal\nThe total of a cart.")
        return Reply(LONG) if it.server.max_prompt_tokens is None else answer(body)

    env = {"ACP_AGENT_CONTEXT_WINDOW": "40000"}
    async with stage(tmp_path, script=reply, dialect=dialect, editor=ZED_BETA, env=env, config={}) as it:
        for prompt in (FIRST, "And the lines?", "And the prices?"):
            assert await it.prompt(prompt) == {"stopReason": "end_turn"}
        assert shown_compactions(it.agent) == []
        it.server.max_prompt_tokens = TAKES
        yield it


def size(call: Request) -> int:
    """Characters of a request."""
    return sum(map(len, call.strings()))


@pytest.mark.parametrize("dialect", ["anthropic", "openai", "chat"])
async def test_a_request_that_is_refused_for_its_length_is_made_short_and_its_prompt_answered(
    tmp_path: Path, dialect: DialectName
) -> None:
    async with talked(tmp_path, lambda body: Reply("It forgets the quantity."), dialect) as it:
        begun, asked = len(it.agent.lines), len(it.server.calls)
        assert await it.prompt("So why is it wrong?") == {"stopReason": "end_turn"}

        assert it.agent.text(since=begun) == "It forgets the quantity."
        [compaction] = shown_compactions(it.agent)
        assert compaction.statuses == ["in_progress", "completed"]
        labels = it.agent.methods_between(begun)
        assert labels.index("compaction_update") < labels.index("usage_update") < labels.index("agent_message_chunk")
        refused, again = it.server.calls[asked], it.server.calls[-1]
        assert size(again) // 4 <= TAKES < size(refused) // 4
        check_legal(again.body)
        assert texts(again.body)[-1].endswith("So why is it wrong?")
        assert not again.mentions(RECIPE_TEXT)


async def test_the_first_request_of_the_user_still_reaches_the_model_word_for_word(tmp_path: Path) -> None:
    async with talked(tmp_path, lambda body: Reply("It forgets the quantity.")) as it:
        await it.prompt("So why is it wrong?")
        assert it.server.calls[-1].mentions(FIRST)
        await it.prompt("Sure?")
        assert it.server.calls[-1].mentions(FIRST)
        assert it.server.calls[-1].mentions("So why is it wrong?")


async def test_within_a_turn_the_steps_go_on_behind_the_prompt_with_every_result_behind_its_call(
    tmp_path: Path,
) -> None:
    calls = [ToolCall("read", {"path": name}) for name in ("a.txt", "b.txt")]

    def answer(body: Mapping[str, Any]) -> Reply:
        return Reply("Read.") if texts(body, "result") else Reply("Both.", tool_calls=calls)

    async with talked(tmp_path, answer) as it:
        (it.folder / "b.txt").write_text("four\n")
        it.server.max_prompt_tokens = size(it.server.calls[-1]) // 4 + len(LONG) // 4 + 400
        (it.folder / "a.txt").write_text("one\n" * 2_000)
        begun = len(it.agent.lines)
        assert await it.prompt("Read both.") == {"stopReason": "end_turn"}
        assert it.agent.text(since=begun).endswith("Read.")
        [compaction] = shown_compactions(it.agent)
        assert compaction.statuses == ["in_progress", "completed"]
        last = it.server.calls[-1]
        check_legal(last.body)
        assert last.mentions("Read both.")
        assert len(texts(last.body, "result")) == 2
        assert [call["status"] for call in it.calls()] == ["completed"] * 2


@pytest.mark.process
async def test_what_was_made_short_is_so_after_a_kill_and_the_replay_shows_it(tmp_path: Path) -> None:
    async with talked(tmp_path, lambda body: Reply("It forgets the quantity.")) as it:
        await it.prompt("So why is it wrong?")
        [live] = shown_compactions(it.agent)
        it.agent.kill()
        await it.agent.wait_exit()
        it.agent.problems.clear()
        async with it.restarted() as later:
            await later.agent.load(it.session, it.folder)
            [replayed] = shown_compactions(later.agent)
            assert (replayed.id, replayed.statuses, replayed.text) == (live.id, ["completed"], live.text)
            asked = len(it.server.calls)
            assert await later.prompt("Sure?") == {"stopReason": "end_turn"}
            # It fits at once.
            assert len(it.server.calls) == asked + 1


async def test_a_provider_that_refuses_whatever_is_asked_of_it_is_not_asked_for_ever_and_the_next_prompt_works(
    tmp_path: Path,
) -> None:
    refused = {"error": {"type": "invalid_request_error", "message": "prompt is too long"}}
    refusing = True

    def answer(body: Mapping[str, Any]) -> Reply:
        return Reply(http_status=400, body=refused) if refusing else Reply("It forgets the quantity.")

    async with talked(tmp_path, answer) as it:
        with pytest.raises(AgentError) as error:
            await it.prompt("So why is it wrong?")
        assert error.value.message
        assert len(it.server.calls) < 30
        refusing = False
        assert await it.prompt("And now?") == {"stopReason": "end_turn"}
        assert it.agent.text().endswith("It forgets the quantity.")
