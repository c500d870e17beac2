"""What a compaction did and cost, in the words that the user reads below the summary and in `/compact status`."""

from __future__ import annotations

from acp_agent.conversation.events import ContextSwapped, Receipt
from acp_agent.turn.updates import CompactionFinished

TOLD = 5
"""Flagged pieces that are named; the others are counted."""


def finished(swap: ContextSwapped, *, replayed: bool = False) -> CompactionFinished:
    """The last word on a compaction that was committed."""
    return CompactionFinished(
        swap.compaction_id,
        "completed",
        summary=swap.summary,
        receipt=receipt_text(swap),
        tokens_before=swap.tokens_before,
        tokens_after=swap.tokens_after,
        replayed=replayed,
    )


def receipt_text(swap: ContextSwapped) -> str:
    """The receipt as a line, and a line for each thing that the user should know."""
    receipt = swap.receipt
    facts = [f"{swap.tokens_before:,} → {swap.tokens_after:,} tokens", *_messages(receipt), _seconds(receipt)]
    if swap.usage is not None and swap.usage.cost is not None:
        facts.append(f"${swap.usage.cost:.4f}" if swap.usage.cost < 0.1 else f"${swap.usage.cost:.2f}")
    if receipt.cached is not None:
        facts.append(f"{receipt.cached:.0%} of the prompt cached")
    lines = [" · ".join(facts)]
    if receipt.unverified:
        named = ", ".join(f"`{_short(piece)}`" for piece in receipt.unverified[:TOLD])
        more = len(receipt.unverified) - TOLD
        lines.append(f"Not found in the conversation: {named}{f' and {more} more' if more > 0 else ''}")
    if receipt.missing:
        lines.append(f"Sections that the recipe asks for and the summary lacks: {', '.join(receipt.missing)}")
    lines.extend(receipt.notes)
    return "\n".join(lines)


def _messages(receipt: Receipt) -> list[str]:
    facts: list[str] = []
    if receipt.summarised:
        facts.append(f"{receipt.summarised} {_noun(receipt.summarised)} replaced")
    if receipt.rewritten:
        facts.append(f"{receipt.rewritten} shortened")
    facts.append(f"{receipt.kept} kept")
    return facts


def _seconds(receipt: Receipt) -> str:
    took = f"{receipt.seconds:.1f} s" if receipt.seconds >= 0.05 else "under 0.1 s"
    if receipt.waited < receipt.seconds / 2:
        return f"{took}, prepared in the background"
    return took


def _noun(count: int) -> str:
    return "message" if count == 1 else "messages"


def _short(piece: str) -> str:
    one = " ".join(piece.split()).replace("`", "'")
    return one if len(one) <= 60 else f"{one[:59]}…"
