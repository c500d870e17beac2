"""Strategies of installed packages: found by name, used where they are named, and harmless where they break."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from support.compactions import messages, said, shown_compactions
from support.editors import ZED_BETA
from support.models import Reply, Usage
from support.stage import stage
from support.strategies import (
    FILES,
    HISTORY,
    PLUGIN,
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
    assert it.server.calls[-1].mentions("<recorded_facts>")  # what no compaction may lose, whoever wrote the rest


async def test_a_strategy_of_an_installed_package_can_be_named_by_a_recipe_and_serves_the_threshold(
    tmp_path: Path,
) -> None:
    script = [*HISTORY[:3], Reply("Read the new one.", usage=Usage(15_500, 5)), Reply("Done.", usage=Usage(900, 5))]
    home = tmp_path / "home" / "state"
    (home / "recipes").mkdir(parents=True, mode=0o700)
    home.chmod(0o700)
    (home / "recipes" / "compact.md").write_text(RECIPE.format("headlines"))
    env = {"ACP_AGENT_CONTEXT_WINDOW": str(WINDOW), **install(tmp_path / "packages")}
    async with stage(
        tmp_path, *script, files=FILES, config={"compaction": {"prepare": 0.3}}, env=env, dialect="anthropic"
    ) as it:
        for prompt in ("Read the old file", "Read the new file", "Go on"):
            await it.prompt(prompt)
    assert [compaction.text for compaction in shown_compactions(it.agent)] == ["Headlines of 8 messages."]
    assert len(it.server.calls) == 5


async def test_a_strategy_that_asks_the_model_may_do_so_as_often_as_it_is_due(tmp_path: Path) -> None:
    async with stage(
        tmp_path,
        script=lambda body: Reply("Yes. " * 2_000, usage=Usage(15_500, 5)),
        config=config(strategy="asking", target=0.9),
        env={"ACP_AGENT_CONTEXT_WINDOW": str(WINDOW), **install(tmp_path / "packages")},
        dialect="anthropic",
    ) as it:
        for _ in range(6):
            await it.prompt("Really?")
    compactions = shown_compactions(it.agent)
    assert len(compactions) >= 4
    assert {compaction.text[:15] for compaction in compactions} == {"The model says:"}
    assert "No summary could be written" not in str(it.agent.updates())


@pytest.mark.parametrize("prepare", [False, 0.3])
async def test_after_three_failures_a_packages_strategy_gets_no_model_either(tmp_path: Path, prepare: float) -> None:
    request = "task.state.request"
    text = f"from dataclasses import replace\n{PLUGIN.replace(request, f'replace({request}, system={MINE!r})')}"
    asked: list[int] = []

    def script(body: Mapping[str, Any]) -> Reply:
        if MINE not in str(body["system"]):
            return Reply("Yes. " * 2_000, usage=Usage(13_000, 5))
        asked.append(len(asked))
        return Reply(http_status=400)

    settings = config(strategy="asking", prepare=prepare)
    env = {"ACP_AGENT_CONTEXT_WINDOW": str(WINDOW), **install(tmp_path / "packages", text=text)}
    async with stage(tmp_path, script=script, editor=ZED_BETA, config=settings, env=env, dialect="anthropic") as it:
        for _ in range(7):
            assert await it.prompt("Really?") == {"stopReason": "end_turn"}
    assert len(asked) == 3
    [notice] = it.agent.updates(kind="notice")
    assert "3 times in a row" in str(notice)


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
