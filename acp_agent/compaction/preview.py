"""What a compaction would do, without asking a model and without changing anything."""

from __future__ import annotations

from acp_agent.compaction.cuts import Cut
from acp_agent.compaction.estimate import estimate_messages
from acp_agent.compaction.layers import Layers, fill, planned_cut
from acp_agent.compaction.room import size_of
from acp_agent.compaction.state import CompactionPolicy, ConversationState
from acp_agent.frozen import frozen


@frozen
class Preview:
    """What would be replaced, and what would stand in its place."""

    cut: Cut
    layers: Layers
    size: int  # tokens, estimated, of the new context beside the system prompt and the tools


def preview(state: ConversationState, policy: CompactionPolicy) -> Preview | None:
    """Look ahead, as if no model were asked; None where there is nothing to compact."""
    size = size_of(state, policy)
    cut = planned_cut(state, size, tail=policy.tail, leave_tail=not policy.by_hand)
    if cut is None:
        return None
    layers = fill(state, cut, size)
    return Preview(cut, layers, layers.tokens + estimate_messages(entry.message for entry in cut.kept))
