"""The first exchange: versions, capabilities, `authenticate`, and what comes too early."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from acp_agent.protocol import JsonObject
from acp_agent.server.handshake import Capabilities
from support.client import AgentError
from support.editors import BARE
from support.memory import agent_in_memory
from support.models import model_server


async def test_the_capabilities_are_objects_and_the_first_way_to_authenticate_needs_no_terminal(
    tmp_path: Path,
) -> None:
    async with agent_in_memory(home=tmp_path) as agent:
        capabilities = agent.initialized["agentCapabilities"]
        assert capabilities["loadSession"] is True
        assert capabilities["mcpCapabilities"] == {
            "http": True,
            "sse": True,
            "acp": True,
        }
        assert capabilities["sessionCapabilities"] == {
            "list": {},
            "delete": {},
            "additionalDirectories": {},
            "resume": {},
            "close": {},
            "fork": {"_meta": {"acp-agent": {"at": True, "messageId": True}}},
            "title": {},
            "archive": {},
            "status": {},
        }
        assert capabilities["promptCapabilities"] == {
            "image": True,
            "embeddedContext": True,
        }
        assert capabilities["auth"] == {"logout": {}, "status": {}}
        assert capabilities["providers"] == {}
        assert agent.initialized["authMethods"][0].get("type", "agent") == "agent"
        assert agent.initialized["agentInfo"]["name"] == "acp-agent"


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ({"auth": {"terminal": True}}, "terminal"),
        ({"auth": {"terminal": False}}, "none"),
        ({"auth": {"terminal": "yes"}, "terminal": True}, "none"),
    ],
)
async def test_a_login_in_a_terminal_is_offered_to_editors_that_have_one_for_it(
    tmp_path: Path, said: dict[str, Any], kind: str
) -> None:
    async with agent_in_memory(
        home=tmp_path, capabilities=BARE, initialize=False
    ) as agent:
        methods = (await agent.initialize(clientCapabilities=said))["authMethods"]
        assert [method["id"] for method in methods] == ["api-key", "login"][
            : 1 if kind == "none" else 2
        ]
        if kind != "none":
            assert methods[1].get("type") == kind
            assert methods[1].get("args") == ["login"]


@pytest.mark.parametrize("with_key", [True, False])
async def test_authenticate_succeeds_at_once_and_silently_whether_a_key_is_set_or_not(
    tmp_path: Path, with_key: bool
) -> None:
    async with (
        model_server() as server,
        agent_in_memory(home=tmp_path, env=server.env() if with_key else {}) as agent,
    ):
        method = agent.initialized["authMethods"][0]["id"]
        heard = len(agent.lines)
        for _ in range(2):
            assert await agent.request("authenticate", {"methodId": method}) == {}
        assert agent.methods_between(heard) == ["response authenticate"] * 2
        assert agent.stderr == ""
        assert server.requests == []
        await agent.new_session(tmp_path)
        with pytest.raises(AgentError, match="no method 'other'") as error:
            await agent.request("authenticate", {"methodId": "other"})
        assert error.value.code == -32602


def test_a_terminal_that_splits_commands_anew_counts_as_none_and_what_is_not_an_object_as_not_said() -> (
    None
):
    said: JsonObject = {
        "clientCapabilities": {
            "terminal": True,
            "elicitation": {"form": {}, "url": True},
        }
    }
    first = Capabilities.of(1, {**said, "clientInfo": {"name": "zed"}})
    assert (first.terminal, first.forms, first.urls) == (True, True, False)
    assert not Capabilities.of(
        1, {**said, "clientInfo": {"name": "vscode-acp-client"}}
    ).terminal
    second = Capabilities.of(
        2, {"capabilities": {"elicitation": {"form": None, "url": {}}}}
    )
    assert (second.terminal, second.forms, second.urls) == (False, False, True)
