"""Strategies chosen by the configuration or a recipe, and strategies of installed
packages.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from acp_agent.compaction.strategies.modelless import SUMMARY as EXCERPTS
from support.compactions import shown_compactions
from support.editors import ZED_BETA
from support.memory import stage
from support.models import MODELS, Reply, ToolCall, Usage
from support.stage import Stage

MODEL = f"anthropic/{MODELS['anthropic']}"
WINDOW = 20_000
FILES = {
    "old.txt": "An old line of the shop.\n" * 800,
    "new.txt": "A new line of the shop.\n" * 60,
}
READS = [Reply(tool_calls=[ToolCall("read", {"path": name})]) for name in FILES]
"""Two files of 5,000 and 400 tokens. In a manual compaction, the tail has 500 tokens."""
HISTORY = [READS[0], Reply("Read the old one."), READS[1], Reply("Read the new one.")]
RECIPE = """\
---
name: compact
allowed_tools: []
hooks:
  turn_end: {{handler: swap_context, once: true}}
compaction:
  strategy: {}
---
Write the summary, said the user's own recipe.
"""
OTHER_WRITER = RECIPE.format("summary\n  model: mine/small")


def config(**compaction: Any) -> dict[str, Any]:
    """Write the user's configuration, without background summaries."""
    return {"compaction": {"prepare": False, **compaction}}


def put(tmp_path: Path, recipe: str) -> Path:
    state = tmp_path / "home" / "state"
    (state / "recipes").mkdir(parents=True, mode=0o700)
    state.chmod(0o700)
    (state / "recipes" / "compact.md").write_text(recipe)
    return state / "recipes" / "compact.md"


@asynccontextmanager
async def compacted(
    tmp_path: Path,
    settings: Mapping[str, Any],
    *more: Reply,
    recipe: str = "",
    env: Mapping[str, str | None] = {},
) -> AsyncIterator[Stage]:
    """Open a session that has read two files and was then compacted with `/compact`."""
    if recipe:
        put(tmp_path, recipe)
    window = {"ACP_AGENT_CONTEXT_WINDOW": str(WINDOW), **env}
    options: dict[str, Any] = {
        "config": settings,
        "env": window,
        "dialect": "anthropic",
    }
    async with stage(tmp_path, *HISTORY, *more, files=FILES, **options) as it:
        await it.prompt("Read the old file")
        await it.prompt("Read the new file")
        await it.prompt("/compact")
        yield it


async def test_the_configuration_overrides_the_recipes_strategy(
    tmp_path: Path,
) -> None:
    recipe = RECIPE.format("excerpts")
    async with compacted(tmp_path / "1", config(), recipe=recipe) as it:
        assert len(it.server.calls) == 4
        assert shown_compactions(it.agent)[0].text == EXCERPTS
    async with compacted(
        tmp_path / "2",
        config(strategy="summary"),
        Reply("# Goal\nA shop."),
        recipe=recipe,
    ) as it:
        assert it.server.calls[4].mentions("said the user's own recipe")
        assert shown_compactions(it.agent)[0].text == "# Goal\nA shop."


@pytest.mark.parametrize("place", ["config", "model", "recipe"])
async def test_an_unusable_model_fails_a_manual_compaction_and_is_replaced_otherwise(
    tmp_path: Path, place: str
) -> None:
    unusable = {"model": "mine/small"}
    settings: dict[str, Any] = config(
        wait=True, **(unusable if place == "config" else {})
    )
    # Which nobody said where to find.
    settings["providers"] = {"mine": {"kind": "openai-chat"}}
    key = "compaction.model"
    where = "in config.yaml"
    if place == "model":
        settings["models"] = {MODEL: {"compaction": unusable}}
    if place == "recipe":
        where = f"of the recipe {put(tmp_path, OTHER_WRITER)}"
    long = Reply("The cart adds prices. " * 1_000, usage=Usage(12_000, 5))
    # A count far above the expected one is believed only if it comes twice.
    replies = [
        long,
        Reply("# Goal\nA shop."),
        long,
        long,
        Reply("# Goal\nA cart."),
        Reply("Done."),
    ]
    env = {"ACP_AGENT_CONTEXT_WINDOW": str(WINDOW)}
    async with stage(
        tmp_path,
        *replies,
        editor=ZED_BETA,
        config=settings,
        env=env,
        dialect="anthropic",
    ) as it:
        await it.prompt("What is in the cart?")
        told = f"mine/small, which `{key}` {where} names for summaries, cannot be used: providers.mine: needs"
        for words in ("/compact", "/compact preview"):
            begun = len(it.agent.lines)
            assert await it.prompt(words) == {"stopReason": "end_turn"}
            assert told in it.agent.text(since=begun)
            assert "Nothing was changed" in it.agent.text(since=begun)
        assert (len(it.server.calls), it.agent.updates(kind="notice")) == (1, [])
        await it.prompt("And now?")
        await it.prompt("And so?")
        await it.prompt("And then?")
        texts = [compaction.text for compaction in shown_compactions(it.agent)]
        assert texts == ["# Goal\nA shop.", "# Goal\nA cart."]
        [notice] = it.agent.updates(kind="notice")  # not with each compaction
        assert told in str(notice)
        assert "The session's own model writes them." in str(notice)


@pytest.mark.parametrize("place", ["config", "recipe"])
async def test_another_model_writes_the_summary_and_the_receipt_says_so(
    tmp_path: Path, place: str
) -> None:
    cheap = f"local/{MODELS['chat']}"
    settings = config(model=cheap)
    recipe = ""
    if place == "recipe":
        settings = config()
        recipe = RECIPE.format(f"summary\n  model: {cheap}")
    written = Reply("# Goal\nA shop.", usage=Usage(9_000, 50))
    env = {"LOCAL_API_KEY": "test-key"}
    async with compacted(
        tmp_path, settings, written, Reply("Done."), recipe=recipe, env=env
    ) as it:
        await it.prompt("Go on")
    [compaction] = shown_compactions(it.agent)
    asked, after = it.server.calls[4:]
    assert (asked.path, asked.body["model"]) == ("/v1/chat/completions", MODELS["chat"])
    assert asked.mentions("An old line")
    assert (after.path, after.body["model"]) == ("/v1/messages", MODELS["anthropic"])
    assert after.mentions("# Goal\nA shop.")
    assert "0% of the prompt cached" in compaction.receipt
    assert f"written by {MODELS['chat']}" in compaction.receipt
