"""Settings that the user mends in a file while a session is open, because a prompt could not be answered."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.client import AgentError
from support.memory import stage
from support.models import Reply
from support.stage import conversation

RECIPE = "---\nmodel: local/small\n---\nLook at {{ instructions }}.\n"


async def test_settings_that_are_mended_in_two_steps_are_read_until_they_are_right_and_the_prompts_are_kept(
    tmp_path: Path,
) -> None:
    async with stage(tmp_path, Reply("One."), dialect="chat") as it:
        with pytest.raises(AgentError, match="there is no provider 'local'"):
            await it.prompt("First")
        config = it.server.write_config(it.home)
        right = config.read_text()
        config.write_text(right.replace('"providers"', '"provider"'))
        for prompt in ("Second", "Third"):
            with pytest.raises(AgentError, match="unknown key"):
                await it.prompt(prompt)
        config.write_text(right)
        assert await it.prompt("Fourth") == {"stopReason": "end_turn"}
        assert conversation(it.server.calls[0].body)[-1] == ("user", "Fourth")
        async with it.restarted() as later:
            await later.agent.load(it.session, it.folder)
            shown = [update["content"]["text"] for update in later.agent.updates(kind="user_message_chunk")]
            assert shown == ["First", "Second", "Third", "Fourth"]
