"""`excerpts`: the most valuable lines, word for word. Needs no model."""

from __future__ import annotations

from functools import partial

from anyio import to_thread

from acp_agent.compaction.estimate import estimate_messages
from acp_agent.compaction.layers import no_room
from acp_agent.compaction.shortening import fit
from acp_agent.compaction.strategy import Draft, Task

SUMMARY = (
    "No summary was written. What you said, the newest messages and excerpts of all others stay word for word; every "
    "entry stays in the session's record."
)
SHORTENED = "The longest messages were shortened in the middle. The whole of them stays in the record."


class ExcerptsStrategy:
    """Leaves the choice to the layers, which fill the whole size where there is no summary."""

    name = "excerpts"

    async def draft(self, task: Task) -> Draft | None:
        """Return a cut; if nothing may be replaced but the request has to fit, shorten the longest messages instead."""
        if (cut := await to_thread.run_sync(task.cut, abandon_on_cancel=True)) is not None:
            return Draft(cut, SUMMARY, told=False)
        state = task.state
        if not task.policy.must_fit:
            return None
        room = int(state.budget.target / state.rate) - state.prefix
        before = estimate_messages(entry.message for entry in state.entries)
        if before <= room:
            return None
        shorten = partial(fit, state.entries, max(0, room), state.turn_from, recall_hint=state.recall)
        rewritten = await to_thread.run_sync(shorten, abandon_on_cancel=True)
        if not rewritten:
            raise no_room(state, state.budget.used, state.budget.most)
        return Draft(None, SHORTENED, rewritten=rewritten)
