"""`providers/list`, `providers/set` and `providers/disable`: an editor has the model's
requests sent where it wants.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from acp_agent.server.recording import recordings
from support.client import AgentError, AgentProcess
from support.memory import agent_in_memory, stage
from support.models import KEY, ModelServer, Reply, model_server
from support.stage import PATIENCE, Stage

SECRET = "0123-gateway-secret"


async def provider(agent: AgentProcess, name: str) -> dict[str, Any]:
    """One row of the list."""
    rows = (await agent.request("providers/list", {}))["providers"]
    [row] = [row for row in rows if row["providerId"] == name]
    return dict(row)


def route(server: ModelServer, **more: Any) -> dict[str, Any]:
    """Params that send OpenAI's requests to this server."""
    headers = {"authorization": f"Bearer {KEY}", "X-Gateway-Pass": SECRET}
    return {
        "providerId": "openai",
        "apiType": "openai",
        "baseUrl": f"{server.base_url}/v1",
        "headers": headers,
        **more,
    }


async def test_an_open_sessions_next_request_goes_where_the_editor_sends_it_and_back_once_it_was_turned_off(
    tmp_path: Path,
) -> None:
    own = {
        "OPENAI_API_KEY": "the-users-own-key",
        "OPENAI_ORG_ID": "the-users-own-org",
        "ACP_AGENT_WIRE": "1",
    }
    async with (
        stage(
            tmp_path,
            env=own,
            config={"providers": {"openai": {"headers": {"x-own": "user"}}}},
        ) as it,
        model_server(
            [Reply("From the gateway."), Reply("Again.")], "openai"
        ) as gateway,
    ):
        agent = it.agent
        own_url = f"{it.server.base_url}/v1"
        assert await provider(agent, "openai") == {
            "providerId": "openai",
            "supported": ["openai"],
            "required": False,
            "current": {"apiType": "openai", "baseUrl": own_url},
        }
        assert await agent.request("providers/set", route(gateway)) == {}
        assert (await provider(agent, "openai"))["current"][
            "baseUrl"
        ] == f"{gateway.base_url}/v1"
        await it.prompt()
        [sent] = gateway.calls
        assert (sent.headers["authorization"], sent.headers["x-gateway-pass"]) == (
            f"Bearer {KEY}",
            SECRET,
        )
        assert "x-own" not in sent.headers
        assert "the-users-own" not in str(sent.headers)
        assert it.server.calls == []

        assert await agent.request("providers/disable", {"providerId": "openai"}) == {}
        assert (await provider(agent, "openai"))["current"] is None
        with pytest.raises(AgentError, match="turned the provider openai off") as error:
            await it.prompt()
        assert error.value.code != -32000
        assert len(gateway.calls) == 1

        await agent.request("providers/set", route(gateway))
        assert await it.prompt() == {"stopReason": "end_turn"}
        await no_trace_is_left(it)


async def no_trace_is_left(it: Stage) -> None:
    """What the headers hold stands neither in a file nor in what was said, and a new
    process knows nothing of it.
    """
    state = it.home / "state"
    assert recordings(state / "wire")
    for path in state.rglob("*"):
        assert not path.is_file() or SECRET.encode() not in path.read_bytes(), path
    assert (
        SECRET
        not in b"".join(line.raw for line in it.agent.lines).decode() + it.agent.stderr
    )
    async with it.restarted() as later:
        assert (await provider(later.agent, "openai"))["current"][
            "baseUrl"
        ] == f"{it.server.base_url}/v1"


@pytest.mark.parametrize("header", ["authorization", "X-API-Key"])
async def test_a_route_makes_an_agent_without_any_key_usable_and_a_disabled_provider_leaves_the_menu(
    tmp_path: Path, header: str
) -> None:
    async with (
        agent_in_memory(home=tmp_path) as agent,
        model_server([Reply("Hi.")], "anthropic") as gateway,
    ):
        headers = {header: f"Bearer {KEY}" if header == "authorization" else KEY}
        params = {
            "providerId": "anthropic",
            "apiType": "anthropic",
            "baseUrl": gateway.base_url,
            "headers": headers,
        }
        await agent.request("providers/set", params)
        session = await agent.new_session(tmp_path)
        assert await agent.prompt(session, "Hello", PATIENCE) == {
            "stopReason": "end_turn"
        }
        sent = {
            name: gateway.calls[0].headers.get(name)
            for name in ("authorization", "x-api-key")
        }
        assert {name: value for name, value in sent.items() if value} == {
            header.lower(): headers[header]
        }
        await agent.request("providers/disable", {"providerId": "anthropic"})
        created = await agent.request(
            "session/new", {"cwd": str(tmp_path), "mcpServers": []}
        )
        assert "anthropic/" not in str(created["configOptions"])


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"providerId": "nobody"}, "no provider 'nobody'"),
    ({"apiType": "anthropic"}, "openai uses 'openai'"),
    ({"apiType": "_own"}, "openai uses 'openai'"),
    ({"baseUrl": "gateway.example"}, "baseUrl"),
    ({"baseUrl": "https://user:pass@gateway.example/v1"}, "baseUrl"),
    ({"headers": {"X-A\n": "b"}}, "cannot be sent with this value"),
    ({"headers": {"Host": "b"}}, "cannot be sent with this value"),
    ({"headers": {"X-A": f"{SECRET}\n"}}, "X-A. cannot be sent with this value"),
    ({"headers": {"X-A": 1}}, "headers"),
    ({"headers": None, "baseUrl": None}, "baseUrl"),
]


async def test_a_route_that_cannot_be_used_is_refused_and_changes_nothing(
    tmp_path: Path,
) -> None:
    async with (
        model_server([], "openai") as server,
        agent_in_memory(home=tmp_path, env=server.env()) as agent,
    ):
        before = await agent.request("providers/list", {})
        for wrong, complaint in WRONG:
            with pytest.raises(AgentError, match=complaint) as error:
                await agent.request("providers/set", route(server, **wrong))
            assert error.value.code == -32602
            assert SECRET not in error.value.message
            assert "pass@" not in error.value.message
        with pytest.raises(AgentError):
            await agent.request("providers/disable", {})
        assert await agent.request("providers/disable", {"providerId": "nobody"}) == {}
        assert await agent.request("providers/list", {}) == before
