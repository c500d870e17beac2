"""Settings that the user mends in a file while a session is open, because a prompt could not be answered."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.client import AgentError
from support.editors import ZED_BETA
from support.models import Reply
from support.stage import conversation, stage

RECIPE = "---\nmodel: local/small\n---\nLook at {{ instructions }}.\n"


async def test_a_recipe_with_a_provider_that_was_missing_runs_once_the_configuration_names_it(tmp_path: Path) -> None:
    recipe = tmp_path / "home" / "state" / "recipes" / "look.md"
    recipe.parent.mkdir(parents=True)
    recipe.write_text(RECIPE)
    async with stage(tmp_path, Reply("One."), Reply("Two."), dialect="chat", editor=ZED_BETA) as it:
        [notice] = it.agent.updates(kind="notice")
        assert "local" in str(notice)
        assert str(recipe) in str(notice)
        with pytest.raises(AgentError, match="there is no provider 'local'"):
            await it.prompt("/look it up")
        it.server.write_config(it.home)
        begun = len(it.agent.lines)
        await it.prompt("/look it up")
        assert conversation(it.server.calls[0].body)[-1] == ("user", "Look at it up.")
        assert it.server.calls[0].body["model"] == "small"
        offered = [update["availableCommands"] for update in it.agent.updates(kind="available_commands_update")]
        assert "look" in [command["name"] for command in offered[-1]]
        await it.prompt("Go on")
        assert it.server.calls[1].body["model"] != "small"
        assert len(it.agent.updates(kind="notice")) == 1
        assert it.agent.updates(kind="config_option_update", since=begun)


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
