"""The agent with a model server that this project did not write, in each provider's dialect."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.aimock import DIALECTS, Dialect, aimock, fixture
from support.client import AgentError, connected_agent
from support.editors import ZED_BETA
from support.repo import make_repo

NEXT = fixture("What is next", {"content": "Repair it."})
LONG = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen"

each_dialect = pytest.mark.parametrize("dialect", DIALECTS)


def cut(prompt: str, text: str) -> dict[str, Any]:
    """A fixture whose stream is cut in the middle of its text."""
    return fixture(prompt, {"content": text}, chunkSize=8, truncateAfterChunks=8, latency=2)


@each_dialect
async def test_a_drop_a_server_error_and_a_rate_limit_are_retried_unseen(dialect: Dialect, tmp_path: Path) -> None:
    repo = make_repo(tmp_path / "shop")
    limited = {"error": {"message": "slow down", "type": "rate_limit_error"}, "status": 429, "retryAfter": 0}
    fixtures = [
        fixture("Hello", {"content": "lost"}, sequenceIndex=0, chaos={"disconnectRate": 1}),
        fixture("Hello", {"content": "lost"}, sequenceIndex=1, chaos={"dropRate": 1}),
        fixture("Hello", limited, sequenceIndex=2),
        fixture("Hello", {"content": "Here after all."}),
    ]

    async with (
        aimock(fixtures, dialect, tmp_path) as server,
        connected_agent(home=tmp_path, env=server.env, capabilities=ZED_BETA) as agent,
    ):
        session = await agent.new_session(repo.path)
        result = await agent.prompt(session, "Hello")
        calls = await server.journal()

    assert result == {"stopReason": "end_turn"}
    assert [call.status for call in calls] == [0, 500, 429, 200]
    assert all(call.body == calls[0].body for call in calls)
    assert list(agent.texts().values()) == ["Here after all."]
    assert len(agent.updates(kind="notice")) == 3


@each_dialect
async def test_a_stream_cut_in_the_middle_is_an_error_and_its_text_stays_once(dialect: Dialect, tmp_path: Path) -> None:
    repo = make_repo(tmp_path / "shop")

    async with (
        aimock([cut("Count", LONG), NEXT], dialect, tmp_path) as server,
        connected_agent(home=tmp_path, env=server.env, capabilities=ZED_BETA) as agent,
    ):
        session = await agent.new_session(repo.path)
        with pytest.raises(AgentError, match="broke off") as raised:
            await agent.prompt(session, "Count")
        seen = agent.text()
        await agent.prompt(session, "What is next?")
        broken, following = await server.journal()

    assert raised.value.code == -32603
    assert raised.value.data["details"] == raised.value.message
    assert broken.interrupted
    assert seen
    assert LONG.startswith(seen)
    assert seen != LONG
    assert following.text("assistant").count(seen.strip()) == 1


@each_dialect
async def test_an_answer_that_is_no_stream_is_an_error(dialect: Dialect, tmp_path: Path) -> None:
    repo = make_repo(tmp_path / "shop")
    fixtures = [fixture("Hello", {"content": "lost"}, chaos={"malformedRate": 1})]

    async with (
        aimock(fixtures, dialect, tmp_path) as server,
        connected_agent(home=tmp_path, env=server.env, capabilities=ZED_BETA) as agent,
    ):
        session = await agent.new_session(repo.path)
        with pytest.raises(AgentError, match="not with the stream") as raised:
            await agent.prompt(session, "Hello")

    assert raised.value.code == -32603
    assert agent.text() == ""


@each_dialect
async def test_a_refused_key_is_said_at_once_and_not_tried_again(dialect: Dialect, tmp_path: Path) -> None:
    repo = make_repo(tmp_path / "shop")
    refused = {"error": {"message": "invalid x-api-key", "type": "authentication_error"}, "status": 401}

    async with (
        aimock([fixture("Hello", refused)], dialect, tmp_path) as server,
        connected_agent(home=tmp_path, env=server.env, capabilities=ZED_BETA) as agent,
    ):
        session = await agent.new_session(repo.path)
        with pytest.raises(AgentError, match="refused the key") as raised:
            await agent.prompt(session, "Hello")
        calls = await server.journal()

    assert raised.value.code == -32000
    assert [call.status for call in calls] == [401]


@each_dialect
async def test_a_slow_answer_can_be_cancelled(dialect: Dialect, tmp_path: Path) -> None:
    repo = make_repo(tmp_path / "shop")
    slow = fixture("Count", {"content": LONG}, chunkSize=8, streamingProfile={"ttft": 1, "tps": 4})

    async with (
        aimock([slow, NEXT], dialect, tmp_path) as server,
        connected_agent(home=tmp_path, env=server.env, capabilities=ZED_BETA) as agent,
    ):
        session = await agent.new_session(repo.path)
        turn = await agent.start_prompt(session, "Count")
        await agent.wait_update("agent_message_chunk", timeout=15)
        await agent.cancel(session)
        assert await turn.result() == {"stopReason": "cancelled"}
        seen = agent.text()
        assert await agent.prompt(session, "What is next?") == {"stopReason": "end_turn"}
        _, following = await server.journal()

    assert LONG.startswith(seen)
    assert seen != LONG
    assert following.text("assistant").count(seen.strip()) == 1
