"""What providers say when a request has too much in it: what of, and how much it may
be.
"""

from __future__ import annotations

import pytest

from acp_agent.errors import ContextOverflowError, ModelRequestError
from acp_agent.llm.errors import (
    _PROMPT_PATTERNS,
    CallFailed,
    _token_count,
    classify,
    error_of,
)
from acp_agent.llm.places import Endpoint

ENDPOINT = Endpoint(
    "local", "openai-chat", "http://localhost/v1", key_hint="LOCAL_API_KEY"
)

TOO_LONG: list[tuple[str, int | None]] = [
    # Anthropic, itself and at Bedrock
    ("prompt is too long: 208656 tokens > 200000 maximum", 200_000),
    (
        "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000, decrease input length",
        200_000,
    ),
    ("Input is too long for requested model.", None),
    # OpenAI, Azure, DeepSeek
    (
        "This model's maximum context length is 128000 tokens. However, your messages resulted in 130131 tokens.",
        128_000,
    ),
    (
        "This model's maximum context length is 4097 tokens, however you requested 4322 tokens (4066 in your prompt)",
        4_097,
    ),
    (
        "Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in 300512 tokens.",
        272_000,
    ),
    (
        "Your input exceeds the context window of this model. Please adjust your input and try again.",
        None,
    ),
    # Gemini
    (
        "The input token count (1200293) exceeds the maximum number of tokens allowed (1048576).",
        1_048_576,
    ),
    # Ollama
    ("prompt too long; exceeded max context length by 1204 tokens", None),
    # llama.cpp, its server and its Python bindings
    (
        "the request exceeds the available context size. try increasing the context size or enable context shift",
        None,
    ),
    (
        "request (9210 tokens) exceeds the available context size (8192 tokens), try increasing it",
        8_192,
    ),
    # vLLM, SGLang
    (
        "This model's maximum context length is 32768 tokens. However, you requested 1000 output tokens",
        32_768,
    ),
    (
        "is too large: 64000. This model's maximum context length is 64001 tokens (64000 > 64001 - 24235)",
        64_001,
    ),
    (
        "The decoder prompt (length 5021) is longer than the maximum model length of 4096.",
        4_096,
    ),
    # LM Studio
    (
        "However, the model is loaded with context length of only 7866 tokens, which is not enough.",
        7_866,
    ),
    (
        "The number of tokens to keep from the initial prompt is greater than the context length.",
        None,
    ),
    ("Context size has been exceeded.", None),
    # Others
    (
        "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
        131_072,
    ),
    ("Your request exceeded model token limit: 262144 (requested: 300000)", 262_144),
    ("prompt token count of 130000 exceeds the limit of 128000", 128_000),
    (
        "The input (516368 tokens) is longer than the model's context length (262144 tokens).",
        262_144,
    ),
    (
        "The request is longer than the context window: maximum context length is 128k tokens",
        128_000,
    ),
    # Vertex, Cohere, GitHub Models
    (
        "Unable to submit request because the input token count is 1200000 but model only supports up to 1048576.",
        1_048_576,
    ),
    ("Please reduce the length of the messages or completion.", None),
    # Mistral, Z.ai, DashScope, TGI
    (
        "Prompt contains 33000 tokens and 0 draft tokens, too large for model with 32768 maximum context length",
        32_768,
    ),
    ("Prompt exceeds max length", None),
    (
        "<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 129024]",
        129_024,
    ),
    (
        "`inputs` tokens + `max_new_tokens` must be <= 4097. Given: 5000 `inputs` tokens and 512",
        4_097,
    ),
]


@pytest.mark.parametrize(("said", "maximum"), TOO_LONG)
def test_a_request_that_is_too_long_is_known_by_the_words_and_its_maximum_is_read(
    said: str, maximum: int | None
) -> None:
    failure = CallFailed("status", said, status=400)
    error = error_of(failure, ENDPOINT)
    assert isinstance(error, ContextOverflowError)
    assert (error.limit, error.maximum) == ("tokens", maximum)
    assert "context window" in str(error)


@pytest.mark.parametrize(
    ("said", "prompt"),
    [
        (
            "input length and `max_tokens` exceed context limit: 1994 + 20000 > 20000, decrease input length",
            1_994,
        ),
        (
            "maximum context length is 8192 tokens. However, you requested 10246 tokens (2054 in the messages",
            2_054,
        ),
        (
            "maximum context length is 4097 tokens, however you requested 4322 tokens (4066 in your prompt; 256",
            4_066,
        ),
        (
            "However, you requested about 140000 tokens (100000 of text input, 40000 in the output).",
            100_000,
        ),
        (
            "you requested 2000 output tokens and your prompt contains at least 9001 input tokens",
            9_001,
        ),
        ("prompt is too long: 213,000 tokens > 200,000 maximum", 213_000),
        (
            "request (9210 tokens) exceeds the available context size (8192 tokens), try increasing it",
            9_210,
        ),
        (
            "The input token count (1200293) exceeds the maximum number of tokens allowed (1048576).",
            1_200_293,
        ),
        (
            "This model's maximum context length is 128000 tokens. Your messages resulted in 130131 tokens.",
            130_131,
        ),
        (
            "maximum context length is 131072 tokens. However, you requested 141607 tokens",
            None,
        ),
        ("Your request exceeded model token limit: 262144 (requested: 300000)", None),
        ("Context size has been exceeded.", None),
        (
            "Trying to keep the first 9210 tokens when context the overflows. However, the model is loaded with",
            9_210,
        ),
        ("Requested tokens (5000) exceed context window of 4096", 5_000),
        (
            "must be <= 4097. Given: 5000 `inputs` tokens and 512 `max_new_tokens`",
            5_000,
        ),
    ],
)
def test_the_tokens_of_the_prompt_are_told_from_those_of_the_answer_and_of_both(
    said: str, prompt: int | None
) -> None:
    assert _token_count(_PROMPT_PATTERNS, said) == prompt


@pytest.mark.parametrize(
    ("limit", "status", "code", "said"),
    [
        ("images", 400, "", "Too much media: 0 document pages + 103 images > 100"),
        ("images", 400, "", "too many images and documents: 120 + 0 > 100"),
        ("images", 400, "", "Too many images in request. Max is 50."),
        (
            "images",
            400,
            "",
            "request contains 52 images, exceeding the maximum of 50 allowed per request",
        ),
        ("images", 400, "", "At most 4 image(s) may be provided in one request."),
        (
            "images",
            400,
            "",
            "messages.9: the image dimensions exceed max allowed size for many-image requests: 2000",
        ),
        (
            "images",
            413,
            "",
            "Too many images in the request: the prompt has 2000, at most 1000 images are allowed",
        ),
        (
            "bytes",
            413,
            "request_too_large",
            "Request exceeds the maximum allowed number of bytes.",
        ),
        ("bytes", 413, "", "<html><title>413 Request Entity Too Large</title></html>"),
        (
            "bytes",
            413,
            "",
            "Request body too large: the request has 5000000 bytes, and the limit is 4000000.",
        ),
        ("bytes", 413, "", ""),
        (
            "bytes",
            400,
            "INVALID_ARGUMENT",
            "Request payload size exceeds the limit: 20971520 bytes.",
        ),
        ("bytes", None, "request_too_large", ""),
        ("tokens", 400, "context_length_exceeded", "Nein."),
        ("tokens", None, "exceed_context_size_error", "Nein."),
    ],
)
def test_what_there_is_too_much_of_is_told_by_words_code_or_status(
    limit: str, status: int | None, code: str, said: str
) -> None:
    error = error_of(CallFailed("status", said, status=status, code=code), ENDPOINT)
    assert isinstance(error, ContextOverflowError)
    assert error.limit == limit
    assert limit == "tokens" or (error.maximum, error.prompt) == (None, None)
    assert "/compact" not in str(error)


OTHER_REFUSALS = [
    # Statuses that speak of something else than the request, whatever the words
    (429, "Input tokens exceeded, please slow down."),
    (404, "There is no model with a maximum context length of 200000 tokens here."),
    (503, "The context window is full on this node, try again."),
    # Rates, in the words of Anthropic, OpenAI, Groq and Gemini
    (
        429,
        "This request would exceed your organization's rate limit of 40,000 input tokens per minute.",
    ),
    (
        429,
        "Rate limit reached for gpt-4o on tokens per min (TPM): Limit 30000, Used 29000, Requested 2000.",
    ),
    (
        413,
        "Request too large for model `llama-3.3-70b` in organization `org_1` on tokens per minute (TPM): Limit 6000",
    ),
    (
        400,
        "Request too large for model `llama-3.3-70b` in organization `org_1` on tokens per minute (TPM): Limit 6000",
    ),
    (
        None,
        "Request too large for gpt-4o on tokens per min (TPM): Limit 30000, Requested 342389.",
    ),
    (
        429,
        "Quota exceeded for metric: generate_content_free_tier_input_token_count, limit: 250000",
    ),
    # The answer's limit
    (
        400,
        "max_tokens: 200000 > 64000, which is the maximum allowed number of output tokens for claude-sonnet-4",
    ),
    (
        400,
        "max_tokens is too large: 8192. This model supports at most 4096 completion tokens, whereas you provided 8192.",
    ),
    (
        400,
        "must be less than or equal to 16384, the maximum value for max_tokens is less than the context_window",
    ),
    # Images, and other things that are too large or too many
    (
        400,
        "messages.0.content.1.image.source.base64.data: image exceeds 5 MB maximum: 6000000 bytes > 5242880 bytes",
    ),
    (400, "At least one of the image dimensions exceed max allowed size: 8000 pixels"),
    (
        400,
        "Invalid 'input[3].content': string too long. Expected a string with maximum length 10485760, but got more.",
    ),
    (
        400,
        "Invalid 'tools': array too long. Expected an array with maximum length 128, but got one with length 150.",
    ),
    (400, "messages.3: `tool_use` ids were found without `tool_result` blocks"),
]


@pytest.mark.parametrize(("status", "said"), OTHER_REFUSALS)
def test_other_limits_are_no_limit_of_the_context(
    status: int | None, said: str
) -> None:
    assert classify(CallFailed("status", said, status=status)) not in (
        "tokens",
        "images",
        "bytes",
    )


@pytest.mark.parametrize("status", [400, 413, 429, None])
def test_a_request_larger_than_a_minutes_allowance_is_refused_at_once_and_says_what_to_set(
    status: int | None,
) -> None:
    said = "Request too large for gpt-4o in organization x on tokens per min (TPM): Limit 30000, Requested 45000."
    failure = CallFailed("status", said, status=status, code="rate_limit_exceeded")
    error = error_of(failure, ENDPOINT)
    assert classify(failure) == "quota-per-minute"
    assert type(error) is ModelRequestError
    assert "waiting does not help" in str(error)
    assert "`context_window`" in str(error)
    assert "Limit 30000" in str(error)
