"""Compactions keep the reasoning that can be kept, leave the other behind, and say so."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from acp_agent.session import mcp
from support.compactions import shown_compactions
from support.mcp import mcp_program, ready, says, tool
from support.models import DialectName
from support.reasoning import (
    PROSE,
    Thinking,
    asks_to_compact,
    both_providers,
    compaction,
    compaction_blocks,
    strict,
    thinking,
    thoughts,
)
from support.stage import FILES

SMALL = {"ACP_AGENT_CONTEXT_WINDOW": "20000"}
LONG = "The cart adds prices. " * 900
"""About 5,000 tokens."""
KEPT = re.compile(r"Kept (\d+) messages? with (?:its|their) reasoning")
LEFT = re.compile(r"Left out (\d+) pieces? of reasoning, ")


def asked_provider(it: Thinking) -> int:
    """How often the provider was asked to compact."""
    return sum(map(asks_to_compact, it.server.calls))


def number(found: re.Pattern[str], text: str) -> int:
    match = found.search(text)
    return int(match[1]) if match else 0


async def compacted(it: Thinking, command: str = "/compact") -> None:
    await it.say(command)
    assert shown_compactions(it.stage.agent)[-1].statuses[-1] == "completed"


@both_providers
@pytest.mark.parametrize("account", ["new", "old"])
async def test_the_providers_own_compaction_keeps_the_reasoning_of_the_messages_that_stay(
    tmp_path: Path, dialect: DialectName, account: str
) -> None:
    config = compaction(strategy="native")
    async with thinking(
        tmp_path, dialect, config=config, binding=strict(account=account)
    ) as it:
        await it.grow()
        await compacted(it)
        kept = number(KEPT, it.receipt())
        assert kept > 0
        assert LEFT.search(it.receipt()) is None
        await it.loop("And now?", 2)
        assert it.kept() == kept + 2
        assert compaction_blocks(it.last.body) != []
        assert it.events("reasoning_withheld") == []
        async with it.restarted() as later:
            await later.loop(calls=1)
            assert later.kept() == kept + 4


@both_providers
async def test_a_second_compaction_of_the_provider_keeps_the_reasoning_of_what_stays_again(
    tmp_path: Path, dialect: DialectName
) -> None:
    async with thinking(tmp_path, dialect, config=compaction(strategy="native")) as it:
        for _ in range(3):
            await it.grow()
            await compacted(it)
            kept = number(KEPT, it.receipt())
            assert kept > 0
            await it.loop("And now?", 2)
            assert it.kept() == kept + 2
        assert it.events("reasoning_withheld") == []


@both_providers
@pytest.mark.parametrize("strategy", ["summary", "excerpts"])
async def test_an_own_compaction_leaves_reasoning_behind_says_so_once_and_withholds_the_same_after_a_restart(
    tmp_path: Path, dialect: DialectName, strategy: str
) -> None:
    async with thinking(tmp_path, dialect, config=compaction(strategy=strategy)) as it:
        await it.grow()
        await compacted(it)
        assert number(LEFT, it.receipt()) > 0
        assert KEPT.search(it.receipt()) is None
        await it.loop("And now?", 2)
        assert it.kept() == 2
        assert asked_provider(it) == 0
        async with it.restarted() as later:
            await later.loop(calls=1)
            assert later.kept() == 4
            assert (
                "of the model's earlier reasoning"
                not in it.warnings() + later.warnings()
            )


@both_providers
async def test_an_undone_compaction_makes_what_was_valid_before_valid_again(
    tmp_path: Path, dialect: DialectName
) -> None:
    async with thinking(tmp_path, dialect) as it:
        await it.grow()
        before = thoughts(it.last.body)
        await compacted(it)
        await it.talk(1)
        await it.say("/compact undo")
        await it.loop(calls=1)
        assert thoughts(it.last.body)[: len(before)] == before
        async with it.restarted() as later:
            await later.loop(calls=1)
            assert thoughts(it.last.body)[: len(before)] == before


@both_providers
async def test_an_undone_compaction_of_the_provider_makes_what_was_valid_before_valid_again(
    tmp_path: Path, dialect: DialectName
) -> None:
    async with thinking(tmp_path, dialect, config=compaction(strategy="native")) as it:
        await it.grow()
        before = thoughts(it.last.body)
        await compacted(it)
        await it.talk(1)
        await it.say("/compact undo")
        await it.loop(calls=1)
        assert compaction_blocks(it.last.body) == []
        assert thoughts(it.last.body)[: len(before)] == before


@both_providers
async def test_an_automatic_compaction_is_the_providers_own_if_no_strategy_is_named(
    tmp_path: Path, dialect: DialectName
) -> None:
    async with thinking(tmp_path, dialect, env=SMALL, config=compaction()) as it:
        await filled(it)
        assert asked_provider(it) > 0
        assert {each["strategy"] for each in it.events("context_swapped")} == {"native"}
        assert number(KEPT, it.receipt()) > 0
        assert it.kept() > 1


@both_providers
@pytest.mark.parametrize("strategy", ["summary", "excerpts", "mask"])
async def test_an_automatic_compaction_of_our_own_makes_no_request_that_is_refused(
    tmp_path: Path, dialect: DialectName, strategy: str
) -> None:
    async with thinking(
        tmp_path, dialect, env=SMALL, config=compaction(strategy=strategy)
    ) as it:
        await filled(it)
        assert it.events("context_swapped") != []
        await it.loop(calls=1)


@both_providers
@pytest.mark.parametrize("strategy", ["native", "summary"])
async def test_a_swap_inside_a_loop_of_tools_makes_no_request_that_is_refused(
    tmp_path: Path, dialect: DialectName, strategy: str
) -> None:
    files = {**FILES, "a.txt": LONG[:2_000]}
    async with thinking(
        tmp_path, dialect, env=SMALL, config=compaction(strategy=strategy), files=files
    ) as it:
        it.model.says = LONG[:9_000]
        await it.talk(2)
        await it.loop("Read on", 14)
        assert it.events("context_swapped") != []
        assert it.last.mentions("Read on")
        await it.loop(calls=1)


@both_providers
async def test_a_summary_that_was_prepared_in_the_background_keeps_reasoning_too(
    tmp_path: Path, dialect: DialectName
) -> None:
    async with thinking(tmp_path, dialect, env=SMALL, config={}) as it:
        await filled(it)
        assert it.events("context_swapped") != []
        assert it.kept() > 1


@both_providers
@pytest.mark.parametrize("strategy", [None, "summary"])
async def test_a_request_that_is_too_long_is_made_short_and_goes_on_thinking(
    tmp_path: Path, dialect: DialectName, strategy: str | None
) -> None:
    config = compaction() if strategy is None else compaction(strategy=strategy)
    async with thinking(
        tmp_path, dialect, env={"ACP_AGENT_CONTEXT_WINDOW": "40000"}, config=config
    ) as it:
        it.model.says = LONG
        for _ in range(3):
            await it.say()
        it.model.says = f"Fine. {PROSE}"
        it.server.max_prompt_tokens = 9_000 + 4_000
        await it.loop("So why?", 1)
        await it.loop("And now?", 1)
        assert it.events("context_swapped") != []


@both_providers
@pytest.mark.parametrize("strategy", ["native", "summary"])
async def test_a_fork_of_a_compacted_session_keeps_what_the_session_keeps(
    tmp_path: Path, dialect: DialectName, strategy: str
) -> None:
    async with thinking(tmp_path, dialect, config=compaction(strategy=strategy)) as it:
        await it.grow()
        await compacted(it)
        await it.talk(1)
        kept = thoughts(it.last.body)
        fork = await it.stage.agent.request(
            "session/fork",
            {
                "sessionId": it.stage.session,
                "cwd": str(it.stage.folder),
                "mcpServers": [],
            },
        )
        await it.stage.agent.prompt(fork["sessionId"], "Go on here")
        assert thoughts(it.last.body)[: len(kept)] == kept
        assert it.kept() == len(kept) + 1


async def filled(it: Thinking) -> None:
    """Talk until the conversation has been compacted of itself, and once more."""
    for count in range(14):
        it.model.says = LONG[:9_000] if count < 3 else PROSE
        before = len(it.events("context_swapped"))
        await it.loop(f"Question {count}?", 1)
        if len(it.events("context_swapped")) > before:
            it.model.says = "Short."
            await it.loop("And now?", 1)
            return
    raise AssertionError("it was never compacted")


async def test_where_the_user_said_most_of_it_the_provider_that_keeps_all_of_that_is_not_asked_to_compact(
    tmp_path: Path,
) -> None:
    async with thinking(tmp_path, "openai", env=SMALL, config=compaction()) as it:
        it.model.says = "I have read it."
        for part in range(4):
            await it.say(f"Part {part}: {LONG[:16_000]}")
        [swap] = it.events("context_swapped")
        assert (swap["strategy"], asked_provider(it)) == ("summary", 0)
        assert "keeps all that you have said" in it.receipt()
        await it.loop(calls=1)


@both_providers
async def test_what_had_changed_around_the_conversation_is_told_again_after_a_compaction_of_the_provider(
    tmp_path: Path, dialect: DialectName, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mcp, "PATIENCE_SECONDS", 0)
    server = mcp_program(
        tmp_path,
        "files",
        tools=[tool("look")],
        results={"look": says("Here.")},
        slow=True,
    )
    files = {**FILES, "AGENTS.md": "Count in whole cents."}
    config = compaction(strategy="native")
    async with thinking(
        tmp_path, dialect, config=config, mcp=[server.entry], files=files
    ) as it:
        await it.talk(1)
        await server.go()
        await ready(it.stage, "files")
        (it.stage.folder / "AGENTS.md").write_text("Count in tenths of a cent.")
        await it.set("thought_level", "low")
        await it.grow()
        await compacted(it)
        await it.say()
        effort = {
            "anthropic": '"output_config": {"effort": "low"}',
            "openai": '"reasoning": {"effort": "low"}',
        }[dialect]
        for words in ("Does look.", "Count in tenths of a cent.", effort):
            assert words in json.dumps(it.last.body)
        await it.loop(calls=1)
        async with it.restarted() as later:
            await later.loop(calls=1)


@both_providers
async def test_a_changed_agents_file_is_told_again_within_the_turn_in_which_the_provider_compacts(
    tmp_path: Path, dialect: DialectName
) -> None:
    files = {**FILES, "a.txt": LONG[:2_000], "AGENTS.md": "Count in whole cents."}
    async with thinking(
        tmp_path, dialect, env=SMALL, config=compaction(strategy="native"), files=files
    ) as it:
        it.model.says = LONG[:9_000]
        await it.talk(1)
        (it.stage.folder / "AGENTS.md").write_text("Count in tenths of a cent.")
        await it.talk(1)
        await it.loop("Read on", 14)
        assert it.events("context_swapped") != []
        assert it.last.mentions("has changed since the system prompt was written")
