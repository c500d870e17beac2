"""What holds over a whole session: its id, the silence of stderr, and what an editor is
told between two turns.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.client import AgentError
from support.memory import agent_in_memory, stage
from support.models import model_server
from support.replies import Reply


async def test_nothing_is_sent_of_a_session_that_was_closed_right_after_it_was_opened(
    tmp_path: Path,
) -> None:
    async with stage(tmp_path, Reply("Hi.")) as it:
        await it.prompt()
        async with it.restarted() as later:
            for _ in range(10):
                await later.agent.load(it.session, it.folder)
                await later.agent.request("session/close", {"sessionId": it.session})
                heard = len(later.agent.lines)
                await later.agent.request("session/list", {})
                assert later.agent.methods_between(heard) == ["response session/list"]


async def test_an_open_session_goes_on_once_its_user_has_set_a_model_up(
    tmp_path: Path,
) -> None:
    async with (
        agent_in_memory(home=tmp_path) as agent,
        model_server([Reply("Yes.")], "chat") as server,
    ):
        session = await agent.new_session(tmp_path)
        with pytest.raises(AgentError, match="ANTHROPIC_API_KEY"):
            await agent.prompt(session, "Hello")
        config = server.write_config(tmp_path, {"model": server.model})
        settings = json.loads(config.read_text())
        del settings["providers"]["local"]["api_key_env"]
        config.write_text("model: [")
        with pytest.raises(AgentError, match=r"config\.yaml:1") as error:
            await agent.prompt(session, "Hello")
        assert error.value.code != -32000
        config.write_text(json.dumps(settings))
        assert await agent.request("authenticate", {"methodId": "api-key"}) == {}
        begun = len(agent.lines)
        assert await agent.prompt(session, "Hello", timeout=30) == {
            "stopReason": "end_turn"
        }
        [options] = agent.updates(kind="config_option_update", since=begun)
        [model] = [
            option["currentValue"]
            for option in options["configOptions"]
            if option["id"] == "model"
        ]
        assert model == server.model
