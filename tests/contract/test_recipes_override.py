"""Who overrides `compact.md` changes every summary: by hand, in the background and from the terminal."""

from __future__ import annotations

import pytest
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio

from support.background import LONG, PREPARE, THRESHOLD, desk
from support.compactions import RECIPE_TEXT, shown_compactions
from support.dialogues import texts
from support.models import Reply, Usage
from support.terminal import run_command

pytestmark = pytest.mark.process

MINE = "---\nallowed_tools: []\nhooks:\n  turn_end: {handler: swap_context, once: true}\n---\nSay it my way.\n"


async def test_one_file_changes_the_summaries_by_hand_in_the_background_and_from_the_terminal(tmp_path: Path) -> None:
    folder = tmp_path / "state" / "recipes"
    folder.mkdir(parents=True, mode=0o700)
    folder.parent.chmod(0o700)
    (folder / "compact.md").write_text(MINE)
    used, mine = PREPARE, 0

    def answer(body: Mapping[str, Any]) -> Reply:
        nonlocal mine
        if "Say it my way." in texts(body)[-1]:
            mine += 1
            return Reply(f"Mine {mine}.")
        return Reply(LONG, usage=Usage(used, 400))

    async with desk(tmp_path, script=answer) as it:
        await it.prompt("One?")
        await it.prompt("/compact")
        assert [compaction.text for compaction in shown_compactions(it.agent)] == ["Mine 1."]
        used = THRESHOLD
        await it.prompt("Two?")
        await it.prompt("Three?")
        with anyio.fail_after(10):
            while len(shown_compactions(it.agent)) < 2:
                await it.prompt("And?")
        assert shown_compactions(it.agent)[1].text == "Mine 2."
        ran = await run_command(tmp_path, "compact", "-c", it.session, env=it.env)
        assert ran.code == 0, ran.err
        assert "Mine " in ran.out
        assert not any(call.mentions(RECIPE_TEXT) for call in it.server.calls)
