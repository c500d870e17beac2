"""What the editor shows of files that have keys of earlier versions."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.editors import ZED, ZED_BETA, Editor
from support.models import Reply
from support.stage import stage

OLD = """\
---
description: Make it short
hooks: {turn_end: {handler: swap_context}}
compaction: {tail: 10%, requests: 0}
---
Summarise.
"""


@pytest.mark.parametrize("editor", [ZED, ZED_BETA], ids=["messages", "notices"])
async def test_a_removed_key_is_told_once_for_each_file_and_everything_else_works(
    tmp_path: Path, editor: Editor
) -> None:
    state = tmp_path / "home" / "state"
    (state / "recipes").mkdir(parents=True, mode=0o700)
    (state / "recipes" / "short.md").write_text(OLD)
    config = {"compaction": {"target": 0.5}}
    async with stage(tmp_path, Reply("One."), Reply("Two."), config=config, editor=editor) as it:
        [update] = it.agent.updates(kind="available_commands_update")
        assert "short" in [command["name"] for command in update["availableCommands"]]
        await it.prompt("Go")
        await it.prompt("Go on")
        told = [str(notice["title"]) for notice in it.agent.updates(kind="notice")] or it.agent.text().split("\n\n")
        about = [text.strip() for text in told if "no longer used" in text]
        assert [text.partition(":")[0] for text in about] == [
            str(state / "config.yaml"),
            str(state / "recipes" / "short.md"),
        ]
        assert "`compaction.target` (line " in about[0]
        assert "`compaction.tail` (line 4) and `compaction.requests` (line 4) are no longer used" in about[1]
        assert all("`compaction.size` says how much the new context may take" in text for text in about)
        assert len(it.server.calls) == 2
        assert "no longer used" not in str(it.server.calls[1].body)
