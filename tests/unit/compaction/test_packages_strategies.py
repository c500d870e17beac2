"""Strategies of installed packages: found by name, used where they are named, and harmless where they break."""

from __future__ import annotations

from pathlib import Path

from support.client import connected_agent
from support.compactions import shown_compactions
from support.models import Reply, Usage
from support.stage import stage
from support.strategies import (
    RECIPE,
    WINDOW,
    config,
    install,
)


async def test_a_strategy_of_an_installed_package_can_be_named_by_a_recipe_and_serves_the_threshold(
    tmp_path: Path,
) -> None:
    home = tmp_path / "home" / "state"
    (home / "recipes").mkdir(parents=True, mode=0o700)
    home.chmod(0o700)
    (home / "recipes" / "compact.md").write_text(RECIPE.format("headlines"))
    env = {"ACP_AGENT_CONTEXT_WINDOW": str(WINDOW), **install(tmp_path / "packages")}
    long = Reply("Yes. " * 2_000, usage=Usage(13_000, 5))
    async with stage(
        tmp_path, script=lambda body: long, config=config(wait=True), env=env, connect=connected_agent
    ) as it:
        await it.prompt("What is this?")
        await it.prompt("And that?")
        assert len(it.server.calls) == 2
    assert [compaction.text for compaction in shown_compactions(it.agent)] == ["Headlines of 2 messages."]
