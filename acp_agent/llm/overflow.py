"""Providers' messages for a request that is too large, and the token numbers in them.

The sentences are collected from the documentation of the servers that docs/models.md names, and from what users report.
"""

from __future__ import annotations

import re

from acp_agent.errors import OverflowLimit

_WORDS: dict[OverflowLimit, tuple[str, ...]] = {
    "tokens": (
        "context length",  # OpenAI, vLLM, OpenRouter, LM Studio
        "context window",  # OpenAI, llama.cpp
        "context size",  # llama.cpp
        "context limit",  # Anthropic
        "n_ctx",  # llama.cpp
        "prompt is too long",  # Anthropic
        "input is too long",  # Bedrock behind a gateway
        "prompt too long",  # Ollama
        "input tokens exceed",  # OpenAI
        "input token count",  # Gemini, Vertex
        "maximum model length",  # vLLM
        "tokens) is too long",
        "model token limit",  # Moonshot
        "prompt token count",  # Copilot
        "maximum prompt length",  # xAI
        "maximum allowed input length",
        "tokens in the prompt",  # Cohere
        "too many input tokens",
        "reduce the length of",
    ),
    "images": ("too many images", "too much media", "many-image request", "image(s)", "images, exceed"),
    "bytes": ("request exceeds the maximum", "payload size exceeds", "body too large", "entity too large"),
}
_TOKENS_PER_MINUTE = "tokens per min"  # OpenAI, Groq
_NUMBER = r"(\d[\d,]{2,12}|\d{1,4}(?= ?[km]\b))(?: ?([km])\b)?"
_WINDOW = (
    r"\b(?:context (?:length|window|size)|n_ctx|maximum (?:prompt|(?:allowed )?input|model) length)"
    r"(?: of this model)?(?: =|:)? ?\(?(?:(?:is|of|only) ){0,2}"
)
_COUNTED = r"\b(?:contains|has|resulted in|too long:|token count(?: of| is)?|request|prompt|input(?: length)?)"
_MAXIMUM = (
    rf"> {_NUMBER}",  # as in "210000 tokens > 200000 maximum"
    # As in "context size (4096 tokens)", "exceeds the maximum number of tokens allowed (1048576)", "limit of 8192".
    rf"(?:{_WINDOW}|\btokens allowed \(|\bsupports up to |\blimit(?: is| of|:) ){_NUMBER}",
)
_PROMPT = (
    rf"{_NUMBER} \+ [\d,]+ > ",  # as in "190000 + 20000 > 200000"
    # As in "4066 in your prompt" and "100000 of text input".
    rf"{_NUMBER} (?:tokens )?(?:in|of|from) (?:the |your )?(?:text )?(?:messages|prompt|input)\b",
    # As in "your prompt contains at least 9000 input tokens" and "the request (9210 tokens)".
    rf"{_COUNTED} (?:at least )?\(?(?:length )?{_NUMBER}",
)


def limit_in(message: str) -> OverflowLimit | None:
    """Return what a request had too much of, in a provider's words; None where they say something else."""
    said = message.lower()
    return next((limit for limit, words in _WORDS.items() if any(word in said for word in words)), None)


def exceeds_minute(message: str) -> bool:
    """Return whether one request wants more than the account may have in a minute.

    This is not an overflow of the window, since the output limit counts too, however short the prompt is. Neither is it
    a rate limit that passes.
    """
    said = message.lower()
    return "request too large" in said and _TOKENS_PER_MINUTE in said


def maximum_in(message: str) -> int | None:
    """Return the tokens that a request may have, where the words of an overflow have that number."""
    return _number(_MAXIMUM, message)


def prompt_in(message: str) -> int | None:
    """Return the tokens that a request had before its answer, as the provider counts them, where the words of an
    overflow have that number."""
    return _number(_PROMPT, message)


def _number(sayings: tuple[str, ...], message: str) -> int | None:
    # Compiled with the first refusal: an adapter's import, which the first prompt waits for, would take half as long
    # again.
    for saying in sayings:
        if match := re.search(saying, message, re.IGNORECASE):
            number, unit = match.groups()
            return int(number.replace(",", "")) * {"k": 1_000, "m": 1_000_000}.get((unit or "").lower(), 1)
    return None
