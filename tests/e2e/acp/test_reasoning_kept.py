"""What a user does to a session leaves the model's reasoning valid, and each request
begins as the one before.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from support.models import DialectName, Reply
from support.reasoning import LOOK, Thinking, both_providers, strict, thinking, thoughts


@both_providers
@pytest.mark.parametrize("account", ["new", "old"])
async def test_ten_turns_with_loops_of_tools_keep_all_reasoning(
    tmp_path: Path, dialect: DialectName, account: str
) -> None:
    async with thinking(tmp_path, dialect, binding=strict(account=account)) as it:
        for number in range(10):
            await it.loop(f"Question {number}?", number % 3)
        assert it.kept() == len(it.turns) - 1


@both_providers
async def test_two_calls_in_one_answer_with_a_thought_before_each_keep_all_reasoning(
    tmp_path: Path, dialect: DialectName
) -> None:
    async with thinking(tmp_path, dialect) as it:
        for _ in range(3):
            it.model.first = [
                Reply(
                    "Two.",
                    thinking="First.",
                    tool_calls=[LOOK, LOOK],
                    between=["", "And again."],
                )
            ]
            await it.say()
        # Two and one in each turn, but for the answer that is asked for.
        assert it.kept() == 8


@both_providers
async def test_another_level_of_reasoning_is_told_with_the_next_prompt_and_voids_no_reasoning(
    tmp_path: Path, dialect: DialectName
) -> None:
    async with thinking(tmp_path, dialect) as it:
        await it.talk(2)
        told: list[str] = []
        for level in ("high", "low", "medium"):
            await it.set("thought_level", level)
            await it.loop(calls=1)
            before, first, _ = it.server.cached[-3:]
            # All of it; each count is rounded.
            assert first.read >= before.read + before.fresh - 2
            told.append(level)
            assert efforts(it) == told
        assert it.kept() == len(it.turns) - 1


@both_providers
async def test_thinking_is_turned_off_and_on_again_and_the_reasoning_from_before_stays(
    tmp_path: Path, dialect: DialectName
) -> None:
    async with thinking(tmp_path, dialect) as it:
        await it.talk(2)
        await it.set("thought_level", "off")
        await it.loop(calls=1)
        if dialect == "anthropic":
            assert it.last.body["thinking"] == {"type": "between_tools"}
        else:
            assert efforts(it) == ["low"]
        before = thoughts(it.last.body)[:4]
        await it.set("thought_level", "high")
        await it.loop(calls=1)
        assert thoughts(it.last.body)[:4] == before


@both_providers
async def test_reasoning_is_back_once_its_model_is(
    tmp_path: Path, dialect: DialectName
) -> None:
    other = {"anthropic": "anthropic/claude-haiku-5-5", "openai": "openai/gpt-6-luna"}[
        dialect
    ]
    async with thinking(tmp_path, dialect) as it:
        await it.talk(2)
        own = it.server.model
        before = thoughts(it.last.body)
        await it.set("model", other)
        await it.loop(calls=1)
        await it.set("model", own)
        await it.loop(calls=1)
        assert thoughts(it.last.body)[: len(before)] == before
        await it.loop(calls=1)


def efforts(it: Thinking) -> list[str]:
    """The levels that the newest request tells behind its beginning, in order."""
    body = it.last.body
    if "input" in body:
        return [
            item["reasoning"]["effort"]
            for item in body["input"]
            if item.get("type") == "configuration_update"
        ]
    return [
        each["output_config"]["effort"]
        for each in body["messages"]
        if "output_config" in each
    ]
