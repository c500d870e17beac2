"""Bodies of errors in the shapes that servers give them: what the user reads, and what is seen in it."""

from __future__ import annotations

import json
from contextlib import aclosing
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_agent.conversation import messages as m
from acp_agent.errors import ContextOverflowError, ModelAuthError, ModelError, ModelRequestError
from acp_agent.llm.anthropic import AnthropicAccess, AnthropicProvider
from acp_agent.llm.error_body import ErrorBody, read_error
from acp_agent.llm.openai import OpenAIAccess
from acp_agent.llm.openai_chat import OpenAIChatProvider
from acp_agent.llm.openai_responses import OpenAIResponsesProvider
from acp_agent.llm.profiles import ModelProfile
from acp_agent.llm.provider import ModelRequest
from acp_agent.llm.retry import RetryPolicy
from support.http_server import Exchange, http_server

DIALECTS = ["anthropic", "openai", "chat"]
REQUEST = ModelRequest("m", "Be brief.", (m.UserMessage("u", (m.Text("Hello"),)),))
SAID = "team budget is spent"
TOO_LONG = "The number of tokens to keep from the initial prompt is greater than the context length."


KEY_REFUSED: dict[str, Any] = {
    "Gemini": [
        {
            "error": {
                "code": 400,
                "message": "API key not valid. Please pass a valid API key.",
                "status": "INVALID_ARGUMENT",
                "details": [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}],
            }
        }
    ],
    "Gemini, in other words": [
        {"error": {"code": 400, "message": "Nein.", "status": "X", "details": [{"reason": "API_KEY_INVALID"}]}}
    ],
    "Gemini, expired": {"error": {"code": 400, "message": "API key expired. Please renew the API key."}},
    "Gemini, none": {"error": {"code": 400, "message": "Missing or invalid Authorization header."}},
    "xAI": {"code": "Client specified an invalid argument", "error": "Incorrect API key provided: te***ey."},
    "OpenAI": {"error": {"message": "Nein.", "code": "invalid_api_key"}},
    "text": "Invalid API key",
    "FastAPI": {"detail": "No api key provided"},
}


async def refusal(dialect: str, status: int, body: Any) -> tuple[ModelError, int]:
    """How a call ends that a server refuses, and how often it was sent."""
    asked = 0

    async def app(exchange: Exchange) -> None:
        nonlocal asked
        asked += 1
        await exchange.respond(status, body)

    async with http_server(app) as url:
        policy = RetryPolicy(attempts=3, base=0.005)
        if dialect == "anthropic":
            access = AnthropicAccess(api_key="test-key", base_url=url, key_hint="SOME_API_KEY")
            provider = AnthropicProvider(access, lambda _: ModelProfile(), policy)
        else:
            made = OpenAIResponsesProvider if dialect == "openai" else OpenAIChatProvider
            there = OpenAIAccess(api_key="test-key", base_url=url, key_hint="SOME_API_KEY")
            provider = made(there, lambda _: ModelProfile(), policy)

        async def listen() -> None:
            async with aclosing(provider.stream(REQUEST)) as events:
                async for _ in events:
                    pass

        try:
            with anyio.fail_after(20), pytest.raises(ModelError) as caught:
                await listen()
        finally:
            await provider.aclose()
    return caught.value, asked


SHAPES: dict[str, Any] = {
    "OpenAI, Anthropic": lambda said: {"type": "error", "error": {"type": "invalid_request_error", "message": said}},
    "Gemini": lambda said: [{"error": {"code": 400, "message": said, "status": "INVALID_ARGUMENT"}}],
    "LM Studio, Ollama": lambda said: {"error": said},
    "xAI": lambda said: {"code": "Client specified an invalid argument", "error": said},
    "vLLM": lambda said: {"object": "error", "message": said, "type": "BadRequestError", "param": None, "code": 400},
    "FastAPI": lambda said: {"detail": said},
    "FastAPI, an object": lambda said: {"detail": {"error": {"message": said}}},
    "FastAPI, a list": lambda said: {"detail": [{"loc": ["body", "x"], "msg": said, "input": "the prompt"}]},
    "a title and a message": lambda said: {"statusCode": 400, "error": "Bad Request", "message": said},
    "OpenRouter": lambda said: {
        "error": {
            "message": "Provider returned error",
            "code": 400,
            "metadata": {"raw": json.dumps({"error": {"message": said}}), "provider_name": "X"},
        }
    },
    "text": lambda said: said,
    "a page": lambda said: f"<html><head><title>{said}</title></head><body><h1>Sorry</h1></body></html>",
    "something else": lambda said: {"reason": {"why": said}},
}


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("shape", SHAPES)
async def test_what_a_server_says_is_shown_whatever_shape_its_errors_have(dialect: str, shape: str) -> None:
    error, asked = await refusal(dialect, 422, SHAPES[shape](SAID))
    assert type(error) is ModelRequestError
    assert SAID in str(error)
    assert "the prompt" not in str(error)
    assert "Error code" not in str(error)
    assert asked == 1


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("shape", SHAPES)
async def test_a_request_that_is_too_long_is_known_whatever_shape_its_errors_have(dialect: str, shape: str) -> None:
    error, asked = await refusal(dialect, 400, SHAPES[shape](TOO_LONG))
    assert isinstance(error, ContextOverflowError)
    assert error.limit == "tokens"
    assert asked == 1


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_server_that_says_nothing_is_not_quoted(dialect: str) -> None:
    error, _ = await refusal(dialect, 400, "")
    assert type(error) is ModelRequestError
    assert str(error).endswith("refused the request (status 400).")


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("name", KEY_REFUSED)
async def test_a_key_refused_as_a_wrong_request_is_a_refused_key(dialect: str, name: str) -> None:
    error, asked = await refusal(dialect, 400, KEY_REFUSED[name])
    assert isinstance(error, ModelAuthError)
    assert "refused the key (status 400): check SOME_API_KEY." in str(error)
    assert asked == 1


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    "said",
    [
        "messages.0: cannot parse 'API key not valid. Please pass a valid API key.'",
        'Invalid value: "Incorrect API key provided: x" is no role',
        "Invalid API key field in tools[0]: 'invalid_api_key'",
        "No API key parameter may be named 'Incorrect API key provided'",
        "The tool says: API_KEY_INVALID",
    ],
)
@pytest.mark.parametrize("shape", ["OpenAI, Anthropic", "Gemini", "xAI", "FastAPI, a list", "text", "OpenRouter"])
async def test_a_refusal_that_quotes_such_words_is_no_refused_key(dialect: str, shape: str, said: str) -> None:
    error, _ = await refusal(dialect, 400, SHAPES[shape](said))
    assert type(error) is ModelRequestError


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"error": {"message": "m", "type": "t", "code": "c"}}, ErrorBody("m", "c")),
        ({"error": {"message": "m", "type": "t", "code": 400}}, ErrorBody("m", "t")),
        ({"error": {"message": {"error": "m"}, "code": "c"}}, ErrorBody("m", "c")),
        (
            [{"error": {"message": "m", "status": "S", "details": [{"x": 1}, {"reason": "R"}]}}],
            ErrorBody("m", "R"),
        ),
        ({"code": "c", "error": "m"}, ErrorBody("m", "c")),
        ({"error": "invalid_request", "error_description": "m"}, ErrorBody("m")),
        ({"detail": [{"loc": ["body", 0], "msg": "a"}, {"msg": "b"}]}, ErrorBody("body.0: a; b")),
        ({"error": {}, "message": "m"}, ErrorBody("m")),
        ({}, ErrorBody("{}")),
        ("m", ErrorBody("m")),
    ],
)
def test_message_and_code_are_found(body: object, expected: ErrorBody) -> None:
    assert read_error(json.dumps(body)) == expected


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["error", "detail", "message", "errors", "code", "metadata", "raw", "loc", "details"]),
            inner,
        )
    ),
)


@given(JSON)
def test_no_body_breaks_the_reading_and_none_is_lost(body: object) -> None:
    assert read_error(json.dumps(body)).message or body == ""


@given(st.text())
def test_no_text_breaks_the_reading(text: str) -> None:
    assert len(read_error(text).message) <= len(text)


def test_a_body_nested_beyond_reason_is_shown_as_it_stands() -> None:
    deep = '{"error":' * 100_000 + "1" + "}" * 100_000
    assert deep.startswith(read_error(deep).message)
