"""Strategies of installed packages: found by name, used where they are named, and harmless where they break."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.compactions import messages, said, shown_compactions
from support.models import Reply, Usage
from support.stage import stage
from support.strategies import (
    RECIPE,
    WINDOW,
    compacted,
    config,
    in_the_file,
    in_the_model,
    install,
)

MINE = "A system prompt of the strategy's own."


@pytest.mark.parametrize("place", [in_the_file, in_the_model])
async def test_a_strategy_of_an_installed_package_is_used(
    tmp_path: Path, place: Callable[[str], dict[str, Any]]
) -> None:
    env = install(tmp_path / "packages")
    async with compacted(tmp_path, place("headlines"), Reply("Done."), env=env) as it:
        await it.prompt("Go on")
    [compaction] = shown_compactions(it.agent)
    assert compaction.statuses[-1] == "completed"
    assert compaction.text == "Headlines of 8 messages."
    assert "Headlines of 8 messages." in said(messages(it.server.calls[-1].body)[0])
    assert it.server.calls[-1].mentions("<recorded_excerpts>")  # what stands beside every summary


async def test_a_strategy_of_an_installed_package_can_be_named_by_a_recipe_and_serves_the_threshold(
    tmp_path: Path,
) -> None:
    home = tmp_path / "home" / "state"
    (home / "recipes").mkdir(parents=True, mode=0o700)
    home.chmod(0o700)
    (home / "recipes" / "compact.md").write_text(RECIPE.format("headlines"))
    env = {"ACP_AGENT_CONTEXT_WINDOW": str(WINDOW), **install(tmp_path / "packages")}
    long = Reply("Yes. " * 2_000, usage=Usage(13_000, 5))
    async with stage(tmp_path, script=lambda body: long, config=config(wait=True), env=env) as it:
        await it.prompt("What is this?")
        await it.prompt("And that?")
        assert len(it.server.calls) == 2
    assert [compaction.text for compaction in shown_compactions(it.agent)] == ["Headlines of 2 messages."]


async def test_a_strategy_that_asks_the_model_may_do_so_as_often_as_it_is_due(tmp_path: Path) -> None:
    async with stage(
        tmp_path,
        script=lambda body: Reply("Yes. " * 2_000, usage=Usage(15_500, 5)),
        config=config(strategy="asking", wait=True),
        env={"ACP_AGENT_CONTEXT_WINDOW": str(WINDOW), **install(tmp_path / "packages")},
        dialect="anthropic",
    ) as it:
        for _ in range(6):
            await it.prompt("Really?")
    compactions = shown_compactions(it.agent)
    assert len(compactions) >= 4
    assert {compaction.text[:15] for compaction in compactions} == {"The model says:"}
    assert "No summary could be written" not in str(it.agent.updates())


async def test_a_strategy_that_cannot_be_loaded_is_logged_and_left_out_and_takes_no_name_of_ours(
    tmp_path: Path,
) -> None:
    env = install(tmp_path / "packages")
    async with compacted(tmp_path, config(strategy="summary"), Reply("# Goal\nA shop."), env=env) as it:
        assert shown_compactions(it.agent)[0].text == "# Goal\nA shop."
    log = "".join(file.read_text() for file in (it.home / "state" / "logs").iterdir())
    assert "the strategy broken of headline_strategy:broken could not be loaded" in log
    assert "no headlines today" in log
    assert "the strategy missing of headline_strategy_that_is_not_there:Strategy could not be loaded" in log
    assert "the strategy summary of headline_strategy:Thief was left out: the name is taken" in log
