"""The built-in table of models: windows, prices, images, thinking.

A table, matched by the longest prefix of the model's id, so that dated ids find their family. Prices are US dollars for
a million tokens at the standard tier, as of November 2026; a request in a long-context tier costs more. The limits of
images are the lower ones of the providers' pages, to which gateways and older models keep.
"""

from __future__ import annotations

from dataclasses import asdict, replace
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

    def with_settings(self, settings: ModelSettings, priced: bool = True) -> ModelProfile:
        """Return this profile with the user's corrections: output limit and prices replace the table's, the window only
        if the table has none.

        :param priced: whether the table's prices hold.
        """
        given = {name: value for name, value in asdict(settings.prices).items() if value is not None}
        read = settings.prices.input
        prices = (self.prices if priced else None) or (None if read is None else Prices(read, read, read, 0.0))
        return replace(
            self,
            context_window=(not self.listed and settings.context_window) or self.context_window,
            max_output_tokens=settings.max_output_tokens or self.max_output_tokens,
            prices=None if prices is None else replace(prices, **given),
        )

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
    best = max((prefix for prefix in _TABLE if name.startswith(prefix)), key=len, default="")
    found = _TABLE.get(best) or ModelProfile(listed=False)
    return replace(found, least_effort="low") if "codex" in name else found


def _claude(window: int, output: int, thinking: ThinkingKind, price_in: float, price_out: float) -> ModelProfile:
    small = window <= 200_000
    return ModelProfile(
        window,
        output,
        thinking=thinking,
        prices=Prices(price_in, price_in * 0.1, price_in * 1.25, price_out),
        max_images=100 if small else 600,
        max_request_bytes=32_000_000,
        image_edge=1_568 if small else 2_000,
    )


def _gpt(
    window: int, price_in: float, price_out: float, least: str, cached: float = 0.1, written: float = 1.0
) -> ModelProfile:
    """Return a model of OpenAI's.

    :param cached: the price of cached input, as a share of `price_in`, and `written` that of what is cached.
    """
    return ModelProfile(
        window,
        128_000,
        thinking="effort",
        least_effort=least,
        prices=Prices(price_in, price_in * cached, price_in * written, price_out),
        max_images=500,
        max_request_bytes=50_000_000,
        image_characters=20_000_000,
    )


def _gpt_audio(price_in: float, price_out: float) -> ModelProfile:
    prices = Prices(price_in, price_in, price_in, price_out)
    return ModelProfile(128_000, 16_384, images=False, audio=True, prices=prices, max_request_bytes=50_000_000)


def _gemini(price_in: float, price_out: float) -> ModelProfile:
    return ModelProfile(
        1_048_576,
        65_536,
        audio=True,
        thinking="effort",
        prices=Prices(price_in, price_in * 0.1, price_in, price_out),
        max_images=3_600,
        image_edge=3_072,
        image_types=IMAGE_TYPES - {"image/gif"},
    )


_FAMILIES: dict[str, ModelProfile] = {
    # Anthropic
    "claude-": _claude(200_000, 64_000, "none", 3, 15),
    "claude-opus-4": _claude(200_000, 32_000, "budget", 15, 75),
    "claude-opus-4-5": _claude(200_000, 64_000, "budget", 5, 25),
    "claude-opus-4-6 claude-opus-4-7 claude-opus-4-8": _claude(1_000_000, 128_000, "adaptive", 5, 25),
    "claude-sonnet-4": _claude(200_000, 64_000, "budget", 3, 15),
    "claude-sonnet-4-6": _claude(1_000_000, 64_000, "adaptive", 3, 15),
    "claude-haiku-4-5": _claude(200_000, 64_000, "budget", 1, 5),
    "claude-opus-5": _claude(1_000_000, 128_000, "adaptive-default", 5, 25),
    "claude-opus-5-5": _claude(1_000_000, 128_000, "adaptive-always", 4, 20),
    "claude-sonnet-5": _claude(1_000_000, 128_000, "adaptive-default", 2, 10),
    "claude-haiku-5": _claude(1_000_000, 128_000, "adaptive-default", 0.1, 0.5),
    "claude-fable-5 claude-mythos": _claude(1_000_000, 128_000, "adaptive-always", 10, 50),
    # OpenAI
    "gpt-audio": _gpt_audio(2.5, 10),
    "gpt-audio-mini": _gpt_audio(0.6, 2.4),
    "gpt-5": _gpt(400_000, 1.25, 10, "minimal"),
    "gpt-5-mini": _gpt(400_000, 0.25, 2, "minimal"),
    "gpt-5-nano": _gpt(400_000, 0.05, 0.4, "minimal"),
    "gpt-5-pro": _gpt(400_000, 15, 120, "high", cached=1),
    "gpt-5.1": _gpt(400_000, 1.25, 10, "none"),
    "gpt-5.1-codex-mini": _gpt(400_000, 0.25, 2, "low"),
    "gpt-5.2": _gpt(400_000, 1.75, 14, "none"),
    "gpt-5.2-pro": _gpt(400_000, 21, 168, "medium", cached=1),
    "gpt-5.3-codex": _gpt(400_000, 1.75, 14, "low"),
    "gpt-5.4": _gpt(1_050_000, 2.5, 15, "none"),
    "gpt-5.4-mini": _gpt(400_000, 0.75, 4.5, "none"),
    "gpt-5.4-nano": _gpt(400_000, 0.2, 1.25, "none"),
    "gpt-5.5": _gpt(1_050_000, 5, 30, "none"),
    "gpt-5.4-pro gpt-5.5-pro": _gpt(1_050_000, 30, 180, "medium", cached=1),
    "gpt-5.6": _gpt(1_050_000, 4, 20, "none", written=1.25),
    "gpt-5.6-terra": _gpt(1_050_000, 2, 12, "none", written=1.25),
    "gpt-5.6-luna": _gpt(1_050_000, 0.2, 1.2, "none", written=1.25),
    "gpt-6": _gpt(1_050_000, 2, 10, "low", written=1.25),
    "gpt-6-sol": _gpt(1_050_000, 2, 10, "none", written=1.25),
    "gpt-6-luna": _gpt(1_050_000, 0.1, 0.5, "none", written=1.25),
    "gpt-6-astra gpt-6.2-astra": _gpt(1_050_000, 10, 50, "low", written=1.25),
    "gpt-6.1-sol gpt-6.2-sol": _gpt(1_050_000, 2, 10, "low", 0.05, 1.25),
    # Google
    "gemini-": replace(_gemini(0, 0), prices=None),
    "gemini-2.5-pro": _gemini(1.25, 10),
    "gemini-2.5-flash": _gemini(0.3, 2.5),
    "gemini-2.5-flash-lite": _gemini(0.1, 0.4),
    "gemini-3-flash": _gemini(0.5, 3),
    "gemini-3-pro gemini-3.1-pro": _gemini(2, 12),
    "gemini-3.1-flash-lite": _gemini(0.25, 1.5),
    "gemini-3.5-flash": _gemini(1.5, 9),
}
"""By the beginnings of their ids. OpenAI's models before GPT-5 are not in it."""
_TABLE = {prefix: family for prefixes, family in _FAMILIES.items() for prefix in prefixes.split()}
