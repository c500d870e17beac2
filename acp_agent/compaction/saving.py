"""Computes whether a summary costs less than it saves.

    the next request without a summary costs    used * write, once the cache has expired
    the summary costs                           used * read + EXPECTED_SUMMARY * output, while the context is cached
    the next request with the summary costs     after * write

Here `used` and `after` are the tokens before and after the compaction; `write`, `read`
and `output` are prices per token. A summary is prepared if it costs less than it saves
in the next request alone. Later requests are also cheaper, since they read fewer tokens
from the cache. Once a summary is written, its cost no longer matters.
"""

from __future__ import annotations

from acp_agent.compaction.strategies.summary import EXPECTED_SUMMARY
from acp_agent.conversation.swaps import Saving
from acp_agent.llm.profiles import Prices

_MILLION = 1_000_000


def prompt_cost(tokens: int, prices: Prices, *, cached: bool) -> float:
    """Return the price of a prompt in US dollars.

    :param cached: whether the provider reads the prompt from its cache; otherwise it
        processes the prompt and writes it to the cache.
    """
    return (
        tokens
        * (prices.cached_input if cached else max(prices.input, prices.cache_write))
        / _MILLION
    )


def summary_cost(tokens: int, prices: Prices, *, cached: bool) -> float:
    """Return the expected price of a summary in US dollars.

    :param tokens: size of the summarised conversation.
    :param prices: prices of the model that writes the summary.
    :param cached: see `prompt_cost`.
    """
    return (
        prompt_cost(tokens, prices, cached=cached)
        + EXPECTED_SUMMARY * prices.output / _MILLION
    )


def saving_of(before: int, after: int, prices: Prices) -> Saving:
    """Return what a compaction saves in the next request if nothing of the context is
    cached.

    :param before: tokens of the context before the compaction.
    :param after: tokens of the context after it.
    """
    return Saving(
        prompt_cost(before, prices, cached=False),
        prompt_cost(after, prices, cached=False),
    )


def pays(saving: Saving, cost: float = 0.0) -> bool:
    """Return whether a compaction saves more than it costs.

    :param cost: price of the summary in US dollars; 0 if it is already written.
    """
    return saving.before - saving.after > cost
