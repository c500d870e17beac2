"""Opening a session: new, load and resume, what they answer, and in which order things come."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from support.client import AgentError
from support.memory import stage
from support.replies import Reply


async def test_an_open_session_goes_on_where_opening_it_again_fails_for_its_settings(tmp_path: Path) -> None:
    hold = anyio.Event()
    async with stage(tmp_path, Reply(["One", " two"], hold=hold, hold_after=1), Reply("Three.")) as it:
        handle = await it.agent.start_prompt(it.session, "Go")
        await it.held()
        config = it.home / "state" / "config.yaml"
        before = config.read_text() if config.exists() else None
        config.write_text("model: [unclosed")
        for reopening in (it.agent.load, it.agent.resume):
            with pytest.raises(AgentError, match=r"config\.yaml"):
                await reopening(it.session, it.folder)
        hold.set()
        assert await handle.result() == {"stopReason": "end_turn"}
        config.unlink() if before is None else config.write_text(before)
        assert await it.prompt("On") == {"stopReason": "end_turn"}
        assert "".join(it.agent.text().split()) == "OnetwoThree."
