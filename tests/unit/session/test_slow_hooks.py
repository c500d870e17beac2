"""Slow hooks at the start of a session."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from support.editors import ZED, ZED_BETA, Editor
from support.memory import stage
from support.models import Reply


@pytest.mark.parametrize("editor", [ZED, ZED_BETA], ids=["messages", "notices"])
async def test_the_user_is_told_when_a_prompt_waits_for_session_start_hooks(
    tmp_path: Path, editor: Editor
) -> None:
    os.mkfifo(tmp_path / "gate")
    config = {"hooks": {"session_start": [{"command": f"cat {tmp_path / 'gate'}"}]}}
    async with stage(
        tmp_path, Reply("Yes."), Reply("Again."), config=config, editor=editor
    ) as it:
        turn = await it.agent.start_prompt(it.session, "One?")
        waits = "The prompt is waiting for the `session_start` hooks"
        await it.agent.wait_for(lambda line: waits in str(line.message), 30)
        assert not it.server.calls
        (tmp_path / "gate").write_text("Be kind.")
        assert await turn.result() == {"stopReason": "end_turn"}
        assert "Be kind." in str(it.server.calls[0].body)
        await it.prompt("Two?")
        assert str([line.message for line in it.agent.lines]).count(waits) == 1
