"""How long providers keep a prompt in their cache, as data: `caches.csv`, by server, model and option of the request.

A server or model that is not in the table may keep its cache for any time. That goes for Gemini, whose implicit cache
has no stated lifetime, for DeepSeek, whose cache on disk lives for hours or days, and for local servers.

Sources, state of November 2026: platform.claude.com on prompt caching (five minutes or one hour from the last use), and
the pages of Vertex, Foundry, Bedrock and OpenRouter on Claude, which say the same; developers.openai.com on prompt
caching (before GPT-5.6, in memory for five to ten minutes without use, or up to 24 hours; from GPT-5.6 on, at least 30
minutes) and the same page of Azure. What OpenAI does by default before GPT-5.5 depends on the organisation, so that it
is not in the table.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from acp_agent.frozen import frozen
from acp_agent.llm.names import gpt_version, plain_name
from acp_agent.llm.places import Endpoint, known_host


@frozen
class CacheLife:
    """How long a provider keeps a prompt in its cache, in seconds since the last request that used it.

    :ivar kept: it is kept so long.
    :ivar gone: after so long it counts as gone. Between the two nobody can tell.
    """

    kept: int
    gone: int


@frozen
class _Row:
    """A row of the table.

    :ivar models: the beginning of the models' ids; with a `+` at the end, a version of GPT and all later ones.
    """

    models: str
    option: str
    life: CacheLife

    def fits(self, name: str) -> bool:
        """Return whether the row is about a model.

        :param name: as `plain_name` returns it.
        """
        if not self.models.endswith("+"):
            return name.startswith(self.models)
        least, version = gpt_version(self.models[:-1]), gpt_version(name)
        return least is not None and version is not None and version >= least


def cache_life(endpoint: Endpoint, model: str, option: str = "") -> CacheLife | None:
    """Return how long a server keeps a model's prompts; None if that is not known.

    :param model: the provider's id.
    :param option: what requests say of it, in the API's words, such as `1h`; empty if they leave it to the provider.
    """
    name = plain_name(model)
    rows = _table().get(known_host(endpoint, _table()), ())
    found = [row for row in rows if row.option == option and row.fits(name)]
    best = max(found, key=lambda row: len(row.models), default=None)
    return best.life if best else None


@cache
def _table() -> dict[str, tuple[_Row, ...]]:
    """Return the rows by their host."""
    import csv

    table: dict[str, tuple[_Row, ...]] = {}
    with Path(__file__).with_name("caches.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            life = CacheLife(int(row["kept"]), int(row["gone"]))
            table[row["host"]] = (*table.get(row["host"], ()), _Row(row["models"], row["option"], life))
    return table
