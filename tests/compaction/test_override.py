"""Who overrides `compact.md` changes every compaction: by hand, by itself, on overflow and from the terminal; and the
log keeps which version of it ran."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from support.compactions import RECIPE_TEXT, shown_compactions
from support.dialogues import texts
from support.editors import ZED_BETA
from support.models import Reply, Usage
from support.stage import stage
from support.terminal import run_command

MINE = "---\nallowed_tools: []\nhooks:\n  turn_end: {handler: swap_context, once: true}\n---\nSay it my way.\n"
LONG = "The cart adds prices. " * 900
"""About 5,000 tokens."""
WINDOW = 40_000
FULL = Usage(29_000, 400)


def swaps(home: Path) -> list[tuple[str, str, str]]:
    """Trigger, recipe and digest of every compaction in the log."""
    with closing(sqlite3.connect(home / "state" / "sessions.db")) as database:
        rows = database.execute(
            "SELECT data FROM events WHERE kind = 'context_swapped' ORDER BY session, seq"
        ).fetchall()
    events = [json.loads(data) for (data,) in rows]
    return [(event["trigger"], event["recipe"], event["digest"]) for event in events]


async def test_one_file_changes_all_four_compactions_and_its_digest_is_in_the_log(tmp_path: Path) -> None:
    recipe = tmp_path / "home" / "state" / "recipes" / "compact.md"
    recipe.parent.mkdir(parents=True)
    recipe.write_text(MINE)
    asked: list[str] = []

    def answer(body: Mapping[str, Any]) -> Reply:
        last = texts(body)[-1]
        if "Say it my way" in last or "Say it otherwise" in last:
            asked.append(last.splitlines()[0])
            return Reply(f"Summary {len(asked)}.")
        if last == "Fill it.":
            return Reply(LONG, usage=FULL)
        if last == "Refuse it.":
            it.server.max_prompt_tokens = 9_000
        return Reply(LONG)

    config = {"compaction": {"prepare": False, "wait": True}}
    env = {"ACP_AGENT_CONTEXT_WINDOW": str(WINDOW)}
    async with stage(tmp_path, script=answer, editor=ZED_BETA, config=config, env=env) as it:
        await it.prompt("One?")
        await it.prompt("/compact")
        await it.prompt("Fill it.")
        await it.prompt("Two?")
        changed = MINE.replace("my way", "otherwise")
        recipe.write_text(changed)
        await it.prompt("Refuse it.")
        await it.prompt("Three?")
        it.server.max_prompt_tokens = None
        shown = [compaction.statuses[-1] for compaction in shown_compactions(it.agent)]
        environment = it.server.env() | env
        ran = await run_command(it.home, "compact", "-c", it.session, env=environment)
    assert ran.code == 0, ran.err
    assert set(shown) == {"completed"}
    mine, other = (hashlib.sha256(text.encode()).hexdigest() for text in (MINE, changed))
    found = swaps(it.home)
    assert found[:2] == [("manual", "compact", mine), ("threshold", "compact", mine)]
    assert ("overflow", "compact", other) in found[2:]
    assert found[-1] == ("manual", "compact", other)
    assert asked[:2] == ["Say it my way."] * 2
    assert set(asked[2:]) == {"Say it otherwise."}
    assert not any(call.mentions(RECIPE_TEXT) for call in it.server.calls)


async def test_words_that_compact_knows_are_instructions_behind_another_recipe_that_compacts(
    tmp_path: Path,
) -> None:
    recipe = tmp_path / "home" / "state" / "recipes" / "short.md"
    recipe.parent.mkdir(parents=True)
    recipe.write_text(MINE)
    asked: list[str] = []

    def answer(body: Mapping[str, Any]) -> Reply:
        last = texts(body)[-1]
        if "Say it my way" in last:
            asked.append(last)
            return Reply("Summary.")
        return Reply(LONG)

    async with stage(tmp_path, script=answer, editor=ZED_BETA, config={"compaction": {"prepare": False}}) as it:
        await it.prompt("One?")
        for word in ("undo", "status"):
            await it.prompt(f"/short {word}")
            await it.prompt("And then?")
        assert [compaction.statuses[-1] for compaction in shown_compactions(it.agent)] == ["completed"] * 2
    assert ["undo" in text for text in asked] == [True, False]
    assert "status" in asked[1]
