"""From the result of a compaction to the event that swaps the context, for the context as it is at that moment.

What was said since the compaction looked at the conversation stays behind its cut; what else changed, such as a setting
or a pinned text, is taken as it is now.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from acp_agent.compaction.estimate import estimate_messages
from acp_agent.compaction.framing import frame
from acp_agent.compaction.held import beside
from acp_agent.compaction.pinned import render_pinned
from acp_agent.compaction.state import CompactedState, ConversationState
from acp_agent.conversation.context import Context, Entry
from acp_agent.conversation.events import (
    CompactionTrigger,
    ContextSwapped,
    Event,
    FileVersion,
    InstructionsLoaded,
    Receipt,
)
from acp_agent.conversation.memory import Memory
from acp_agent.conversation.messages import UserPart, new_id
from acp_agent.recipes.model import Recipe


def swap_events(
    context: Context,
    state: ConversationState,
    result: CompactedState,
    *,
    compaction_id: str,
    trigger: CompactionTrigger,
    recipe: Recipe,
    instructions: InstructionsLoaded | None,
    receipt: Receipt,
) -> tuple[tuple[Event, ...], ContextSwapped]:
    """The swap, and the events that go before it.

    :param context: the context at the moment of the swap, of the same revision as `state`.
    :param state: what was compacted.
    :param instructions: the project's instructions as they are now; None leaves those that hold.
    """
    fresh: tuple[Event, ...] = ()
    if instructions is not None and instructions.text != context.instructions:
        fresh = (instructions,)
    # Pins are the user's to take back at any time; all else that is remembered was said before the cut.
    memory = replace(result.memory, pins=context.memory.pins, next_pin=context.memory.next_pin)
    since = _said_since(context, state)
    swap = ContextSwapped(
        compaction_id=compaction_id,
        message_id=new_id("msg"),
        trigger=trigger,
        summary=result.summary,
        sent=_sent(context, state, result, memory),
        keep_from=0,
        carried=replace(
            context.carried(),
            instructions=context.instructions if instructions is None else instructions.text,
            memory=memory,
        ),
        tokens_before=result.tokens_before + _tokens(since, state),
        tokens_after=result.tokens_after + _tokens(since, state),
        usage=result.usage,
        recipe=recipe.name,
        digest=recipe.digest,
        strategy=result.strategy,
        rewritten=result.rewritten,
        earlier=context.swaps,
        receipt=replace(receipt, kept=receipt.kept + len(since)),
    )
    own_seq = context.head + len(fresh) + 1
    # What was read or written since stands behind the cut, so that the model still sees it.
    seen_since = {path for path, version in context.files.items() if state.files.get(path, "") != version}
    files = tuple(
        FileVersion(path, version)
        for path, version in context.files.items()
        if path in seen_since or (not result.sent and path in result.files)
    )
    swap = replace(swap, files=files)
    if not result.sent:
        begins = context.fold_from or 1
        return fresh, replace(swap, keep_from=begins, fold_from=begins)
    behind = [entry.seq for entry in context.entries if not entry.summary and entry.seq > result.boundary]
    # Also where the turn has ended meanwhile: its prompt stands before its steps, which answer it.
    return fresh, replace(swap, keep_from=min(behind, default=own_seq), pinned=result.pinned)


def _said_since(context: Context, state: ConversationState) -> tuple[Entry, ...]:
    """What stands in the context behind what was compacted."""
    seen = max((entry.seq for entry in state.entries), default=0)
    return tuple(entry for entry in context.entries if entry.seq > seen and not entry.summary)


def tokens_after(context: Context, state: ConversationState, result: CompactedState) -> int:
    """Tokens of the context once this result is in its place."""
    return result.tokens_after + _tokens(_said_since(context, state), state)


def _tokens(since: Sequence[Entry], state: ConversationState) -> int:
    return round(estimate_messages(entry.message for entry in since) * state.calibration)


def _sent(context: Context, state: ConversationState, result: CompactedState, memory: Memory) -> tuple[UserPart, ...]:
    """What the model reads, with the pins, the mode, the grants and the plan that are in force now."""
    recall = state.recall
    before = render_pinned(
        beside(result.memory, result.held),
        mode=state.mode,
        grants=state.allowed(state.grants),
        plan=state.plan,
        recall=recall,
    )
    now = render_pinned(
        beside(memory, result.held),
        mode=context.mode,
        grants=state.allowed(context.grants),
        plan=context.plan,
        recall=recall,
    )
    if before == now:
        return result.sent
    # One text each, where there is one at all.
    old, new = frame(before, "", "", recall=recall), frame(now, "", "", recall=recall)
    return tuple(changed for part in result.sent for changed in (new if part in old else (part,)))
