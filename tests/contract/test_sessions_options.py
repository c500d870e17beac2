"""Modes and config options: what may be chosen, and what it does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.client import AgentProcess
from support.editors import CODECOMPANION, TOAD, Editor
from support.replies import Reply
from support.stage import stage


def current(options: list[dict[str, Any]]) -> dict[str, str]:
    return {option["id"]: option["currentValue"] for option in options}


def last_mode(agent: AgentProcess) -> str:
    return agent.updates(kind="current_mode_update")[-1]["currentModeId"]


@pytest.mark.parametrize("editor", [CODECOMPANION, TOAD], ids=["codecompanion", "toad"])
async def test_the_mode_keeps_in_step_whichever_way_it_is_set(tmp_path: Path, editor: Editor) -> None:
    async with stage(tmp_path, editor=editor) as it:
        agent = it.agent
        assert await agent.set_mode(it.session, "plan") == {}
        assert last_mode(agent) == "plan"
        assert current(agent.updates(kind="config_option_update")[-1]["configOptions"])["mode"] == "plan"
        answer = await agent.set_config_option(it.session, "mode", "accept-edits")
        assert current(answer["configOptions"])["mode"] == "accept-edits"
        assert set(current(answer["configOptions"])) >= {"mode", "model", "thought_level"}
        assert last_mode(agent) == "accept-edits"
        # Setting what is set already is no change, and no news.
        heard = len(agent.lines)
        await agent.set_mode(it.session, "accept-edits")
        assert agent.methods_between(heard) == ["response session/set_mode"]


async def test_the_chosen_model_and_thought_level_reach_the_provider_with_the_next_request(tmp_path: Path) -> None:
    async with stage(tmp_path, *[Reply("Yes.")] * 4, dialect="anthropic") as it:
        await it.prompt()
        await it.agent.set_config_option(it.session, "model", "anthropic/claude-opus-5-5")
        await it.agent.set_config_option(it.session, "thought_level", "high")
        await it.prompt()
        await it.agent.set_config_option(it.session, "thought_level", "off")
        answer = await it.agent.set_config_option(it.session, "model", "anthropic/claude-test")
        chosen = {"mode": "ask", "model": "anthropic/claude-test", "thought_level": "off"}
        assert chosen.items() <= current(answer["configOptions"]).items()
        await it.prompt()
        async with it.restarted() as later:
            await later.agent.resume(it.session, it.folder)
            await later.prompt()
        bodies = [call.body for call in it.server.calls]
        assert [body["model"] for body in bodies] == ["claude-test", "claude-opus-5-5", "claude-test", "claude-test"]
        # A level that was chosen later is told where the conversation stands; the request begins as before.
        assert all("output_config" not in body for body in bodies)
        efforts = [
            [message["output_config"]["effort"] for message in body["messages"] if message["role"] == "system"]
            for body in bodies
        ]
        assert efforts == [[], ["high"], [], []]
        assert bodies[2].get("thinking") == bodies[3].get("thinking") != bodies[1].get("thinking")
