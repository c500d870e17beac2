"""The built-in table of models, `models.csv`: context windows, prices, kinds of
thinking, and image limits.

The longest matching prefix of the model's id selects the entry, so dated ids match
their family. Prices are US dollars per million tokens at the standard tier, as of
November 2026; a request in a long-context tier costs more. The image limits are the
lowest in the providers' documentation, so they also hold for gateways and older models.
"""

from __future__ import annotations

from dataclasses import fields, replace
from functools import cache
from pathlib import Path
from typing import Literal, TypeAlias, cast

from acp_agent.config.settings import ModelPrices
from acp_agent.conversation.messages import Usage
from acp_agent.frozen import frozen
from acp_agent.llm.names import plain_name

ThinkingKind: TypeAlias = Literal[
    "none", "budget", "adaptive", "adaptive-default", "adaptive-always", "effort"
]
"""`budget`: Claude's `thinking.budget_tokens`. `adaptive`: Claude's adaptive thinking
and effort, off unless requested. `adaptive-default`: on unless turned off.
`adaptive-always`: cannot be turned off. `effort`: OpenAI's reasoning effort.
"""

DEFAULT_WINDOW = 128_000
DEFAULT_MAX_OUTPUT = 8_192
_PRICES = ("input", "cached_input", "cache_write", "answer")
IMAGE_TYPES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})


@frozen
class Prices:
    """US dollars per million tokens."""

    input: float
    cached_input: float
    cache_write: float
    output: float


@frozen
class ModelProfile:
    """The properties of a model.

    :ivar context_window: the size of the context window in tokens.
    :ivar max_output_tokens: maximum tokens of one answer, including thinking.
    :ivar images: whether the model reads images.
    :ivar thinking: how a request controls thinking.
    :ivar least_effort: for `effort`: the value that is closest to not thinking.
    :ivar prices: None if unknown.
    :ivar listed: whether the table has the model.
    :ivar max_images: maximum images of one request, including images in tool results
        and in earlier turns.
    :ivar max_request_bytes: maximum bytes of one request's body, with the images in
        base64.
    :ivar image_edge: maximum pixels of an image's longer side. A larger image is scaled
        down, since the provider would scale or refuse it.
    :ivar image_characters: maximum characters of one image in base64.
    :ivar image_types: the image types that the API accepts.
    """

    context_window: int = DEFAULT_WINDOW
    max_output_tokens: int = DEFAULT_MAX_OUTPUT
    images: bool = True
    thinking: ThinkingKind = "none"
    least_effort: str = "low"
    prices: Prices | None = None
    listed: bool = True
    max_images: int = 20
    max_request_bytes: int = 20_000_000
    image_edge: int = 2_048
    image_characters: int = 5_000_000
    image_types: frozenset[str] = IMAGE_TYPES

    def priced(self, usage: Usage) -> Usage:
        """Return `usage` with its cost in US dollars added, if the prices are known."""
        prices = self.prices
        if prices is None or usage.cost is not None:
            return usage
        read = (
            usage.input_tokens * prices.input
            + usage.cache_read_tokens * prices.cached_input
        )
        written = (
            usage.cache_write_tokens * prices.cache_write
            + usage.output_tokens * prices.output
        )
        return replace(usage, cost=(read + written) / 1_000_000)


def corrected(prices: Prices | None, given: ModelPrices) -> Prices | None:
    """Return the table's prices, overridden by the user's; None if neither has a price
    for input.
    """
    read = given.input
    known = prices or (None if read is None else Prices(read, read, read, 0.0))
    said = {
        each.name: value
        for each in fields(given)
        if (value := getattr(given, each.name)) is not None
    }
    return known and replace(known, **said)


def profile(model: str) -> ModelProfile:
    """Return the table's entry for a model, or the cautious default.

    :param model: the provider's id; `plain_name` strips its prefixes.
    """
    name = plain_name(model)
    table = _table()
    best = max(
        (prefix for prefix in table if name.startswith(prefix)), key=len, default=""
    )
    found = table.get(best) or ModelProfile(listed=False)
    return replace(found, least_effort="low") if "codex" in name else found


_LIMITS: dict[str, ModelProfile] = {
    "claude": ModelProfile(
        max_images=600, max_request_bytes=32_000_000, image_edge=2_000
    ),
    "claude-small": ModelProfile(
        max_images=100, max_request_bytes=32_000_000, image_edge=1_568
    ),
    "gpt": ModelProfile(
        max_images=500, max_request_bytes=50_000_000, image_characters=20_000_000
    ),
    "gemini": ModelProfile(
        max_images=3_600,
        image_edge=3_072,
        image_types=IMAGE_TYPES - {"image/gif"},
    ),
}
"""The properties that a family's models share, keyed by the family's name in the table.
"""


@cache
def _table() -> dict[str, ModelProfile]:
    """Return the models of `models.csv`, keyed by the prefixes of their ids. OpenAI's
    models before GPT-5 are not included.
    """
    import csv

    table: dict[str, ModelProfile] = {}
    with (
        Path(__file__)
        .with_name("models.csv")
        .open(encoding="utf-8", newline="") as file
    ):
        for row in csv.DictReader(file):
            prices = [float(row[kind]) for kind in _PRICES if row[kind]]
            known = replace(
                _LIMITS[row["limits"]],
                context_window=int(row["window"]),
                max_output_tokens=int(row["output"]),
                thinking=cast("ThinkingKind", row["thinking"]),
                least_effort=row["least_effort"],
                prices=Prices(*prices) if prices else None,
            )
            table |= dict.fromkeys(row["models"].split(), known)
    return table
