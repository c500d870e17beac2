"""Questions to local servers."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from acp_agent.llm.probe import LocalWindow, list_models, lmstudio_window, ollama_window
from support.http_server import Exchange, http_server


async def window(ps: dict[str, Any], show: dict[str, Any], model: str = "qwen3:8b") -> LocalWindow:
    async def app(exchange: Exchange) -> None:
        await exchange.respond(200, ps if exchange.request.path == "/api/ps" else show)

    async with http_server(app) as url:
        return await ollama_window(f"{url}/v1", model, limit=5)


@pytest.mark.parametrize(
    ("ps", "show", "expected"),
    [
        (
            {"models": [{"name": "qwen3:8b", "context_length": 4_096}]},
            {"parameters": "num_ctx 9000"},
            LocalWindow(4_096),
        ),
        (
            {"models": [{"name": "other", "context_length": 4_096}]},
            {"parameters": "stop x\nnum_ctx   9000"},
            LocalWindow(most=9_000),
        ),
        ({"models": []}, {"parameters": "", "model_info": {"qwen3.context_length": 40_960}}, LocalWindow(most=40_960)),
        ({}, {}, LocalWindow()),
    ],
)
async def test_the_window_is_the_one_that_ollama_runs_the_model_with(
    ps: dict[str, Any], show: dict[str, Any], expected: LocalWindow
) -> None:
    assert await window(ps, show) == expected


@pytest.mark.parametrize(
    ("model", "running", "same"),
    [
        ("qwen3", "qwen3:latest", True),
        ("library:5000/qwen3", "library:5000/qwen3:latest", True),
        ("qwen3", "qwen3:8b", False),
        ("qwen3:8b", "qwen3:latest", False),
    ],
)
async def test_a_name_without_a_tag_means_the_latest(model: str, running: str, same: bool) -> None:
    found = await window({"models": [{"name": running, "context_length": 4_096}]}, {}, model)
    assert found == LocalWindow(4_096 if same else None)


async def test_lm_studio_says_what_a_model_is_loaded_with_and_what_it_takes_at_most() -> None:
    async def app(exchange: Exchange) -> None:
        assert exchange.request.path == "/api/v0/models"
        loaded = {"id": "a", "state": "loaded", "max_context_length": 32_768, "loaded_context_length": 8_192}
        await exchange.respond(200, {"data": [loaded, {"id": "b", "max_context_length": 4_096}]})

    async with http_server(app) as url:
        found = [await lmstudio_window(f"{url}/v1", model, limit=5) for model in ("a", "b", "c")]
    assert found == [LocalWindow(8_192, 32_768), LocalWindow(most=4_096), LocalWindow()]


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
