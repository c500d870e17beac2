"""The built-in table of models: windows, prices, images, thinking.

A table, matched by the longest prefix of the model's id, so that dated ids find their family. Prices are US dollars for
a million tokens at the standard tier, as of November 2026; a request in a long-context tier costs more. The limits of
images are the lower ones of the providers' pages, to which gateways and older models keep.
"""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Literal, TypeAlias

from acp_agent.config.settings import ModelSettings
from acp_agent.conversation.messages import Usage
from acp_agent.frozen import frozen

ThinkingKind: TypeAlias = Literal["none", "budget", "adaptive", "adaptive-default", "adaptive-always", "effort"]
"""`budget`: Claude's `thinking.budget_tokens`. `adaptive`: Claude's adaptive thinking and effort, off unless asked for;
`-default`: on unless turned off; `-always`: cannot be turned off. `effort`: OpenAI's reasoning effort."""

DEFAULT_WINDOW = 128_000
DEFAULT_MAX_OUTPUT = 8_192
IMAGE_TYPES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
_K = 1_000
_M = 1_000_000


@frozen
class Prices:
    """US dollars for a million tokens."""

    input: float
    cached_input: float
    cache_write: float
    output: float


@frozen
class ModelProfile:
    """The properties of a model.

    :ivar context_window: tokens of the whole window.
    :ivar max_output_tokens: most tokens of one answer, thinking included.
    :ivar images: whether it reads images.
    :ivar audio: whether it takes sounds, where its provider's API has them.
    :ivar thinking: how the request tells it to think.
    :ivar least_effort: for `effort`: the value nearest to not thinking at all.
    :ivar prices: None where unknown.
    :ivar listed: whether the table knows the model.
    :ivar max_images: most images of one request, those in tools' results and in earlier turns included.
    :ivar max_request_bytes: most bytes of one request's body, with the images in base64.
    :ivar image_edge: pixels of an image's longer side, above which it is scaled: the provider would do that itself, or
        refuse it.
    :ivar image_characters: most characters of one image in base64.
    :ivar image_types: types of images that its API takes.
    """

    context_window: int = DEFAULT_WINDOW
    max_output_tokens: int = DEFAULT_MAX_OUTPUT
    images: bool = True
    audio: bool = False
    thinking: ThinkingKind = "none"
    least_effort: str = "low"
    prices: Prices | None = None
    listed: bool = True
    max_images: int = 20
    max_request_bytes: int = 20_000_000
    image_edge: int = 2_048
    image_characters: int = 5_000_000
    image_types: frozenset[str] = IMAGE_TYPES

    def with_settings(self, settings: ModelSettings | None) -> ModelProfile:
        """Return this profile with the user's corrections: output limit and prices replace the table's, the window only
        if the table has none."""
        if settings is None:
            return self
        given, prices = settings.prices, self.prices
        if prices is not None or given.input is not None:
            prices = prices or Prices(0.0, given.input or 0.0, given.input or 0.0, 0.0)
            said = {each.name: getattr(given, each.name) for each in fields(Prices)}
            prices = replace(prices, **{name: value for name, value in said.items() if value is not None})
        window = self.context_window if self.listed else settings.context_window or self.context_window
        output = settings.max_output_tokens or self.max_output_tokens
        return replace(self, context_window=window, max_output_tokens=output, prices=prices)

    def priced(self, usage: Usage) -> Usage:
        """Return `usage` with its cost in US dollars, where the prices are known."""
        prices = self.prices
        if prices is None or usage.cost is not None:
            return usage
        read = usage.input_tokens * prices.input + usage.cache_read_tokens * prices.cached_input
        written = usage.cache_write_tokens * prices.cache_write + usage.output_tokens * prices.output
        return replace(usage, cost=(read + written) / 1_000_000)


def profile(model: str) -> ModelProfile:
    """Return the table's entry of a model, or the cautious default.

    :param model: the provider's id; what stands before a slash in it (`anthropic/claude…` at a router) is passed over.
    """
    name = model.rpartition("/")[2].lower()
    if name.startswith("claude"):
        name = name.replace(".", "-")
    best = max((prefix for prefix in _TABLE if name.startswith(prefix)), key=len, default=None)
    if best is None:
        return ModelProfile(listed=False)
    return _TABLE[best]


def _claude(window: int, output: int, thinking: ThinkingKind, price_in: float, price_out: float) -> ModelProfile:
    small = window <= 200 * _K
    return ModelProfile(
        window,
        output,
        thinking=thinking,
        prices=Prices(price_in, price_in * 0.1, price_in * 1.25, price_out),
        max_images=100 if small else 600,
        max_request_bytes=32_000_000,
        image_edge=1_568 if small else 2_000,
    )


def _openai(
    window: int, output: int, price_in: float, cached: float, price_out: float, least: str = "", *, write: float = 0.0
) -> ModelProfile:
    return ModelProfile(
        window,
        output,
        thinking="effort" if least else "none",
        least_effort=least or "low",
        prices=Prices(price_in, cached, write or price_in, price_out),
        max_images=500,
        max_request_bytes=50_000_000,
        image_characters=20_000_000,
    )


def _gemini(price_in: float, cached: float, price_out: float) -> ModelProfile:
    return ModelProfile(
        1_048_576,
        65_536,
        audio=True,
        thinking="effort",
        prices=Prices(price_in, cached, price_in, price_out),
        max_images=3_600,
        image_edge=3_072,
        image_types=IMAGE_TYPES - {"image/gif"},
    )


_GPT5 = (400 * _K, 128 * _K)
_GPT6 = (1_050 * _K, 128 * _K)

_TABLE: dict[str, ModelProfile] = {
    # Anthropic
    "claude-": _claude(200 * _K, 64 * _K, "none", 3, 15),
    "claude-3-": _claude(200 * _K, 4_096, "none", 0.8, 4),
    "claude-opus-4": _claude(200 * _K, 32 * _K, "budget", 15, 75),
    "claude-opus-4-5": _claude(200 * _K, 64 * _K, "budget", 5, 25),
    "claude-opus-4-6": _claude(_M, 128 * _K, "adaptive", 5, 25),
    "claude-opus-4-7": _claude(_M, 128 * _K, "adaptive", 5, 25),
    "claude-opus-4-8": _claude(_M, 128 * _K, "adaptive", 5, 25),
    "claude-sonnet-4": _claude(200 * _K, 64 * _K, "budget", 3, 15),
    "claude-sonnet-4-6": _claude(_M, 64 * _K, "adaptive", 3, 15),
    "claude-haiku-4-5": _claude(200 * _K, 64 * _K, "budget", 1, 5),
    "claude-opus-5": _claude(_M, 128 * _K, "adaptive-default", 5, 25),
    "claude-opus-5-5": _claude(_M, 128 * _K, "adaptive-always", 4, 20),
    "claude-sonnet-5": _claude(_M, 128 * _K, "adaptive-default", 2, 10),
    "claude-haiku-5": _claude(_M, 128 * _K, "adaptive-default", 0.1, 0.5),
    "claude-fable-5": _claude(_M, 128 * _K, "adaptive-always", 10, 50),
    "claude-mythos": _claude(_M, 128 * _K, "adaptive-always", 10, 50),
    # OpenAI
    "gpt-3.5-turbo": replace(_openai(16_385, 4_096, 0.5, 0.5, 1.5), images=False),
    "gpt-4": replace(_openai(8_192, 4_096, 30, 30, 60), images=False),
    "gpt-4-turbo": _openai(128 * _K, 4_096, 10, 10, 30),
    "gpt-4o": _openai(128 * _K, 16_384, 2.5, 1.25, 10),
    "gpt-4o-audio": replace(_openai(128 * _K, 16_384, 2.5, 2.5, 10), images=False, audio=True),
    "gpt-4o-mini": _openai(128 * _K, 16_384, 0.15, 0.075, 0.6),
    "gpt-4o-mini-audio": replace(_openai(128 * _K, 16_384, 0.15, 0.15, 0.6), images=False, audio=True),
    "gpt-audio": replace(_openai(128 * _K, 16_384, 2.5, 2.5, 10), images=False, audio=True),
    "gpt-audio-mini": replace(_openai(128 * _K, 16_384, 0.6, 0.6, 2.4), images=False, audio=True),
    "gpt-4.1": _openai(1_047_576, 32_768, 2, 0.5, 8),
    "gpt-4.1-mini": _openai(1_047_576, 32_768, 0.4, 0.1, 1.6),
    "gpt-4.1-nano": _openai(1_047_576, 32_768, 0.1, 0.025, 0.4),
    "gpt-5": _openai(*_GPT5, 1.25, 0.125, 10, "minimal"),
    "gpt-5-codex": _openai(*_GPT5, 1.25, 0.125, 10, "low"),
    "gpt-5-chat": _openai(128 * _K, 16_384, 1.25, 0.125, 10),
    "gpt-5-mini": _openai(*_GPT5, 0.25, 0.025, 2, "minimal"),
    "gpt-5-nano": _openai(*_GPT5, 0.05, 0.005, 0.4, "minimal"),
    "gpt-5-pro": _openai(*_GPT5, 15, 15, 120, "high"),
    "gpt-5.1": _openai(*_GPT5, 1.25, 0.125, 10, "none"),
    "gpt-5.1-codex": _openai(*_GPT5, 1.25, 0.125, 10, "low"),
    "gpt-5.1-codex-mini": _openai(*_GPT5, 0.25, 0.025, 2, "low"),
    "gpt-5.2": _openai(*_GPT5, 1.75, 0.175, 14, "none"),
    "gpt-5.2-codex": _openai(*_GPT5, 1.75, 0.175, 14, "low"),
    "gpt-5.2-pro": _openai(*_GPT5, 21, 21, 168, "medium"),
    "gpt-5.3-codex": _openai(*_GPT5, 1.75, 0.175, 14, "low"),
    "gpt-5.4": _openai(*_GPT6, 2.5, 0.25, 15, "none"),
    "gpt-5.4-mini": _openai(*_GPT5, 0.75, 0.075, 4.5, "none"),
    "gpt-5.4-nano": _openai(*_GPT5, 0.2, 0.02, 1.25, "none"),
    "gpt-5.4-pro": _openai(*_GPT6, 30, 30, 180, "medium"),
    "gpt-5.5": _openai(*_GPT6, 5, 0.5, 30, "none"),
    "gpt-5.5-pro": _openai(*_GPT6, 30, 30, 180, "medium"),
    "gpt-5.6": _openai(*_GPT6, 4, 0.4, 20, "none", write=5),
    "gpt-5.6-terra": _openai(*_GPT6, 2, 0.2, 12, "none", write=2.5),
    "gpt-5.6-luna": _openai(*_GPT6, 0.2, 0.02, 1.2, "none", write=0.25),
    "gpt-6": _openai(*_GPT6, 2, 0.2, 10, "low", write=2.5),
    "gpt-6-sol": _openai(*_GPT6, 2, 0.2, 10, "none", write=2.5),
    "gpt-6-luna": _openai(*_GPT6, 0.1, 0.01, 0.5, "none", write=0.125),
    "gpt-6-astra": _openai(*_GPT6, 10, 1, 50, "low", write=12.5),
    "gpt-6.1-sol": _openai(*_GPT6, 2, 0.1, 10, "low", write=2.5),
    "gpt-6.2-sol": _openai(*_GPT6, 2, 0.1, 10, "low", write=2.5),
    "gpt-6.2-astra": _openai(*_GPT6, 10, 1, 50, "low", write=12.5),
    "o1": _openai(200 * _K, 100 * _K, 15, 7.5, 60, "low"),
    "o3": _openai(200 * _K, 100 * _K, 2, 0.5, 8, "low"),
    "o3-mini": replace(_openai(200 * _K, 100 * _K, 1.1, 0.55, 4.4, "low"), images=False),
    "o3-pro": _openai(200 * _K, 100 * _K, 20, 20, 80, "low"),
    "o4-mini": _openai(200 * _K, 100 * _K, 1.1, 0.275, 4.4, "low"),
    # Google
    "gemini-": replace(_gemini(0, 0, 0), prices=None),
    "gemini-2.5-pro": _gemini(1.25, 0.125, 10),
    "gemini-2.5-flash": _gemini(0.3, 0.03, 2.5),
    "gemini-2.5-flash-lite": _gemini(0.1, 0.01, 0.4),
    "gemini-3-pro": _gemini(2, 0.2, 12),
    "gemini-3-flash": _gemini(0.5, 0.05, 3),
    "gemini-3.1-pro": _gemini(2, 0.2, 12),
    "gemini-3.1-flash-lite": _gemini(0.25, 0.025, 1.5),
    "gemini-3.5-flash": _gemini(1.5, 0.15, 9),
}
