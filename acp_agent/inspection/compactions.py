"""From an event of the log to the compaction that somebody looks at: one that happened, or one that did not.

Knows neither the turn that it happened in nor what it is to the session's sums.
"""

from __future__ import annotations

from collections.abc import Mapping

from acp_agent.conversation.context import Context
from acp_agent.conversation.events import CompactionFailed, ContextSwapped, LoggedEvent
from acp_agent.conversation.messages import Usage
from acp_agent.inspection.blocks import blocks_after, blocks_before
from acp_agent.inspection.views import Compaction


def finished(
    number: int,
    logged: LoggedEvent,
    swap: ContextSwapped,
    before: Context,
    after: Context,
    pins: Mapping[int, str],
) -> Compaction:
    """One that happened.

    :param number: counts from 1 within the session.
    :param logged: the swap's entry.
    :param before: what the model saw.
    :param after: what it saw from then on.
    :param pins: the texts that the user has pinned, by where they stand in the log.
    """
    receipt = swap.receipt
    notes = list(receipt.notes)
    if receipt.unverified:
        notes.insert(0, f"Not found in the conversation: {', '.join(receipt.unverified)}")
    if receipt.missing:
        notes.insert(0, f"Sections that the summary lacks: {', '.join(receipt.missing)}")
    return Compaction(
        number,
        swap.compaction_id,
        logged.seq,
        logged.at,
        swap.trigger,
        "completed",
        swap.strategy,
        swap.recipe,
        swap.tokens_before,
        swap.tokens_after,
        receipt.seconds,
        receipt.waited,
        receipt.requests,
        receipt.cached,
        cost_of(swap.usage),
        notes=tuple(notes),
        before=blocks_before(before, swap, pins),
        after=blocks_after(after, swap),
    )


def unfinished(number: int, logged: LoggedEvent, failed: CompactionFailed) -> Compaction:
    """One that did not happen.

    :param number: counts from 1 within the session.
    :param logged: its entry.
    """
    return Compaction(
        number,
        failed.compaction_id,
        logged.seq,
        logged.at,
        failed.trigger,
        failed.status,
        cost=cost_of(failed.usage),
        error=failed.error or "",
    )


def title_of(compaction: Compaction) -> str:
    """What it is called in the list of what happened."""
    if compaction.status == "completed":
        return f"Compaction {compaction.number}: {compaction.tokens_before:,} → {compaction.tokens_after:,} tokens"
    return f"Compaction {compaction.number} {compaction.status}"


def cost_of(usage: Usage | None) -> float:
    """US dollars; 0 where nobody says how many."""
    return usage.cost if usage is not None and usage.cost is not None else 0.0
