"""Which version of the protocol an editor gets, and what it has of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.client import AgentError, start_agent
from support.second import HAND_MADE

pytestmark = pytest.mark.process

VERSION_2_METHODS = ["auth/login", "auth/logout", "tool_call/cancel", "terminal/cancel"]
VERSION_1_METHODS = ["authenticate", "session/load", "session/set_mode"]


def configure(home: Path, text: str) -> None:
    """Write the user's configuration."""
    (home / "state").mkdir(parents=True)
    (home / "state" / "config.yaml").write_text(text)


async def ask(home: Path, version: int, **over: Any) -> dict[str, Any]:
    """What an agent answers to `initialize` as the first line of a connection."""
    async with start_agent(home=home, validate=False, laws=False) as agent:
        return await agent.request("initialize", {**HAND_MADE, "protocolVersion": version, **over})


async def refused(home: Path, version: int) -> AgentError:
    """The error that it answers with."""
    with pytest.raises(AgentError) as caught:
        await ask(home, version)
    return caught.value


async def test_an_editor_gets_the_highest_version_that_both_speak(tmp_path: Path) -> None:
    for offered, expected in ((1, 1), (2, 2), (3, 2), (65_535, 2)):
        answer = await ask(tmp_path, offered)
        assert answer["protocolVersion"] == expected
        assert ("info" in answer, "agentInfo" in answer) == (expected == 2, expected == 1)
    none = await refused(tmp_path, 0)
    assert (none.code, none.data) == (-32022, {"requested": 0, "supported": [1, 2]})
    assert "version 1 or 2" in str(none)


async def test_the_configuration_turns_version_2_off_and_nothing_else_in_it_does(tmp_path: Path) -> None:
    configure(tmp_path, "protocol:\n  versions: [1]\n")
    for offered in (1, 2, 99):
        assert (await ask(tmp_path, offered))["protocolVersion"] == 1
    assert (await refused(tmp_path, 0)).data == {"requested": 0, "supported": [1]}
    (tmp_path / "state" / "config.yaml").write_text("# the protocol: either\nmode: plan\n")
    assert (await ask(tmp_path, 2))["protocolVersion"] == 2
    (tmp_path / "state" / "config.yaml").write_text("protocol:\n  versions: [2, 1]\n")
    assert (await ask(tmp_path, 2))["protocolVersion"] == 2


async def test_each_version_has_its_own_methods(tmp_path: Path) -> None:
    async with start_agent(home=tmp_path, validate=False, laws=False) as agent:
        for version, others in ((1, VERSION_2_METHODS), (2, VERSION_1_METHODS)):
            await agent.request("initialize", HAND_MADE | {"protocolVersion": version})
            for method in others:
                with pytest.raises(AgentError) as error:
                    await agent.request(method, {})
                assert error.value.code == -32601, method
