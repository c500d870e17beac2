"""Failures that nobody foresaw: each says its class and the log file, and the traceback is there and nowhere else."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.client import AgentError, connected_agent
from support.compactions import shown_compactions
from support.models import Reply, ToolCall
from support.plugins import install_strategy
from support.stage import results, stage
from support.stored import damage_sessions, damage_times

HISTORY = "A cart. " * 400
RAISES = """\
class Strategy:
    name = "odd"

    async def draft(self, task):
        return 1 // 0
"""
ANSWERS_WITH_A_NUMBER = """\
class Strategy:
    name = "odd"

    async def draft(self, task):
        return 7
"""


def details(home: Path) -> str:
    """The sentence that leads to the log file."""
    return f"The details are in {home / 'state' / 'logs' / 'acp-agent.log'}."


def tracebacks(home: Path) -> str:
    """What the log file holds, after asserting that there is a traceback in it."""
    logged = (home / "state" / "logs" / "acp-agent.log").read_text()
    assert "Traceback (most recent call last)" in logged
    return logged


async def test_a_request_that_fails_inside_names_the_log_where_its_traceback_is(tmp_path: Path) -> None:
    async with connected_agent(home=tmp_path) as agent:
        await agent.new_session(tmp_path)
        damage_sessions(tmp_path)
        with pytest.raises(AgentError) as error:
            await agent.request("session/list", {})
        assert error.value.code == -32603
        assert error.value.message.startswith("The agent failed inside (JSONDecodeError: ")
        assert error.value.message.endswith(details(tmp_path))
        assert error.value.data["details"] == error.value.message
        assert agent.stderr == ""
    assert "JSONDecodeError" in tracebacks(tmp_path)


async def test_a_tool_that_fails_inside_names_the_log_where_its_traceback_is(tmp_path: Path) -> None:
    recall = Reply(tool_calls=[ToolCall("recall", {"entry": 3})])
    async with stage(tmp_path, Reply("Yes."), recall, Reply("It failed.")) as it:
        await it.prompt("Hello")
        damage_times(it.home)
        await it.prompt("What did I say first?")
        [result] = results(it.server.calls[-1].body)
        [call] = it.calls()
        assert it.agent.stderr == ""
    assert result.text.startswith("recall failed inside the agent (")
    assert result.text.endswith(f"). {details(it.home)}")
    assert call["status"] == "failed"
    assert "recall failed inside" in tracebacks(it.home)


@pytest.mark.parametrize(
    ("code", "sentence"),
    [
        (RAISES, "The compaction strategy 'odd' failed inside (ZeroDivisionError: "),
        (ANSWERS_WITH_A_NUMBER, "The compaction failed inside the agent (AttributeError: "),
    ],
    ids=["raises", "answers with a number"],
)
async def test_a_compaction_that_fails_inside_names_the_log_where_its_traceback_is(
    tmp_path: Path, code: str, sentence: str
) -> None:
    env = install_strategy(tmp_path / "packages", "odd", code)
    config = {"compaction": {"strategy": "odd", "prepare": False}}
    async with stage(tmp_path, Reply(HISTORY), config=config, env=env) as it:
        await it.prompt("What is this?")
        await it.prompt("/compact")
        [compaction] = shown_compactions(it.agent)
        said = it.agent.text().partition(HISTORY)[2].lstrip()
        assert it.agent.stderr == ""
    assert compaction.statuses[-1] == "failed"
    for text in (said, compaction.text):
        assert text.startswith(sentence)
        assert f"). {details(it.home)} The history is unchanged." in text
    assert sentence.partition(" (")[0] in tracebacks(it.home)
