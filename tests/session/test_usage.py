"""The context meter: what the provider counted last, of the whole window."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from acp_agent.config.settings import Settings
from acp_agent.llm.registry import Registry
from acp_agent.session.models import SessionModels
from support.client import AgentProcess, connected_agent
from support.http_server import Exchange, http_server
from support.models import ModelServer, Reply, ToolCall, Usage, model_server


@pytest.mark.parametrize(
    ("env", "config", "size"),
    [
        ({}, "", 123_456),
        ({"ACP_AGENT_CONTEXT_WINDOW": "50000"}, "context_window: 60000", 50_000),
        ({}, "context_window: 60000", 60_000),
        ({}, "models: {anthropic/claude-test: {context_window: 70000}}", 123_456),
    ],
    ids=["the provider", "the variable", "the configuration", "not the model's settings, since the provider says"],
)
async def test_used_is_the_last_answers_count_and_size_the_whole_window(
    tmp_path: Path, env: dict[str, str], config: str, size: int
) -> None:
    (tmp_path / "state").mkdir(mode=0o700)
    (tmp_path / "state" / "config.yaml").write_text(config)
    (tmp_path / "a.txt").write_text("text")
    read = ToolCall("read", {"path": str(tmp_path / "a.txt")})
    script = [
        Reply("One.", tool_calls=[read], usage=Usage(input=1_000, output=7, cache_read=200, cache_write=30)),
        Reply("Two.", usage=Usage(input=20, output=5, cache_read=1_230, cache_write=4)),
    ]
    async with (
        model_server(script, context_window=123_456) as server,
        connected_agent(home=tmp_path, env=server.env() | env) as agent,
    ):
        session = await agent.new_session(tmp_path)
        await agent.prompt(session, "One?")
        meters = agent.updates(kind="usage_update")
        assert [(meter["used"], meter["size"]) for meter in meters] == [(1_237, size), (1_259, size)]
        costs = [meter["cost"]["amount"] for meter in meters]
        assert 0 < costs[0] < costs[1]


async def test_the_cost_of_a_summary_counts_whether_it_was_used_or_not(tmp_path: Path) -> None:
    long = "The cart adds prices. " * 300
    script = [
        Reply(long, usage=Usage(1_000, 100)),
        Reply("", usage=Usage(1_000_000, 0)),
        Reply("# Goal\nA cart.", usage=Usage(2_000_000, 0)),
        Reply("Two.", usage=Usage(1_000, 0)),
    ]
    async with model_server(script) as server, connected_agent(home=tmp_path, env=server.env()) as agent:
        session = await agent.new_session(tmp_path)
        for prompt in ("One?", "/compact", "/compact", "Two?"):
            await agent.prompt(session, prompt)
        first, compacted, last = (meter["cost"]["amount"] for meter in agent.updates(kind="usage_update"))
        # Three dollars for a million tokens.
        assert compacted - first == pytest.approx(9, abs=1e-4)  # and the odd token of the answers
        assert last - compacted == pytest.approx(0.003, abs=1e-4)


def sizes(agent: AgentProcess) -> list[int]:
    return [meter["size"] for meter in agent.updates(kind="usage_update")]


@asynccontextmanager
async def front(answer: Callable[[Exchange], Awaitable[bool]], server: ModelServer) -> AsyncIterator[str]:
    """A server before the model's, which answers some requests itself and says so."""

    async def app(exchange: Exchange) -> None:
        if not await answer(exchange):
            await server.serve(exchange)

    async with http_server(app) as url:
        yield url


async def test_a_window_that_could_not_be_asked_for_is_asked_for_with_the_next_turn(tmp_path: Path) -> None:
    asked = 0

    async def overloaded_once(exchange: Exchange) -> bool:
        nonlocal asked
        if not exchange.request.path.startswith("/v1/models/"):
            return False
        asked += 1
        if asked == 1:
            await exchange.respond(529, {"type": "error", "error": {"type": "overloaded_error", "message": "x"}})
        return asked == 1

    async with (
        model_server([Reply("ok")] * 3, context_window=50_000) as server,
        front(overloaded_once, server) as url,
        connected_agent(home=tmp_path, env=server.env() | {"ANTHROPIC_BASE_URL": url}) as agent,
    ):
        session = await agent.new_session(tmp_path)
        for _ in range(3):
            await agent.prompt(session, "Hello")
        first, _, last = sizes(agent)
        assert (first, last) == (200_000, 50_000)
        assert asked == 2


async def test_the_window_of_a_cold_ollama_is_what_it_loads_the_model_with(tmp_path: Path) -> None:
    async with model_server([Reply("ok")] * 2, "ollama", context_window=262_144) as server:

        async def loads_with_the_first_call(exchange: Exchange) -> bool:
            if exchange.request.path != "/api/ps":
                return False
            loaded = [{"name": "llama-test:latest", "context_length": 4_096}] if server.calls else []
            await exchange.respond(200, {"models": loaded})
            return True

        async with front(loads_with_the_first_call, server) as url:
            server.write_config(tmp_path, {"providers": {"ollama": {"base_url": f"{url}/v1"}}})
            async with connected_agent(home=tmp_path, env=server.env()) as agent:
                session = await agent.new_session(tmp_path)
                for _ in range(2):
                    await agent.prompt(session, "Hello")
                assert sizes(agent) == [4_096, 4_096]


class Asked:
    """A provider that says how large its models' windows are once it is told to."""

    def __init__(self) -> None:
        self.questions = 0
        self.first = anyio.Event()
        self.go_on = anyio.Event()

    async def answer(self, exchange: Exchange) -> None:
        self.questions += 1
        self.first.set()
        await self.go_on.wait()
        await exchange.respond(200, {"type": "model", "id": "claude-test", "max_input_tokens": 50_000})


async def test_a_slow_answer_is_waited_for_in_the_background_and_counts_with_the_next_request() -> None:
    asked = Asked()
    async with http_server(asked.answer) as url, anyio.create_task_group() as tasks:
        env = {"ANTHROPIC_API_KEY": "test-key", "ANTHROPIC_BASE_URL": url}
        models = SessionModels(Registry(Settings(home=Path("/nowhere")), env), first_wait=0.01)
        models.run_in(tasks)
        with anyio.fail_after(15):
            name = "anthropic/claude-test"
            await models.prewarm(name)
            assert (await models.active(name)).budget.window == 200_000
            await asked.first.wait()
            await models.begin_turn()
            assert (await models.active(name)).budget.window == 200_000
            assert asked.questions == 1  # one at a time
            asked.go_on.set()
            await models.begin_turn()
            while (await models.active(name)).budget.window != 50_000:
                await anyio.wait_all_tasks_blocked()
            await models.begin_turn()
            assert asked.questions == 1  # the answer holds
        await models.aclose()
        tasks.cancel_scope.cancel()
