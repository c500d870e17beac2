"""Looks up how long providers keep a prompt in their cache. The data is in
`caches.csv`, keyed by host, model and option.

The cache lifetime is unknown for a server or model that is not in the table. Examples
are Gemini, whose implicit cache has no stated lifetime, DeepSeek, whose disk cache
lives for hours or days, and local servers.

Sources, as of November 2026: platform.claude.com on prompt caching (five minutes or one
hour after the last use), and the pages of Vertex, Foundry, Bedrock and OpenRouter on
Claude, which agree; developers.openai.com on prompt caching (before GPT-5.6, in memory
for five to ten minutes without use, or up to 24 hours; from GPT-5.6 on, at least 30
minutes) and the corresponding page of Azure. OpenAI's default before GPT-5.5 depends on
the organisation, so it is not in the table.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from acp_agent.frozen import frozen
from acp_agent.llm.names import gpt_version, plain_name
from acp_agent.llm.places import Endpoint, known_host


@frozen
class CacheLife:
    """How long a provider keeps a prompt in its cache, in seconds since the last
    request that used it.

    :ivar kept: until this time, the prompt is certainly in the cache.
    :ivar gone: after this time, the prompt is assumed to be gone. In between, its state
        is unknown.
    """

    kept: int
    gone: int


@frozen
class _Row:
    """A row of the table.

    :ivar models: a prefix of model ids, or a GPT version followed by `+`, which means
        that version and all later ones.
    :ivar option: see `cache_life`.
    """

    models: str
    option: str
    life: CacheLife

    def fits(self, name: str) -> bool:
        """Return whether the row applies to a model.

        :param name: a name from `plain_name`.
        """
        if not self.models.endswith("+"):
            return name.startswith(self.models)
        least = gpt_version(self.models[:-1])
        version = gpt_version(name)
        return least is not None and version is not None and version >= least


def cache_life(endpoint: Endpoint, model: str, option: str = "") -> CacheLife | None:
    """Return how long a server keeps a model's prompts; None if unknown.

    :param model: the provider's id of the model.
    :param option: the lifetime that requests ask for, as the API writes it, such as
        `1h`; empty for the provider's default.
    """
    name = plain_name(model)
    rows = _table().get(known_host(endpoint, _table()), ())
    found = [row for row in rows if row.option == option and row.fits(name)]
    best = max(found, key=lambda row: len(row.models), default=None)
    return best.life if best else None


@cache
def _table() -> dict[str, tuple[_Row, ...]]:
    """Return the rows of the table by host."""
    import csv

    table: dict[str, tuple[_Row, ...]] = {}
    with (
        Path(__file__)
        .with_name("caches.csv")
        .open(encoding="utf-8", newline="") as file
    ):
        for row in csv.DictReader(file):
            life = CacheLife(int(row["kept"]), int(row["gone"]))
            table[row["host"]] = (
                *table.get(row["host"], ()),
                _Row(row["models"], row["option"], life),
            )
    return table
