"""Find the part of a request that a server has refused, from the error messages of real
servers.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_agent.conversation.surroundings import Feature
from acp_agent.llm.errors import CallFailed, names_in_error, read_error
from acp_agent.llm.refusals import (
    EFFORTS,
    RefusedPart,
    refused_part,
    taken_effort,
    taken_limit,
)

SENT: dict[Feature, Any] = {
    "max_tokens": 8_192,
    "stream": True,
    "stream_options": {"include_usage": True},
    "reasoning_effort": "minimal",
    "thinking": {"type": "adaptive"},
    "prompt_cache_key": "sess_1",
    "include": ["reasoning.encrypted_content"],
    "store": False,
    "functions": None,
    "call_ids": None,
    "user_after_tool": None,
    "system": None,
    "cache_control": None,
}


def pydantic(
    *path: str,
    kind: str = "extra_forbidden",
    said: str = "Extra inputs are not permitted",
) -> dict[str, Any]:
    return {"type": kind, "loc": ["body", *path], "msg": said, "input": 1}


def openai(
    said: str, param: str | None = None, code: str | None = None
) -> dict[str, Any]:
    return {
        "error": {
            "message": said,
            "type": "invalid_request_error",
            "param": param,
            "code": code,
        }
    }


ERRORS: dict[str, tuple[int, Any, RefusedPart | None]] = {
    "OpenAI, another name": (
        400,
        openai(
            (
                "Unsupported parameter: 'max_tokens' is not supported with this model. Use"
                " 'max_completion_tokens' instead."
            ),
            "max_tokens",
            "unsupported_parameter",
        ),
        RefusedPart("max_tokens"),
    ),
    "OpenAI, too large": (
        400,
        openai(
            (
                "max_tokens is too large: 8192. This model supports at most 4096 completion tokens,"
                " whereas you provided 8192."
            ),
            "max_tokens",
        ),
        RefusedPart("max_tokens", "4096"),
    ),
    "Groq, too large": (
        400,
        openai(
            "`max_tokens` must be less than or equal to `4096`, the maximum value for `max_tokens`"
            " is less than the `context_window` for this model"
        ),
        RefusedPart("max_tokens", "4096"),
    ),
    "the limit at the end of a sentence": (
        400,
        openai(
            "max_tokens is too large. The maximum is 4,096. Version 1.5000 of the API."
        ),
        RefusedPart("max_tokens", "4096"),
    ),
    "DeepSeek, a range": (
        400,
        openai("Invalid max_tokens value, the valid range of max_tokens is [1, 4,096]"),
        RefusedPart("max_tokens", "4096"),
    ),
    "Anthropic, too large": (
        400,
        {
            "type": "error",
            "error": {
                "type": "invalid_request_error",
                "message": (
                    "max_tokens: 8192 > 4096, which is the maximum allowed number of output tokens for"
                    " claude-3-opus-20240229"
                ),
            },
        },
        RefusedPart("max_tokens", "4096"),
    ),
    "Mistral, a list in the message": (
        422,
        {
            "object": "error",
            "message": {"detail": [pydantic("stream_options")]},
            "type": "invalid_request_error",
        },
        RefusedPart("stream_options"),
    ),
    "FastAPI": (
        422,
        {"detail": [pydantic("stream_options")]},
        RefusedPart("stream_options"),
    ),
    "NVIDIA": (
        400,
        {"error": f"[{pydantic('prompt_cache_key')}]"},
        RefusedPart("prompt_cache_key"),
    ),
    "Fireworks": (
        400,
        openai(
            "Extra inputs are not permitted, field: 'prompt_cache_key', value: 'sess_1'"
        ),
        RefusedPart("prompt_cache_key"),
    ),
    "Azure": (
        400,
        openai("Unrecognized request argument supplied: stream_options"),
        RefusedPart("stream_options"),
    ),
    "Google": (
        400,
        {
            "error": {
                "message": 'Invalid JSON payload received. Unknown name "stream_options": Cannot find field.'
            }
        },
        RefusedPart("stream_options"),
    ),
    "OpenAI, another effort": (
        400,
        openai(
            "Unsupported value: 'minimal' is not supported with the 'gpt-5.1' model. Supported values are: 'none',"
            " 'low', 'medium', and 'high'.",
            "reasoning.effort",
            "unsupported_value",
        ),
        RefusedPart("reasoning_effort", "none low medium high"),
    ),
    "vLLM, another effort": (
        400,
        openai(
            "1 validation error: {'type': 'literal_error', 'loc': ('body', 'reasoning_effort'),"
            " 'msg': \"Input should be 'low', 'medium' or 'high'\", 'input': 'minimal'}"
        ),
        RefusedPart("reasoning_effort", "low medium high"),
    ),
    "LiteLLM, no effort": (
        400,
        openai(
            "litellm.UnsupportedParamsError: groq does not support parameters:"
            " ['reasoning_effort'], for model=x. To drop these, set `litellm.drop_params=True`"
        ),
        RefusedPart("reasoning_effort"),
    ),
    "OpenAI, no effort with tools": (
        400,
        openai(
            (
                "Function tools with reasoning_effort are not supported for gpt-5.4 in"
                " /v1/chat/completions. Please use /v1/responses instead."
            ),
            "reasoning_effort",
        ),
        RefusedPart("reasoning_effort"),
    ),
    "xAI, no effort": (
        400,
        {
            "code": "Client specified an invalid argument",
            "error": "Model grok-4 does not support parameter reasoningEffort.",
        },
        RefusedPart("reasoning_effort"),
    ),
    "Ollama, no tools": (
        400,
        openai("registry.ollama.ai/library/gemma3:4b does not support tools"),
        RefusedPart("functions"),
    ),
    "Ollama, as text": (
        400,
        {"error": "registry.ollama.ai/library/phi4:14b does not support tools"},
        RefusedPart("functions"),
    ),
    "OpenRouter, no tools": (
        404,
        {
            "error": {
                "message": "No endpoints found that support tool use. To learn more, visit the guide",
                "code": 404,
            }
        },
        RefusedPart("functions"),
    ),
    "vLLM, no tools": (
        400,
        openai(
            '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'
        ),
        RefusedPart("functions"),
    ),
    "llama.cpp, no tools": (
        500,
        {
            "error": {
                "code": 500,
                "message": "tools param requires --jinja flag",
                "type": "server_error",
            }
        },
        RefusedPart("functions"),
    ),
    "Groq, no tools": (
        400,
        openai(
            "`tool calling` is not supported with this model: tool calling is not supported"
        ),
        RefusedPart("functions"),
    ),
    "Mistral, ids": (
        400,
        {
            "object": "error",
            "message": "Tool call id was call_1 but must be a-z, A-Z, 0-9, with a length of 9.",
            "type": "invalid_function_call",
        },
        RefusedPart("call_ids"),
    ),
    "a template, ids": (
        500,
        {
            "error": {
                "message": "Jinja Exception: Tool call IDs should be alphanumeric strings with length 9!"
            }
        },
        RefusedPart("call_ids"),
    ),
    "Mistral, the order": (
        400,
        {
            "object": "error",
            "message": "Unexpected role 'user' after role 'tool'",
            "type": "invalid_request_message_order",
            "code": "3230",
        },
        RefusedPart("user_after_tool"),
    ),
    "a template, the order": (
        500,
        {
            "error": {
                "message": (
                    "Error: Jinja Exception: After the optional system message, conversation roles must"
                    " alternate user and assistant roles"
                )
            }
        },
        RefusedPart("user_after_tool"),
    ),
    "a template, no system prompt": (
        400,
        openai("System role not supported"),
        RefusedPart("system"),
    ),
    "a gateway, no cache": (
        400,
        openai("tools.3.cache_control: Extra inputs are not permitted"),
        RefusedPart("cache_control"),
    ),
    "a gateway, no thinking": (
        400,
        openai("thinking: Extra inputs are not permitted"),
        RefusedPart("thinking"),
    ),
    "OpenAI, no stream": (
        400,
        openai(
            "Your organization must be verified to stream this model.",
            "stream",
            "unsupported_value",
        ),
        RefusedPart("stream"),
    ),
    "OpenAI, no reasoning": (
        400,
        openai("Encrypted content is not supported with this model."),
        RefusedPart("include"),
    ),
    "too long": (
        400,
        openai(
            "This model's maximum context length is 4096 tokens. You requested 8192 tokens in max_tokens."
        ),
        None,
    ),
    "a schema": (
        400,
        openai(
            "Invalid schema for function 'x': array schema missing items.",
            "tools[0].function.parameters",
        ),
        None,
    ),
    "a word of the language": (
        400,
        openai("The model stopped thinking, and its stream of reasoning is invalid."),
        None,
    ),
    "something else": (400, openai("The request is odd."), None),
    "no key": (401, openai("max_tokens is not supported"), None),
    "overloaded": (503, openai("max_tokens is not supported"), None),
}


def failure(status: int, body: Any) -> CallFailed:
    text = json.dumps(body)
    message, code = read_error(text)
    return CallFailed(
        "status", message, status=status, code=code, named=names_in_error(text)
    )


@pytest.mark.parametrize("server", ERRORS)
def test_a_refused_part_is_known_by_what_the_server_says(server: str) -> None:
    status, body, expected = ERRORS[server]
    assert refused_part(failure(status, body), SENT) == expected


def test_what_was_not_sent_was_not_refused() -> None:
    status, body, _ = ERRORS["OpenAI, another name"]
    assert refused_part(failure(status, body), {"stream": True}) is None


def test_a_member_that_the_api_requires_is_kept_unless_another_value_is_named() -> None:
    refused = failure(400, openai("max_tokens is not supported"))
    assert refused_part(refused, {"max_tokens": 8_192}, ["max_tokens"]) is None


@given(st.sampled_from(EFFORTS), st.lists(st.sampled_from(EFFORTS), max_size=4))
def test_an_effort_is_one_that_the_server_takes_and_never_turns_thinking_off_by_itself(
    wanted: str, known: list[str]
) -> None:
    taken = taken_effort(wanted, " ".join(known))
    assert taken in (known or [wanted]) or (not taken and set(known) == {"none"})
    assert wanted not in known or taken == wanted
    assert taken != "none" or wanted == "none"


@given(st.integers(1, 100_000), st.sampled_from(["", "4096", "low"]))
def test_a_limit_never_grows(wanted: int, takes: str) -> None:
    assert taken_limit(wanted, takes) <= wanted
