"""Which version of the protocol an editor gets, and what of it is loaded for whom."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from support.called import call_command
from support.client import AgentError
from support.lines import Line
from support.memory import agent_in_memory, second_agent
from support.second import HAND_MADE


async def test_before_sessions_the_version_may_be_agreed_on_again_and_not_afterwards(
    tmp_path: Path,
) -> None:
    async with agent_in_memory(
        home=tmp_path, validate=False, laws=False, initialize=False
    ) as agent:
        for version in (2, 1, 2, 1):
            answer = await agent.request(
                "initialize", HAND_MADE | {"protocolVersion": version}
            )
            assert answer["protocolVersion"] == version
        await agent.new_session(tmp_path)
        assert (await agent.request("initialize", HAND_MADE | {"protocolVersion": 1}))[
            "protocolVersion"
        ] == 1
        with pytest.raises(AgentError, match="uses version 1"):
            await agent.request("initialize", HAND_MADE)


async def test_version_2_wants_to_know_whom_it_talks_to(tmp_path: Path) -> None:
    strangers: list[Any] = [None, {}, {"name": "x"}, {"name": 1, "version": "1"}, "x"]
    async with agent_in_memory(
        home=tmp_path, validate=False, laws=False, initialize=False
    ) as agent:
        for info in strangers:
            with pytest.raises(AgentError, match="info") as error:
                await agent.request("initialize", {"protocolVersion": 2, "info": info})
            assert error.value.code == -32602
        await agent.request("initialize", HAND_MADE)


async def test_an_unknown_version_with_the_params_of_version_1_gets_version_1(
    tmp_path: Path,
) -> None:
    async with agent_in_memory(
        home=tmp_path, validate=False, laws=False, initialize=False
    ) as agent:
        for version in (3, 99):
            for params in (
                {},
                {
                    "clientCapabilities": {"terminal": True},
                    "clientInfo": {"name": "x", "version": "1"},
                },
            ):
                answer = await agent.request(
                    "initialize", {"protocolVersion": version, **params}
                )
                assert (answer["protocolVersion"], "agentCapabilities" in answer) == (
                    1,
                    True,
                )
            answer = await agent.request(
                "initialize", HAND_MADE | {"protocolVersion": version}
            )
            assert answer["protocolVersion"] == 2


async def test_signing_in_and_out_in_version_2(tmp_path: Path) -> None:
    async with second_agent(home=tmp_path) as it:
        [method] = it.initialized["authMethods"]
        assert (
            await it.agent.request("auth/login", {"methodId": method["methodId"]}) == {}
        )
        await call_command(tmp_path, "login", "openai", "--no-check", stdin="a-key")
        assert await it.agent.request("auth/logout", {}) == {}
        assert not json.loads((tmp_path / "state" / "keys.json").read_text())[
            "providers"
        ]
        with pytest.raises(AgentError) as error:
            await it.agent.request("auth/login", {"methodId": "other"})
        assert error.value.code == -32602
        assert [line.kind for line in it.agent.lines if isinstance(line, Line)][
            -1
        ] == "error"
