"""Bodies of errors in the shapes that servers give them: what the user reads, and what
is seen in it.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_agent.errors import (
    ContextOverflowError,
    ModelAuthError,
    ModelError,
    RequestRefusedError,
)
from acp_agent.llm.errors import (
    CallFailed,
    classify,
    error_of,
    read_error,
    stream_error,
)
from support.adapters import DIALECTS, adapter, endpoint, outcome, request
from support.http_server import Exchange, http_server

SHAPES: dict[str, Any] = {
    "OpenAI, Anthropic": lambda said: {
        "type": "error",
        "error": {"type": "invalid_request_error", "message": said},
    },
    "Gemini": lambda said: [
        {"error": {"code": 400, "message": said, "status": "INVALID_ARGUMENT"}}
    ],
    "LM Studio, Ollama": lambda said: {"error": said},
    "xAI": lambda said: {"code": "Client specified an invalid argument", "error": said},
    "vLLM": lambda said: {
        "object": "error",
        "message": said,
        "type": "BadRequestError",
        "param": None,
        "code": 400,
    },
    "FastAPI": lambda said: {"detail": said},
    "FastAPI, a list": lambda said: {
        "detail": [{"loc": ["body", "x"], "msg": said, "input": "the prompt"}]
    },
    "a title and a message": lambda said: {
        "statusCode": 400,
        "error": "Bad Request",
        "message": said,
    },
    "OpenRouter": lambda said: {
        "error": {
            "message": "Provider returned error",
            "code": 400,
            "metadata": {
                "raw": json.dumps({"error": {"message": said}}),
                "provider_name": "X",
            },
        }
    },
    "text": lambda said: said,
}


KEY_REFUSED: dict[str, Any] = {
    "Gemini": [
        {
            "error": {
                "code": 400,
                "message": "API key not valid. Please pass a valid API key.",
                "status": "INVALID_ARGUMENT",
                "details": [
                    {
                        "@type": "type.googleapis.com/google.rpc.ErrorInfo",
                        "reason": "API_KEY_INVALID",
                    }
                ],
            }
        }
    ],
    "Gemini, expired": {
        "error": {"code": 400, "message": "API key expired. Please renew the API key."}
    },
    "Gemini, none": {
        "error": {"code": 400, "message": "Missing or invalid Authorization header."}
    },
    "xAI": {
        "code": "Client specified an invalid argument",
        "error": "Incorrect API key provided: te***ey.",
    },
    "OpenAI": {"error": {"message": "Nein.", "code": "invalid_api_key"}},
    "text": "Invalid API key",
    "FastAPI": {"detail": "No api key provided"},
}


def told(body: Any, status: int = 400) -> ModelError:
    """The error for a body, which is text or JSON."""
    message, code = read_error(body if isinstance(body, str) else json.dumps(body))
    return error_of(
        CallFailed("status", message, status=status, code=code),
        endpoint("openai", "http://localhost"),
    )


@pytest.mark.parametrize("shape", SHAPES)
def test_what_a_server_says_is_shown_and_understood_whatever_shape_its_errors_have(
    shape: str,
) -> None:
    error = told(SHAPES[shape]("team budget is spent"), 422)
    assert type(error) is RequestRefusedError
    assert "team budget is spent" in str(error)
    assert "the prompt" not in str(error)
    long = "The number of tokens to keep from the initial prompt is greater than the context length."
    assert isinstance(told(SHAPES[shape](long)), ContextOverflowError)


@pytest.mark.parametrize(
    ("status", "after_empty", "advice"),
    [
        (400, True, "Some servers do this"),
        (401, False, "The key may be mistyped"),
        (404, False, "Check the name openai/gpt-test"),
    ],
)
def test_what_a_server_says_ends_before_the_advice_begins(
    status: int, after_empty: bool, advice: str
) -> None:
    failure = CallFailed("status", "Kein Platz im model", status=status)
    place = endpoint("openai", "http://localhost")
    error = error_of(failure, place, model="gpt-test", after_empty=after_empty)
    assert f"It said: Kein Platz im model. {advice}" in str(error)


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    "shape", ["Gemini", "LM Studio, Ollama", "FastAPI", "text", "nothing"]
)
async def test_the_sdks_hand_on_the_whole_body(dialect: str, shape: str) -> None:
    asked = 0

    async def app(exchange: Exchange) -> None:
        nonlocal asked
        asked += 1
        await exchange.respond(
            422, SHAPES[shape]("team budget is spent") if shape in SHAPES else ""
        )

    async with http_server(app) as url:
        _, error = await outcome(adapter(dialect, url), request())
    assert type(error) is RequestRefusedError
    assert str(error).endswith(
        "status 422)." if shape == "nothing" else "It said: team budget is spent."
    )
    assert asked == 1


@pytest.mark.parametrize("name", KEY_REFUSED)
def test_a_key_refused_as_a_wrong_request_is_a_refused_key(name: str) -> None:
    error = told(KEY_REFUSED[name])
    assert isinstance(error, ModelAuthError)
    assert "refused the key (status 400)" in str(error)
    assert ": check OPENAI_API_KEY." in str(error)
    assert ("expired: check" in str(error)) is ("expired" in name)


@pytest.mark.parametrize(
    "said",
    [
        "messages.0: cannot parse 'API key not valid. Please pass a valid API key.'",
        'Invalid value: "Incorrect API key provided: x" is no role',
        "The tool says: API_KEY_INVALID",
    ],
)
@pytest.mark.parametrize("shape", ["OpenAI, Anthropic", "text"])
def test_a_refusal_that_quotes_such_words_is_no_refused_key(
    shape: str, said: str
) -> None:
    assert type(told(SHAPES[shape](said))) is RequestRefusedError


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "error",
                    "detail",
                    "message",
                    "errors",
                    "code",
                    "metadata",
                    "raw",
                    "loc",
                    "details",
                ]
            ),
            inner,
        )
    ),
)


@given(JSON)
def test_no_body_breaks_the_reading_and_none_is_lost(body: object) -> None:
    assert read_error(json.dumps(body))[0] or body == ""


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (
            {
                "code": 403,
                "message": "No.",
                "details": [{"reason": "SERVICE_DISABLED"}],
            },
            "auth",
        ),
        (
            {
                "code": 400,
                "message": "API key not valid.",
                "details": [{"reason": "API_KEY_INVALID"}],
            },
            "auth",
        ),
        (
            {"code": 503, "message": "Busy.", "details": [{"reason": "OVERLOADED"}]},
            "transient",
        ),
    ],
)
def test_a_status_in_an_error_event_counts_whatever_else_it_says(
    error: dict[str, Any], expected: str
) -> None:
    assert classify(stream_error({"error": error})) == expected


@pytest.mark.parametrize(
    ("error", "status", "expected"),
    [
        (
            {"code": 429, "type": "insufficient_quota", "message": "No money."},
            429,
            "rejected",
        ),
        (
            {"code": 400, "type": "exceed_context_size_error", "message": "Zu lang."},
            400,
            "tokens",
        ),
    ],
)
def test_the_type_of_an_error_counts_where_its_code_is_a_number(
    error: dict[str, Any], status: int, expected: str
) -> None:
    message, code = read_error(json.dumps({"error": error}))
    assert classify(CallFailed("status", message, status=status, code=code)) == expected
