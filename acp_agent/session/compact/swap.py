"""From the result of a compaction to the event that swaps the context."""

from __future__ import annotations

from dataclasses import replace

from acp_agent.compaction.state import CompactedState
from acp_agent.conversation.context import Context
from acp_agent.conversation.events import ContextSwapped, Event, FileVersion, InstructionsLoaded
from acp_agent.conversation.messages import new_id
from acp_agent.session.compact.order import Order


def swap_events(
    context: Context,
    order: Order,
    result: CompactedState,
    compaction_id: str,
    instructions: InstructionsLoaded | None,
) -> tuple[Event, ...]:
    """Return the swap, and the events that go before it.

    :param context: the context at the moment of the swap, of the same revision as the order's.
    :param instructions: the project's instructions as they are now; None leaves those that hold.
    """
    fresh: tuple[Event, ...] = ()
    if instructions is not None and instructions.text != context.instructions:
        fresh = (instructions,)
    text = context.instructions if instructions is None else instructions.text
    keep_from = fold_from = context.fold_from or 1
    if result.sent:
        behind = [entry.seq for entry in context.entries if not entry.summary and entry.seq > result.boundary]
        keep_from, fold_from = min(behind, default=context.head + len(fresh) + 1), 0
    memory = replace(result.memory, pins=context.memory.pins, next_pin=context.memory.next_pin)
    swap = ContextSwapped(
        compaction_id=compaction_id,
        message_id=new_id("msg"),
        trigger=order.trigger,
        summary=result.summary,
        sent=result.sent,
        keep_from=keep_from,
        carried=replace(context.carried(), instructions=text, memory=memory),
        tokens_before=result.tokens_before,
        tokens_after=result.tokens_after,
        pinned=result.pinned,
        usage=result.usage,
        recipe=order.run.recipe.name,
        digest=order.run.recipe.digest,
        strategy=result.strategy,
        rewritten=result.rewritten,
        files=tuple(FileVersion(path, version) for path, version in context.files.items() if path in result.files),
        fold_from=fold_from,
        earlier=context.swaps,
        receipt=result.receipt,
    )
    return (*fresh, swap)
