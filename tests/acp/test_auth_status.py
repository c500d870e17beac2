"""`auth/status`: whether a session can begin without signing in first, and with which keys; only for who asks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from acp_agent.config.keys import KeyStore
from support.client import AgentProcess, connected_agent
from support.models import KEY, model_server
from support.stage import stage

UPDATE = "auth/status_update"


async def status(agent: AgentProcess) -> dict[str, Any]:
    return await agent.request("auth/status", {})


async def test_a_key_of_the_environment_a_local_model_and_none_are_told_apart(tmp_path: Path) -> None:
    env = {"OPENAI_API_KEY": KEY}
    async with connected_agent(home=tmp_path / "key", env=env) as agent:
        account = {"label": "openai: the key in OPENAI_API_KEY", "active": True}
        assert await status(agent) == {"state": "authenticated", "accounts": [account]}
        assert KEY not in str([line.raw for line in agent.lines])
    async with model_server([], "ollama") as server:
        server.write_config(tmp_path)
        for model, state in (("ollama/llama-test", "not_required"), ("local/chat-test", "unauthenticated")):
            async with connected_agent(home=tmp_path, env={"ACP_AGENT_MODEL": model}) as agent:
                assert await status(agent) == {"state": state, "accounts": []}
    broken = tmp_path / "broken" / "state"
    broken.mkdir(parents=True)
    (broken / "config.yaml").write_text("providers: 5\n")
    async with connected_agent(home=broken.parent, laws=False) as agent:
        assert await status(agent) == {"state": "unknown", "accounts": []}


async def test_an_editor_that_has_asked_is_told_of_a_logout_and_no_other(tmp_path: Path) -> None:
    for asked in (True, False):
        home = tmp_path / str(asked)
        KeyStore(home / "home" / "state").store("openai", KEY)
        async with stage(home, env={"OPENAI_API_KEY": None}) as it:
            if asked:
                account = {"label": "openai: the key that is stored", "active": True}
                assert await status(it.agent) == {"state": "authenticated", "accounts": [account]}
            assert await it.agent.request("logout", {}) == {}
            if asked:
                told = await it.line(UPDATE)
                assert told.params == {"state": "unauthenticated", "accounts": []}
            await it.agent.request("session/list", {})
            assert len([line for line in it.agent.lines if line.method == UPDATE]) == int(asked)
