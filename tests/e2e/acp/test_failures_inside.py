"""Failures that nobody foresaw: each says its class and the log file, and the traceback
is there and nowhere else.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from support.client import AgentError
from support.memory import agent_in_memory
from support.stored import damage_sessions


def details(home: Path) -> str:
    """The sentence that leads to the log file."""
    return f"The details are in {home / 'state' / 'logs' / 'acp-agent.log'}."


def tracebacks(home: Path) -> str:
    """What the log file holds, after asserting that there is a traceback in it."""
    logged = (home / "state" / "logs" / "acp-agent.log").read_text()
    assert "Traceback (most recent call last)" in logged
    return logged


async def test_a_request_that_fails_inside_names_the_log_where_its_traceback_is(
    tmp_path: Path,
) -> None:
    async with agent_in_memory(home=tmp_path) as agent:
        session = await agent.new_session(tmp_path)
        await agent.request(
            "session/set_title", {"sessionId": session, "title": "A session"}
        )
        damage_sessions(tmp_path)
        with pytest.raises(AgentError) as error:
            await agent.request("session/list", {})
        assert error.value.code == -32603
        assert error.value.message.startswith(
            "The agent failed internally (JSONDecodeError: "
        )
        assert error.value.message.endswith(details(tmp_path))
        assert error.value.data is None
        assert agent.stderr == ""
    assert "JSONDecodeError" in tracebacks(tmp_path)
