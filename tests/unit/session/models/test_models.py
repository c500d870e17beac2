"""The context meter: the provider's last count and the size of the whole window."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from support.client import AgentProcess
from support.http_server import Exchange, http_server
from support.memory import agent_in_memory as connected_agent
from support.models import ModelServer, Reply, ToolCall, Usage, model_server


@pytest.mark.parametrize(
    ("env", "config", "size"),
    [
        ({}, "", 123_456),
        ({"ACP_AGENT_CONTEXT_WINDOW": "50000"}, "context_window: 60000", 50_000),
        ({}, "context_window: 60000", 60_000),
        ({}, "models: {anthropic/claude-test: {context_window: 70000}}", 123_456),
    ],
    ids=[
        "the provider",
        "the variable",
        "the configuration",
        "not the model's settings, since the provider says",
    ],
)
async def test_the_meter_shows_the_last_answers_tokens_and_the_whole_window(
    tmp_path: Path, env: dict[str, str], config: str, size: int
) -> None:
    (tmp_path / "state").mkdir(mode=0o700)
    (tmp_path / "state" / "config.yaml").write_text(config)
    (tmp_path / "a.txt").write_text("text")
    read = ToolCall("read", {"path": str(tmp_path / "a.txt")})
    script = [
        Reply(
            "One.",
            tool_calls=[read],
            usage=Usage(input=1_000, output=7, cache_read=200, cache_write=30),
        ),
        Reply("Two.", usage=Usage(input=20, output=5, cache_read=1_230, cache_write=4)),
    ]
    async with (
        model_server(script, context_window=123_456) as server,
        connected_agent(home=tmp_path, env=server.env() | env) as agent,
    ):
        session = await agent.new_session(tmp_path)
        await agent.prompt(session, "One?")
        meters = agent.updates(kind="usage_update")
        assert [(meter["used"], meter["size"]) for meter in meters] == [
            (1_237, size),
            (1_259, size),
        ]
        costs = [meter["cost"]["amount"] for meter in meters]
        assert 0 < costs[0] < costs[1]


def sizes(agent: AgentProcess) -> list[int]:
    return [meter["size"] for meter in agent.updates(kind="usage_update")]


@asynccontextmanager
async def front(
    answer: Callable[[Exchange], Awaitable[bool]], server: ModelServer
) -> AsyncIterator[str]:
    """Serve requests in front of the model's server. `answer` returns whether it has
    answered a request itself.
    """

    async def app(exchange: Exchange) -> None:
        if not await answer(exchange):
            await server.serve(exchange)

    async with http_server(app) as url:
        yield url


async def test_if_reading_the_window_fails_the_next_turn_tries_again(
    tmp_path: Path,
) -> None:
    asked = 0

    async def overloaded_once(exchange: Exchange) -> bool:
        nonlocal asked
        if not exchange.request.path.startswith("/v1/models/"):
            return False
        asked += 1
        if asked == 1:
            await exchange.respond(
                529,
                {
                    "type": "error",
                    "error": {"type": "overloaded_error", "message": "x"},
                },
            )
        return asked == 1

    async with (
        model_server([Reply("ok")] * 3, context_window=50_000) as server,
        front(overloaded_once, server) as url,
        connected_agent(
            home=tmp_path, env=server.env() | {"ANTHROPIC_BASE_URL": url}
        ) as agent,
    ):
        session = await agent.new_session(tmp_path)
        for _ in range(3):
            await agent.prompt(session, "Hello")
        first, _, last = sizes(agent)
        assert (first, last) == (200_000, 50_000)
        assert asked == 2
