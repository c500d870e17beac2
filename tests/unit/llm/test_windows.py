"""What providers say of their models' windows, and when they are asked again."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any

import anyio
import pytest

from acp_agent.conversation.messages import Text, UserMessage
from acp_agent.llm.client import ModelClient, make_client
from acp_agent.llm.places import Endpoint
from acp_agent.llm.profiles import ModelProfile
from acp_agent.llm.provider import ModelRequest
from support.http_server import Exchange, http_server
from support.models import Reply, model_server

PROFILE = ModelProfile()


def provider(kind: str, base_url: str) -> ModelClient:
    if kind == "anthropic":
        return make_client(
            Endpoint(kind, "anthropic", base_url, key="test-key"), lambda _: PROFILE
        )
    return make_client(
        Endpoint(kind, "openai-chat", f"{base_url}/v1"), lambda _: PROFILE
    )


@asynccontextmanager
async def saying(
    kind: str, *answers: Any
) -> AsyncIterator[tuple[ModelClient, list[str]]]:
    """A provider whose server gives these answers: a status, a body, or None to hang
    up. The last one goes on.
    """
    asked: list[str] = []

    async def app(exchange: Exchange) -> None:
        answer = answers[min(len(asked), len(answers) - 1)]
        asked.append(f"{exchange.request.method} {exchange.request.path}")
        if answer is None:
            exchange.hang_up()
        elif isinstance(answer, int):
            await exchange.respond(
                answer, {"type": "error", "error": {"type": "x", "message": "no"}}
            )
        else:
            await exchange.respond(200, answer)

    async with http_server(app) as url:
        made = provider(kind, url)
        try:
            with anyio.fail_after(10):
                yield made, asked
        finally:
            await made.aclose()


async def told(provider: ModelClient, model: str = "m") -> int | None:
    await provider.learn_window(model)
    return provider.context_window(model)


SAID = {
    "anthropic": {"type": "model", "id": "m", "max_input_tokens": 50_000},
    "vllm": {
        "object": "list",
        "data": [{"id": "other"}, {"id": "m", "max_model_len": 50_000}],
    },
}
SILENT = {
    "anthropic": {"type": "model", "id": "m"},
    "vllm": {"object": "list", "data": [{"id": "m"}]},
}
QUESTION = {"anthropic": "GET /v1/models/m", "vllm": "GET /v1/models"}
HOSTED = ["anthropic", "vllm"]


@pytest.mark.parametrize("kind", HOSTED)
@pytest.mark.parametrize("failure", [500, 429, 401, None, "<html>"])
async def test_a_question_that_failed_is_put_again_until_it_is_answered(
    kind: str, failure: Any
) -> None:
    async with saying(kind, failure, SAID[kind]) as (made, asked):
        assert await told(made) is None
        assert await told(made) == 50_000
        assert await told(made) == 50_000
    assert asked == [QUESTION[kind]] * 2


@pytest.mark.parametrize("kind", HOSTED)
@pytest.mark.parametrize("silence", [404, 400, "nothing"])
async def test_that_a_provider_does_not_say_is_remembered(
    kind: str, silence: Any
) -> None:
    async with saying(
        kind, SILENT[kind] if silence == "nothing" else silence, SAID[kind]
    ) as (made, asked):
        assert await told(made) is None
        assert await told(made) is None
    assert asked == [QUESTION[kind]]


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        (
            {"context_length": 131_072, "top_provider": {"context_length": 65_536}},
            131_072,
        ),
        ({"context_length": 0, "context_window": 7_000}, 7_000),
        ({"context_length": "many"}, None),
    ],
)
async def test_the_window_has_one_of_several_names_and_is_a_number(
    entry: dict[str, Any], expected: int | None
) -> None:
    async with saying("local", {"data": [{"id": "m", **entry}]}) as (made, _):
        assert await told(made) == expected


class Local:
    """A local server with one model, which it loads when that is asked to answer, as
    `loads` says.
    """

    def __init__(self, kind: str, loads: int) -> None:
        self.kind = kind
        self.loads = loads
        self.loaded: int | None = None

    def _said(self, path: str) -> Any:
        if path == "/api/v0/models":
            loaded = {"loaded_context_length": self.loaded} if self.loaded else {}
            return {"data": [{"id": "m", "max_context_length": 262_144, **loaded}]}
        if path == "/api/ps":
            return {
                "models": [{"name": "m:latest", "context_length": self.loaded}]
                if self.loaded
                else []
            }
        return None

    @asynccontextmanager
    async def provider(self) -> AsyncIterator[ModelClient]:
        async with model_server([Reply("ok")] * 3, "ollama") as server:

            async def app(exchange: Exchange) -> None:
                if exchange.request.path == "/v1/chat/completions":
                    self.loaded = self.loads
                    await server.serve(exchange)
                else:
                    said = self._said(exchange.request.path)
                    await exchange.respond(404 if said is None else 200, said)

            async with http_server(app) as url:
                made = provider(self.kind, url)
                try:
                    with anyio.fail_after(10):
                        yield made
                finally:
                    await made.aclose()


async def answer(provider: ModelClient) -> None:
    async with aclosing(
        provider.stream(ModelRequest("m", "", (UserMessage("u", (Text("Hello"),)),)))
    ) as events:
        async for _ in events:
            pass


@pytest.mark.parametrize("kind", ["ollama", "lmstudio"])
async def test_a_local_model_has_the_window_that_it_is_loaded_with_from_its_first_answer_on(
    kind: str,
) -> None:
    server = Local(kind, loads=4_096)
    async with server.provider() as made:
        assert await told(made) is None
        await answer(made)
        assert made.context_window("m") == 4_096
        server.loaded = None  # unloaded, as after five minutes without a question
        assert await told(made) == 4_096
        server.loads = 32_768
        await answer(made)
        assert made.context_window("m") == 32_768


async def test_a_gateway_with_the_responses_api_is_asked_for_the_window_and_openai_is_not() -> (
    None
):
    async def app(exchange: Exchange) -> None:
        await exchange.respond(200, {"data": [{"id": "m", "context_window": 50_000}]})

    async with http_server(app) as url:
        made = make_client(
            Endpoint("gateway", "openai-responses", f"{url}/v1", key="k"),
            lambda _: ModelProfile(),
        )
        assert await told(made) == 50_000
        await made.aclose()
    own = make_client(
        Endpoint("openai", "openai-responses", "https://api.openai.com/v1"),
        lambda _: ModelProfile(),
    )
    assert await told(own) is None
    await own.aclose()
