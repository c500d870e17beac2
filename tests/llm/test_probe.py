"""Questions to local servers."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from acp_agent.llm.probe import list_models, ollama_window
from support.http_server import Exchange, http_server


async def window(ps: dict[str, Any], show: dict[str, Any]) -> int | None:
    async def app(exchange: Exchange) -> None:
        await exchange.respond(200, ps if exchange.request.path == "/api/ps" else show)

    async with http_server(app) as url:
        return await ollama_window(f"{url}/v1", "qwen3:8b", limit=5)


@pytest.mark.parametrize(
    ("ps", "show", "expected"),
    [
        ({"models": [{"name": "qwen3:8b", "context_length": 4_096}]}, {"parameters": "num_ctx 9000"}, 4_096),
        ({"models": [{"name": "other", "context_length": 4_096}]}, {"parameters": "stop x\nnum_ctx   9000"}, 9_000),
        ({"models": []}, {"parameters": "", "model_info": {"qwen3.context_length": 40_960}}, 40_960),
        ({}, {}, None),
    ],
)
async def test_the_window_is_the_one_that_ollama_runs_the_model_with(
    ps: dict[str, Any], show: dict[str, Any], expected: int | None
) -> None:
    assert await window(ps, show) == expected


async def test_a_server_that_does_not_answer_is_not_waited_for() -> None:
    async def app(exchange: Exchange) -> None:
        await anyio.sleep_forever()

    async with http_server(app) as url:
        with anyio.fail_after(5):
            assert await list_models(f"{url}/v1", limit=0.05) is None


@pytest.mark.parametrize("body", ["<html>", "[1, 2]", '{"data": [1, {"id": 2}, {"id": "a"}]}'])
async def test_odd_answers_are_no_error(body: str) -> None:
    async def app(exchange: Exchange) -> None:
        await exchange.respond(200, body)

    async with http_server(app) as url:
        assert await list_models(f"{url}/v1", limit=5) in (None, ("a",))


async def test_nobody_there() -> None:
    assert await list_models("http://127.0.0.1:9/v1") is None
