"""What the user reads of compactions: the receipt of one, `/compact preview` and `/compact status`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from acp_agent.compaction.budget import TokenBudget
from acp_agent.compaction.estimate import estimate_messages, estimate_part
from acp_agent.config.settings import CompactionSettings
from acp_agent.conversation.events import CompactionFailed, ContextRestored, ContextSwapped, LoggedEvent
from acp_agent.conversation.messages import Text
from acp_agent.tools.text import counted
from acp_agent.turn.updates import CompactionFinished

if TYPE_CHECKING:
    from acp_agent.compaction.layers import Preview


TOLD = 5
"""Flagged pieces that are named; the others are counted."""


def finished(swap: ContextSwapped, *, replayed: bool = False) -> CompactionFinished:
    """Return the last word on a compaction that was committed."""
    return CompactionFinished(
        swap.compaction_id,
        "completed",
        summary=swap.summary,
        receipt=_receipt_text(swap),
        tokens_before=swap.tokens_before,
        tokens_after=swap.tokens_after,
        replayed=replayed,
    )


def _receipt_text(swap: ContextSwapped) -> str:
    """Return the receipt as a line, and a line for each thing that the user should know."""
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
    return "\n".join([*lines, *receipt.notes])


def preview_text(preview: Preview | None, budget: TokenBudget) -> str:
    """Return what a compaction would replace, and what the model would read in its place."""
    if preview is None:
        return "There is nothing to compact yet. Nothing was changed."
    cut, layers = preview.cut, preview.layers
    replaced = estimate_messages(entry.message for entry in cut.summarised)
    kept = (*(pin.message for pin in cut.pinned), *(entry.message for entry in cut.kept))
    first, last, gone = cut.summarised[0].seq, cut.summarised[-1].seq, len(cut.summarised) - len(cut.pinned)
    excerpts = sum(map(estimate_part, layers.excerpts))
    after = budget.system + preview.size
    lines = [
        "**Preview of a compaction.** Nothing was changed.",
        "",
        f"- Now: {budget.used:,} tokens, {budget.used / budget.window:.0%} of the window of {budget.window:,}",
        f"- Replaced: {counted(gone, 'message')}, about {replaced:,} tokens: #{first} to #{last}",
        f"- Kept as they are: {counted(len(kept), 'message')}, about {estimate_messages(kept):,} tokens",
        f"- Your words, carried over: about {sum(map(estimate_part, layers.quotes)):,} tokens",
        f"- Excerpts, of which a summary takes a part: about {excerpts:,} tokens",
        f"- Afterwards: about {after:,} tokens; {max(0, budget.used - after):,} saved",
        "",
        "What the model would read without a summary:",
        "",
    ]
    text = "\n\n".join(part.text for part in layers.parts if isinstance(part, Text))
    return "\n".join([*lines, *(f"> {line}".rstrip() for line in text.splitlines())])


def status_text(
    budget: TokenBudget,
    settings: CompactionSettings,
    events: Iterable[LoggedEvent],
    *,
    pins: int,
    in_force: tuple[int, ...],
    prepared: str,
) -> str:
    """Return the budget, and the compactions so far with their receipts.

    :param events: those of the log that are about compactions, in order.
    :param in_force: seqs of the compactions that were not undone.
    :param prepared: what is being prepared in the background.
    """
    automatic = f"at {settings.threshold:.0%} of the usable window" if settings.auto else "off"
    if settings.auto and settings.prepare is not None:
        automatic += f", prepared from {settings.prepare:.0%} on"
    background = {"running": "; a summary is being prepared in the background", "ready": "; a summary is ready"}
    lines = [
        f"- Window: {budget.window:,} tokens, {budget.usable:,} of them usable (the rest is kept for the answer)",
        (
            f"- In use: {budget.used:,} ({budget.utilisation:.0%} of the usable ones): {budget.system:,} for the "
            f"system prompt and the tools, {budget.messages:,} for the messages; {budget.free:,} free"
        ),
        f"- Automatic compaction: {automatic}{background.get(prepared, '')}",
        f"- Pinned: {counted(pins, 'text')}",
    ]
    logged_events = tuple(events)
    undone = {logged.event.undone for logged in logged_events if isinstance(logged.event, ContextRestored)}
    history = [_history(logged, in_force, undone) for logged in logged_events]
    lines.append("- Compactions so far: none" if not history else "- Compactions so far:")
    return "\n".join([*lines, *history])


def _history(logged: LoggedEvent, in_force: tuple[int, ...], undone: set[int]) -> str:
    event = logged.event
    match event:
        case ContextSwapped():
            state = ""
            if logged.seq not in in_force:
                state = " (undone)" if logged.seq in undone else " (taken back with a prompt that the provider refused)"
            receipt = _receipt_text(event).replace("\n", "\n    ")
            return f"  - #{logged.seq} {event.trigger}, {event.strategy}{state}: {receipt}"
        case CompactionFailed():
            return f"  - #{logged.seq} {event.trigger}, {event.status}: {event.error or 'nothing was changed'}"
        case ContextRestored():
            return f"  - #{logged.seq} undo of #{event.undone}"
        case _:
            return f"  - #{logged.seq}"


def _short(piece: str) -> str:
    one = " ".join(piece.split()).replace("`", "'")
    return one if len(one) <= 60 else f"{one[:59]}…"
