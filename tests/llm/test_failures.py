"""What a failure means and what the user is told."""

from __future__ import annotations

import json
from collections.abc import Callable

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_agent.errors import ContextOverflowError, ModelAuthError, ModelRequestError, ModelStreamError
from acp_agent.llm.failures import (
    CallFailed,
    Endpoint,
    FailureKind,
    error_of,
    overflow_limit,
    verdict,
)
from acp_agent.llm.retry import RetryPolicy, wait_asked_for
from acp_agent.llm.scrubbing import scrub
from acp_agent.llm.transport import failure_of

ENDPOINT = Endpoint("openai", "api.openai.com", "OPENAI_API_KEY", ("s3cret-value",))
NOW = 1_767_225_600.0


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "3"}, 3.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after": "Thu, 01 Jan 2026 00:00:07 GMT"}, 7.0),
        ({"retry-after": "Wed, 31 Dec 2025 00:00:00 GMT"}, 0.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-4"}, None),
        ({"retry-after": "inf"}, None),
    ],
)
def test_the_wait_that_a_provider_asks_for(headers: dict[str, str], seconds: float | None) -> None:
    assert wait_asked_for(headers, NOW) == seconds


@pytest.mark.parametrize("status", [400, 422, None])
@pytest.mark.parametrize(
    "message",
    [
        "prompt is too long: 201234 tokens > 200000 maximum",
        "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000",
        "This model's maximum context length is 128000 tokens. However, your messages resulted in 130000 tokens.",
        "Your input exceeds the context window of this model. Please adjust your input and try again.",
        "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
        "However, the model is loaded with context length of only 4096 tokens, which is not enough.",
        "the request exceeds the available context size. try increasing the context size or enable context shift",
        "Requested tokens (9000) exceed context window of 4096",
        "prompt too long; exceeded max context length by 12 tokens",
        "Input is too long for requested model.",
        "request (9000 tokens) exceeds the available context size (4096 tokens), try increasing it",
        "the prompt is larger than n_ctx (4096)",
        "This model's maximum context length is 262144 tokens. However, you requested 0 output tokens and your prompt…",
        "This endpoint's maximum context length is 131072 tokens. However, you requested about 200000 tokens",
        "the model is loaded with context length of only 4096 tokens, which is not enough. Try to load the model with…",
        "The number of tokens to keep from the initial prompt is greater than the context length.",
        "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
        "Please reduce the length of the messages or completion.",
        "The input (516368 tokens) is longer than the model's context length (262144 tokens).",
        "Input length (265330) exceeds model's maximum context length (262144).",
        "Input length 131393 exceeds the maximum allowed input length of 131040 tokens.",
        "prompt token count of 130000 exceeds the limit of 128000",
        "invalid params, context window exceeds limit",
        "Your request exceeded model token limit: 262144 (requested: 300000)",
        "Prompt has 256,468 tokens, but the configured context size is 256,000 tokens",
        "Prompt too long",
    ],
)
def test_providers_ways_to_say_that_the_request_is_too_long(message: str, status: int | None) -> None:
    failure = CallFailed("status", message, status=status)
    assert (verdict(failure), overflow_limit(failure)) == ("overflow", "tokens")
    error = error_of(failure, ENDPOINT, shown=False)
    assert isinstance(error, ContextOverflowError)
    assert error.limit == "tokens"
    assert "context window" in str(error)


@pytest.mark.parametrize(
    "message",
    [
        "Too much media: 0 document pages + 103 images > 100",
        "too many images and documents: 120 + 0 > 100",
        "Too many images in request. Max is 50.",
        "request contains 52 images, exceeding the maximum of 50 allowed per request",
        "At most 4 image(s) may be provided in one request.",
        "You may provide at most 8 images in one prompt.",
        "messages.9: At least one of the image dimensions exceed max allowed size for many-image requests: 2000 pixels",
    ],
)
def test_providers_ways_to_say_that_there_are_too_many_images(message: str) -> None:
    error = error_of(CallFailed("status", message, status=400), ENDPOINT, shown=False)
    assert isinstance(error, ContextOverflowError)
    assert error.limit == "images"
    assert "images" in str(error)
    assert "/compact" not in str(error)


@pytest.mark.parametrize(
    ("status", "code", "message"),
    [
        (413, "request_too_large", "Request exceeds the maximum allowed number of bytes."),
        (413, "request_too_large", "Request exceeds the maximum size"),
        (413, "", "<html><title>413 Request Entity Too Large</title></html>"),
        (413, "", ""),
        (400, "INVALID_ARGUMENT", "Request payload size exceeds the limit: 20971520 bytes."),
        (None, "request_too_large", ""),
    ],
)
def test_providers_ways_to_say_that_there_are_too_many_bytes(status: int | None, code: str, message: str) -> None:
    error = error_of(CallFailed("status", message, status=status, code=code), ENDPOINT, shown=False)
    assert isinstance(error, ContextOverflowError)
    assert error.limit == "bytes"


@pytest.mark.parametrize("code", ["context_length_exceeded", "exceed_context_size_error"])
@pytest.mark.parametrize("kind", ["status", "stream"])
def test_codes_tell_an_overflow_whatever_the_words(kind: FailureKind, code: str) -> None:
    assert overflow_limit(CallFailed(kind, "Nein.", code=code)) == "tokens"


def test_an_ordinary_rate_limit_is_none() -> None:
    said = "Rate limit reached for gpt-4o on tokens per min (TPM): Limit 30000, Used 29000, Requested 2000."
    assert verdict(CallFailed("status", said, status=429, code="rate_limit_exceeded")) == "again"
    assert verdict(CallFailed("status", "Too many tokens, please wait before trying again.", status=429)) == "again"


@pytest.mark.parametrize(
    "message",
    [
        "max_tokens: 200000 > 64000, which is the maximum allowed number of output tokens",
        "messages.3: `tool_use` ids were found without `tool_result` blocks",
        "Rate limit reached: 30000 input tokens per minute",
        "image exceeds 5 MB maximum",
        "messages.0.content.1.image.source.base64.data: image exceeds 5 MB maximum: 6000000 bytes > 5242880 bytes",
        "At least one of the image dimensions exceed max allowed size: 8000 pixels",
        "This model does not support images",
        "Could not process image",
    ],
)
def test_other_refusals_are_no_overflow(message: str) -> None:
    assert verdict(CallFailed("status", message, status=400)) == "refused"


def test_an_exhausted_account_is_not_tried_again() -> None:
    failure = CallFailed("status", "You exceeded your current quota", status=429, code="insufficient_quota")
    error = error_of(failure, ENDPOINT, shown=False)
    assert verdict(failure) == "refused"
    assert isinstance(error, ModelRequestError)
    assert "exceeded your current quota" in str(error)


def test_a_refused_key_names_the_variable() -> None:
    error = error_of(CallFailed("status", "bad key s3cret-value", status=401), ENDPOINT, shown=False)
    assert isinstance(error, ModelAuthError)
    assert error.code == -32000
    assert "OPENAI_API_KEY" in str(error)
    assert "s3cret" not in str(error)


def test_what_was_shown_is_kept() -> None:
    error = error_of(CallFailed("dropped", "peer closed"), ENDPOINT, shown=True)
    assert isinstance(error, ModelStreamError)
    assert error.partial


@pytest.mark.parametrize(
    "key", ["sk-ant-api03-abcdefgh-12345", "sk-proj-********************1234", "AIzaSyA1234567890abc"]
)
def test_what_looks_like_a_key_is_scrubbed(key: str) -> None:
    assert scrub(f"Incorrect API key provided: {key}.", ()) == "Incorrect API key provided: [key]."


SECRETS = st.text(min_size=4, max_size=12).filter(lambda text: text == text.strip() and text not in "before after")


@given(SECRETS, st.sampled_from([str, repr, lambda text: repr(text.encode()), json.dumps]))
def test_a_secret_is_scrubbed_however_it_is_escaped(secret: str, escaped: Callable[[str], str]) -> None:
    assert scrub(f"before {escaped(secret)} after", (secret,)) in [
        f"before {quote}[key]{end} after" for quote, end in [("", ""), ("'", "'"), ('"', '"'), ("b'", "'"), ('b"', '"')]
    ]


def test_of_two_secrets_the_longer_one_goes_first() -> None:
    assert scrub("it is abcd-efgh", ("abcd", "abcd-efgh")) == "it is [key]"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Illegal header value b'Bearer ab12cd34ef'", "Illegal header value b'Bearer [key]'"),
        ('{"authorization": "bearer eyJ0.e30-x_1"}', '{"authorization": "bearer [key]"}'),
        ("Bearer authentication failed", "Bearer authentication failed"),
    ],
)
def test_a_bearer_token_is_scrubbed_though_nobody_knows_it(text: str, expected: str) -> None:
    assert scrub(text, ()) == expected


def test_a_request_that_is_no_http_is_not_tried_again() -> None:
    failure = failure_of(httpx2.LocalProtocolError("Illegal header value b'x'"))
    assert failure is not None
    assert verdict(failure) == "refused"
    error = error_of(failure, ENDPOINT, shown=False)
    assert "cannot be sent" in str(error)
    assert "OPENAI_API_KEY" in str(error)


def test_an_endpoint_does_not_show_its_secrets() -> None:
    assert "s3cret" not in repr(ENDPOINT)


def test_waits_grow_and_are_bounded() -> None:
    policy = RetryPolicy(base=1, longest=8)
    assert [0.75 * wait <= policy.delay(n) <= wait for n, wait in enumerate([1, 2, 4, 8, 8], start=1)] == [True] * 5
