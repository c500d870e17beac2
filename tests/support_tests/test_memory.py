"""An agent in the process of the tests: what it leaves behind, which is nothing."""

from __future__ import annotations

import os
from pathlib import Path

from support.editors import BARE
from support.memory import stage
from support.replies import Reply, ToolCall


async def test_its_environment_is_what_it_is_given_and_its_commands_inherit_that_alone(tmp_path: Path) -> None:
    before = dict(os.environ)
    call = ToolCall("shell", {"command": "echo $HOME $WORD"})
    replies = [Reply(tool_calls=[call]), Reply("Done.")]
    async with stage(tmp_path, *replies, mode="full-access", editor=BARE, env={"WORD": "own"}) as it:
        await it.prompt()
        assert f"{it.home} own" in str(it.server.calls[1].body)
    assert dict(os.environ) == before
