"""What a compaction would do, without asking a model and without changing anything."""

from __future__ import annotations

from acp_agent.compaction.assembling import assembled
from acp_agent.compaction.cuts import Cut
from acp_agent.compaction.estimate import estimate_messages, estimate_text
from acp_agent.compaction.fitting import fitted
from acp_agent.compaction.state import CompactedState, CompactionPolicy, ConversationState
from acp_agent.compaction.strategy import Draft, planned_cut
from acp_agent.conversation.memory import Memory
from acp_agent.conversation.messages import Text
from acp_agent.frozen import frozen


@frozen
class Preview:
    """What would be kept, dropped and saved. Sizes in tokens.

    :ivar cut: what would leave and what would stay; None where messages would only be shortened.
    :ivar shortened: how many messages would stay in a shorter form.
    :ivar replaced: size of the messages that would leave.
    :ivar carried: size of what is carried over word for word, and of the facts.
    :ivar summary: size that a summary may be expected to have; 0 where no model would write one.
    :ivar after: size of the whole context afterwards.
    :ivar memory: what would be carried over.
    :ivar text: the layers beside the summary, as the model would read them.
    """

    cut: Cut | None
    shortened: int
    before: int
    replaced: int
    carried: int
    summary: int
    after: int
    memory: Memory
    text: str


def preview(state: ConversationState, policy: CompactionPolicy, exact: CompactedState | None = None) -> Preview | None:
    """Look ahead; None where there is nothing to compact.

    :param exact: the result, where the strategy needs no model for it.
    """
    summary = 0
    if exact is None:
        policy, summary = fitted(state, policy, policy.strategy)
    cut = planned_cut(state, policy) if exact is None else _cut_of(state, exact)
    if cut is None and exact is None:
        return None
    result = exact or assembled(state, policy, Draft(cut, ""), policy.strategy)
    text = "\n\n".join(part.text for part in result.sent if isinstance(part, Text))
    leaving = cut.summarised if cut else ()
    return Preview(
        cut=cut,
        shortened=len(result.rewritten),
        before=state.budget.used,
        replaced=round(estimate_messages(entry.message for entry in leaving) * state.calibration),
        carried=round(estimate_text(text) * state.calibration),
        summary=summary,
        after=result.tokens_after + round(summary * state.calibration),
        memory=result.memory,
        text=text,
    )


def _cut_of(state: ConversationState, result: CompactedState) -> Cut | None:
    if not result.sent:
        return None
    left = tuple(entry for entry in state.entries if entry.seq <= result.boundary)
    return Cut(left, result.pinned, tuple(entry for entry in state.entries if entry.seq > result.boundary))
