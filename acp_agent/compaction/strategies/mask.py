"""`mask`: old results of tools become one line each; all that was said stays. Asks no model."""

from __future__ import annotations

from acp_agent.compaction.estimate import estimate_messages
from acp_agent.compaction.layers import TAIL_SHARE
from acp_agent.compaction.masking import fewer_images, plan_mask
from acp_agent.compaction.room import masked_target
from acp_agent.compaction.shortening import Rewrite, apply_rewrites
from acp_agent.compaction.strategy import Draft, Task
from acp_agent.conversation.messages import ToolResult

CLEAR_SHARE = 0.1
"""Of the window: masking less is not worth the provider's cache, which it breaks."""


class MaskStrategy:
    """Masks old results of tools, and images of which a request may hold no more."""

    name = "mask"

    async def draft(self, task: Task) -> Draft | None:
        """Propose; None where too little would be gained."""
        state, policy = task.state, task.policy
        rewrites = plan_mask(
            state.entries,
            turn_from=state.turn_from,
            keep_tail_tokens=int(task.size * TAIL_SHARE),
            clear_at_least=int(state.budget.window * CLEAR_SHARE / max(1.0, state.calibration)),
            # Somebody who asks by hand wants a short context, however full this one is.
            target_tokens=None if policy.by_hand else masked_target(state),
            recall_hint=state.recall,
        )
        images = fewer_images(apply_rewrites(state.entries, rewrites), policy, recall=state.recall)
        rewrites = (*rewrites, *images)
        if not rewrites:
            return None
        before = estimate_messages(entry.message for entry in state.entries)
        after = estimate_messages(entry.message for entry in apply_rewrites(state.entries, rewrites))
        return Draft(None, _left_out(rewrites, round((before - after) * state.calibration)), rewritten=rewrites)


def _left_out(rewrites: tuple[Rewrite, ...], saved: int) -> str:
    results = sum(isinstance(rewrite.message, ToolResult) for rewrite in rewrites)
    said = len(rewrites) - results
    what = [f"{results} old results of tools"] if results else []
    if said:
        what.append(f"images in {said} of the messages")
    return (
        f"Left out of the context: {' and '.join(what)} (about {saved:,} tokens). No word that was said was changed; "
        "all of it stays in the session's record."
    )
