"""What a new context keeps of the names, paths, numbers and words that a session needs
later: what the benchmarks of excerpts have in common.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from acp_agent.compaction.evaluation.facts import text_of
from acp_agent.conversation.messages import Message
from benchmarks.excerpts_measure import Case, compacted, kept_of

OURS = "acp-agent"
COLUMNS = ("need", "ctx", "words")
Tally = Counter[str]
"""How many are kept, as `need`, and of how many, as `need of`."""


def joined(messages: Iterable[Message]) -> str:
    """Return what the model reads in these messages, as one text."""
    return "\n".join(map(text_of, messages))


def by_excerpts(case: Case, tokens: int) -> str:
    """Return all that the model reads after a compaction without a model to so many
    tokens.
    """
    messages, _ = compacted(case, tokens)
    return joined(messages)


def tally(case: Case, context: str) -> Tally:
    """Return what this context keeps of a session at a cut."""
    found = Tally()
    for name, kept in kept_of(case, context):
        found[f"{name} of"] += 1
        found[name] += kept
    return found


def shares(found: Tally) -> Iterator[float]:
    """Yield the share that is kept for each of `COLUMNS`."""
    for name in COLUMNS:
        yield found[name] / max(1, found[f"{name} of"])


def cell(found: Tally) -> str:
    """Return these shares as a cell of a table: `.743/.368/.308`."""
    return "/".join(
        "1.000" if share == 1 else f"{share:.3f}".lstrip("0") for share in shares(found)
    )
