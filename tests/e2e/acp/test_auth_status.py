"""`auth/status`: whether a session can begin without signing in first, and with which
keys; only for who asks.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from acp_agent.config.keys import KeyStore
from support.client import AgentProcess
from support.memory import agent_in_memory
from support.models import KEY, model_server
from support.second import HAND_MADE

UPDATE = "auth/status_update"


def told(agent: AgentProcess) -> list[Any]:
    return [line.params for line in agent.lines if line.method == UPDATE]


async def status(agent: AgentProcess) -> dict[str, Any]:
    return await agent.request("auth/status", {})


async def test_a_key_of_the_environment_a_local_model_and_none_are_told_apart(
    tmp_path: Path,
) -> None:
    env = {"OPENAI_API_KEY": KEY}
    async with agent_in_memory(home=tmp_path / "key", env=env) as agent:
        account = {"label": "openai: the key in OPENAI_API_KEY", "active": True}
        assert await status(agent) == {"state": "authenticated", "accounts": [account]}
        assert KEY not in str([line.raw for line in agent.lines])
    async with model_server([], "ollama") as server:
        server.write_config(tmp_path)
        for model, state in (
            ("ollama/llama-test", "not_required"),
            ("local/chat-test", "unauthenticated"),
        ):
            async with agent_in_memory(
                home=tmp_path, env={"ACP_AGENT_MODEL": model}
            ) as agent:
                assert await status(agent) == {"state": state, "accounts": []}
    broken = tmp_path / "broken" / "state"
    broken.mkdir(parents=True)
    (broken / "config.yaml").write_text("providers: 5\n")
    async with agent_in_memory(home=broken.parent, laws=False) as agent:
        assert await status(agent) == {"state": "unknown", "accounts": []}


@pytest.mark.parametrize("version", [1, 2])
async def test_an_editor_that_has_asked_is_told_of_what_was_stored_beside_it_and_of_a_change_alone(
    tmp_path: Path, version: int
) -> None:
    authenticate, sign_out = (
        ("authenticate", "logout") if version == 1 else ("auth/login", "auth/logout")
    )
    params = {"methodId": "api-key"}
    async with agent_in_memory(
        home=tmp_path, validate=False, laws=False, initialize=False
    ) as agent:
        await agent.request("initialize", {**HAND_MADE, "protocolVersion": version})
        assert await status(agent) == {"state": "unauthenticated", "accounts": []}
        assert await agent.request(authenticate, params) == {}
        KeyStore(tmp_path / "state").store("openai", KEY)
        assert await agent.request(authenticate, params) == {}
        await agent.wait_for(lambda line: line.method == UPDATE)
        assert await agent.request(authenticate, params) == {}
        assert await agent.request(sign_out, {}) == {}
        account = {"label": "openai: the stored key", "active": True}
        await agent.until(lambda: len(told(agent)) == 2)
        assert told(agent) == [
            {"state": "authenticated", "accounts": [account]},
            {"state": "unauthenticated", "accounts": []},
        ]
