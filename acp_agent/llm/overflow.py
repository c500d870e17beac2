"""What providers say when a request has too much in it, and the number of tokens that they take.

Owns the tables of their sentences, collected from their documentation and from what users report. Pure: knows neither
statuses nor codes, which are `failures`' matter, and no session.
"""

from __future__ import annotations

import re
from functools import cache

from acp_agent.errors import OverflowLimit

_TOKEN_SAYINGS = (
    r"prompt is too long",  # Anthropic
    r"input is too long",  # Bedrock behind a gateway
    r"input tokens exceed the configured limit",  # OpenAI
    r"maximum context length",  # OpenAI, vLLM, OpenRouter
    r"longer than the maximum model length",  # vLLM
    r"input token count.{0,80}(?:exceeds|only supports)",  # Gemini, Vertex
    # OpenAI, Anthropic, llama.cpp, LM Studio
    r"context (?:length|window|size)[^.]{0,60}(?:exceed|too (?:small|long)|overflow|not enough|full)",
    r"(?:exceed|larger than|greater than|longer than|overflow)[^.]{0,60}context (?:length|window|size|limit)",
    r"reached context length",  # LM Studio, in mid-answer
    r"prompt (?:too long|is longer than|contains too many tokens|exceeds max length)",  # Ollama, Mistral, Z.ai
    r"prompt \([\d,]+ tokens\) is too long",  # vLLM
    r"`inputs` (?:tokens \+ `max_new_tokens` must be|must have less than)",  # Text Generation Inference
    r"range of input length should be",  # DashScope
    r"reduce the length of (?:the messages|your prompt|the input)",
    r"too many (?:input )?tokens in (?:the )?(?:request|prompt|input)",
    r"tokens in the prompt (?:cannot exceed|exceeds?)",  # Cohere
    r"too large for .{0,80}\bmax size: [\d,]+ tokens",  # GitHub Models
    r"input tokens exceeded",
    r"(?<!daily )(?<!hourly )(?<!minute )(?<!output )\btoken limit exceeded(?! (?:for|per) )",
    r"maximum (?:allowed )?(?:prompt|input) length",  # xAI, Poolside
    r"exceeded model token limit",  # Moonshot
    r"prompt token count.{0,40}exceeds",  # Copilot
    r"prompt has [\d,]+ tokens, but",
    r"\bn_ctx\b",  # llama.cpp
)
_IMAGE_SAYINGS = (
    r"too many images|too much media",  # Anthropic, OpenAI
    r"many-image request",  # Anthropic: with more than 20 of them, each has to be smaller
    r"(?:maximum|at most|limit|max is|up to)[^.]{0,40}\bimage(?:s|\(s\))",  # vLLM, routers
    r"\d+ images\b[^.]{0,40}(?:exceed|maximum|limit|allowed|more than)",
    r"(?:image count|number of images)[^.]{0,40}exceed",
)
_BYTE_SAYINGS = (
    r"request (?:exceeds|is larger than) the maximum (?:allowed )?(?:size|number of bytes)",  # Anthropic
    r"(?:request )?payload size exceeds",  # Gemini
    r"(?:request|payload|request entity|body)(?: body)? (?:is )?too large\b(?! for)",
    r"total (?:image|payload|request) size[^.]{0,60}exceed",
)
_MINUTE_SAYINGS = (r"request too large for[^:]{0,200}tokens per min",)  # OpenAI, Groq

_NUMBER = r"(\d[\d,]{2,12}|\d{1,4}(?= ?[km]\b))(?: ?([km])\b)?"
_WINDOW = r"(?:\bcontext (?:length|window|size)|\bn_ctx|\bmaximum (?:prompt|(?:allowed )?input|model) length)"
# In this order: "exceed context limit: 190000 + 20000 > 200000" begins with what the request had.
_MAXIMUM_SAYINGS = (
    # "maximum context length is 8192 tokens", "context size (4096 tokens)", "n_ctx: 4096".
    rf"{_WINDOW}(?: of this model)?(?: =|:)? ?\(?(?:(?:is|of|only) ){{0,2}}{_NUMBER}",
    rf"> {_NUMBER}",  # "210000 tokens > 200000 maximum"
    rf"{_NUMBER} maximum context length",
    rf"\b(?:tokens allowed \(|must be <= |should be \[\d+, |must have less than ){_NUMBER}",
    rf"\blimit(?: is| of|:) {_NUMBER}",
    rf"\b(?:cannot exceed|only supports up to|max size:) {_NUMBER}",
)
# As in "your prompt contains at least 9000 input tokens" and "the request (9210 tokens)".
_COUNTED = r"\b(?:contains|has|resulted in|too long:|token count(?: of| is)?|request|prompt|input(?: length)?)"
_PROMPT_SAYINGS = (
    rf"{_NUMBER} \+ [\d,]+ > ",  # "190000 + 20000 > 200000"
    # "4066 in your prompt", "100000 of text input"
    rf"{_NUMBER} (?:tokens )?(?:in|of|from) (?:the |your )?(?:text )?(?:messages|prompt|input)\b",
    rf"given: {_NUMBER} `inputs`",
    rf"{_COUNTED} (?:at least )?\(?(?:length )?{_NUMBER}",
)


_LIMITS: tuple[tuple[OverflowLimit, tuple[str, ...]], ...] = (
    ("tokens", _TOKEN_SAYINGS),
    ("images", _IMAGE_SAYINGS),
    ("bytes", _BYTE_SAYINGS),
)
_TIMES = {None: 1, "k": 1_000, "m": 1_000_000}


def limit_in(message: str) -> OverflowLimit | None:
    """What a request had too much of, in a provider's words; None where they say something else."""
    return next((limit for limit, sayings in _LIMITS if _any(sayings).search(message)), None)


def exceeds_minute(message: str) -> bool:
    """Whether one request wants more than the account may have in a minute.

    No overflow of a window: what the answer may be at most counts as well, so that the prompt can be as short as it
    likes. And no rate limit that passes.
    """
    return _any(_MINUTE_SAYINGS).search(message) is not None


def maximum_in(message: str) -> int | None:
    """The tokens that a request may have, where the words of an overflow have that number."""
    return _number(_MAXIMUM_SAYINGS, message)


def prompt_in(message: str) -> int | None:
    """The tokens that a request had before its answer, as the provider counts them, where the words of an overflow have
    that number."""
    return _number(_PROMPT_SAYINGS, message)


@cache
def _any(sayings: tuple[str, ...]) -> re.Pattern[str]:
    # With the first refusal: to compile them all is half the import of an adapter, which the first prompt waits for.
    return re.compile("|".join(sayings), re.IGNORECASE | re.DOTALL)


def _number(sayings: tuple[str, ...], message: str) -> int | None:
    found = (_any((saying,)).search(message) for saying in sayings)
    match = next((match for match in found if match), None)
    if match is None:
        return None
    times: str | None = match[2]
    return int(match[1].replace(",", "")) * _TIMES[times.lower() if times else None]
