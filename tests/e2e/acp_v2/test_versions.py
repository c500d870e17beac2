"""Which version of the protocol an editor gets, and what of it is loaded for whom."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from support.client import AgentError, start_agent
from support.lines import Line
from support.memory import agent_in_memory, second_agent
from support.second import HAND_MADE, INFO
from support.terminal import run_command


async def test_before_sessions_the_version_may_be_agreed_on_again_and_not_afterwards(tmp_path: Path) -> None:
    async with agent_in_memory(home=tmp_path, validate=False, laws=False, initialize=False) as agent:
        for version in (2, 1, 2, 1):
            answer = await agent.request("initialize", HAND_MADE | {"protocolVersion": version})
            assert answer["protocolVersion"] == version
        await agent.new_session(tmp_path)
        assert (await agent.request("initialize", HAND_MADE | {"protocolVersion": 1}))["protocolVersion"] == 1
        with pytest.raises(AgentError, match="speaks version 1"):
            await agent.request("initialize", HAND_MADE)


async def test_version_2_wants_to_know_whom_it_talks_to(tmp_path: Path) -> None:
    strangers: list[Any] = [None, {}, {"name": "x"}, {"name": 1, "version": "1"}, "x"]
    async with agent_in_memory(home=tmp_path, validate=False, laws=False, initialize=False) as agent:
        for info in strangers:
            with pytest.raises(AgentError, match="info") as error:
                await agent.request("initialize", {"protocolVersion": 2, "info": info})
            assert error.value.code == -32602
        await agent.request("initialize", HAND_MADE)


async def test_what_version_2_needs_is_loaded_for_who_asks_for_it_alone(tmp_path: Path) -> None:
    def loaded(stderr: str) -> set[str]:
        return {line.rpartition("|")[2].strip() for line in stderr.splitlines() if line.startswith("import time:")}

    for version in (1, 2):
        env = {"PYTHONPROFILEIMPORTTIME": "1"}
        async with start_agent(home=tmp_path, env=env, validate=False, laws=False) as agent:
            await agent.request("initialize", {"protocolVersion": version, "info": INFO})
            answered = loaded(agent.stderr)
            await agent.new_session(tmp_path)
            await agent.wait_update("available_commands_update")
            agent.kill()
            await agent.wait_exit()
            second = {name for name in loaded(agent.stderr) if ".v2" in name and name.startswith("acp_agent")}
        assert bool(second) == (version == 2)
        assert ("acp_agent.server.v2.agent" in second) == (version == 2)
        # the handshake was enough, whichever version it was
        assert not answered & {"yaml", "pydantic", "anyio", "acp_agent.config.settings"}


async def test_a_login_in_a_terminal_is_offered_where_the_editor_has_one_for_it(tmp_path: Path) -> None:
    for terminal, kinds in (({}, ["agent", "terminal"]), (None, ["agent"]), (True, ["agent"])):
        async with second_agent(home=tmp_path, capabilities={"auth": {"terminal": terminal}}) as it:
            assert [method["type"] for method in it.initialized["authMethods"]] == kinds
            again = await it.initialize(capabilities={"auth": {"terminal": terminal}})
            assert again == it.initialized
    async with second_agent(home=tmp_path, capabilities={"auth": {"terminal": {}}}) as it:
        login = it.initialized["authMethods"][1]
        assert (login["methodId"], login["args"]) == ("login", ["login"])


async def test_signing_in_and_out_in_version_2(tmp_path: Path) -> None:
    async with second_agent(home=tmp_path) as it:
        [method] = it.initialized["authMethods"]
        assert await it.agent.request("auth/login", {"methodId": method["methodId"]}) == {}
        await run_command(tmp_path, "login", "openai", "--no-check", stdin="a-key")
        assert await it.agent.request("auth/logout", {}) == {}
        assert not json.loads((tmp_path / "state" / "keys.json").read_text())["providers"]
        with pytest.raises(AgentError) as error:
            await it.agent.request("auth/login", {"methodId": "other"})
        assert error.value.code == -32602
        assert [line.kind for line in it.agent.lines if isinstance(line, Line)][-1] == "error"
