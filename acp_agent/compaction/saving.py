"""What a request costs with a context and without it, and whether preparing a summary pays.

    a context of `used` tokens costs        used * write     once the cache has expired
    a summary of it costs                   used * read + EXPECTED_SUMMARY * output     while it is cached
    the request after it costs              after * write

A summary is prepared if it costs less than it saves in the next request alone. All later requests are cheaper too, by
what reading the difference from the cache costs. What a summary has cost does not count any more once it is written.
"""

from __future__ import annotations

from acp_agent.compaction.strategies.summary import EXPECTED_SUMMARY
from acp_agent.conversation.swaps import Saving
from acp_agent.llm.profiles import Prices

_MILLION = 1_000_000


def prompt_cost(tokens: int, prices: Prices, *, cached: bool) -> float:
    """Return the price of a prompt in US dollars.

    :param cached: whether the provider reads it from its cache; else it is read and written into the cache.
    """
    return tokens * (prices.cached_input if cached else max(prices.input, prices.cache_write)) / _MILLION


def summary_cost(tokens: int, prices: Prices, *, cached: bool) -> float:
    """Return the price of a summary in US dollars, of the length that is usual.

    :param tokens: of the conversation that is summarised.
    :param prices: of the model that writes it.
    :param cached: see `prompt_cost`.
    """
    return prompt_cost(tokens, prices, cached=cached) + EXPECTED_SUMMARY * prices.output / _MILLION


def saving_of(before: int, after: int, prices: Prices) -> Saving:
    """Return what a compaction saves in the next request, of which nothing is cached.

    :param before: tokens of the context as it was.
    :param after: tokens of the new one.
    """
    return Saving(prompt_cost(before, prices, cached=False), prompt_cost(after, prices, cached=False))


def pays(saving: Saving, cost: float = 0.0) -> bool:
    """Return whether a compaction saves more than it costs.

    :param cost: of its summary in US dollars; 0 if the summary is written already.
    """
    return saving.before - saving.after > cost
