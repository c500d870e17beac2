"""The receipt of a compaction, which the user reads when it is committed and when it is
replayed.
"""

from __future__ import annotations

from acp_agent.conversation.events import ContextSwapped
from acp_agent.conversation.messages import UserMessage
from acp_agent.conversation.updates import CompactionFinished
from acp_agent.tools.text import counted, one_line

NAMED = 5  # maximum number of flagged pieces to name; the others are only counted


def finished(swap: ContextSwapped, *, replayed: bool = False) -> CompactionFinished:
    """Return the update that ends a committed compaction."""
    return CompactionFinished(
        swap.compaction_id,
        "completed",
        summary=swap.summary,
        receipt=receipt_text(swap),
        tokens_before=swap.tokens_before,
        tokens_after=swap.tokens_after,
        replayed=replayed,
    )


def dollars(amount: float) -> str:
    """Return an amount of US dollars formatted for users."""
    return f"${amount:.4f}" if amount < 0.1 else f"${amount:.2f}"


def receipt_text(swap: ContextSwapped) -> str:
    """Return the receipt: a line of figures, followed by a line for each thing that the
    user should know.
    """
    receipt = swap.receipt
    facts = [f"{swap.tokens_before:,} → {swap.tokens_after:,} tokens"]
    if receipt.summarised:
        facts.append(f"{counted(receipt.summarised, 'message')} replaced")
    if receipt.rewritten:
        facts.append(f"{receipt.rewritten} shortened")
    took = f"{receipt.seconds:.1f} s" if receipt.seconds >= 0.05 else "under 0.1 s"
    if receipt.waited < receipt.seconds / 2:
        took += ", prepared in the background"
    facts += [f"{receipt.kept} kept", took]
    if swap.usage is not None and swap.usage.cost is not None:
        facts.append(dollars(swap.usage.cost))
    if receipt.cached is not None:
        facts.append(f"{receipt.cached:.0%} of the prompt cached")
    lines = [" · ".join(facts)]
    if any(
        each.seq == swap.carried.turn_from and isinstance(each.message, UserMessage)
        for each in swap.rewritten
    ):
        lines.append(
            "Your prompt does not fit the model's window, so the model sees only its beginning and end. Put long text "
            "into a file and name the file in the prompt. The model then reads the parts it needs."
        )
    if saving := receipt.saving:
        lines.append(
            f"The provider's prompt cache had expired: the next request costs about {dollars(saving.after)} instead of "
            f"{dollars(saving.before)}."
        )
    if receipt.unverified:
        named = ", ".join(
            f"`{one_line(piece, 60)}`" for piece in receipt.unverified[:NAMED]
        )
        more = len(receipt.unverified) - NAMED
        lines.append(
            f"Not found in the conversation: {named}{f' and {more} more' if more > 0 else ''}"
        )
    if receipt.with_reasoning:
        whose = "its" if receipt.with_reasoning == 1 else "their"
        lines.append(
            f"Kept {counted(receipt.with_reasoning, 'message')} with {whose} reasoning"
        )
    if receipt.left_reasoning:
        pieces = counted(receipt.left_reasoning, "piece")
        how = "replaced" if swap.sent else "changed"
        lines.append(
            f"Left out {pieces} of reasoning, since the conversation before them was {how}."
        )
    if receipt.missing:
        lines.append(
            f"Sections that the recipe asks for and the summary lacks: {', '.join(receipt.missing)}"
        )
    return "\n".join([*lines, *receipt.notes])
