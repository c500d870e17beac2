"""What a compaction is ordered as, and what comes of it before it is used. Plain values."""

from __future__ import annotations

from dataclasses import replace

from acp_agent.compaction.calls import ModelCall
from acp_agent.compaction.state import CompactedState, CompactionPolicy, ConversationState
from acp_agent.compaction.strategy import Writer
from acp_agent.conversation.events import CompactionTrigger
from acp_agent.frozen import frozen
from acp_agent.llm.provider import NativeCompaction
from acp_agent.session.commands import RecipeRun


@frozen
class Order:
    """A compaction that somebody wants.

    :ivar run: the recipe, with what the user asked it to keep in mind.
    :ivar state: the conversation, frozen.
    :ivar revision: of the context that `state` was taken from.
    :ivar call: asks the model that writes summaries.
    :ivar own: asks the session's own model.
    :ivar without_model: whether no model may be asked.
    :ivar asked: whether the hooks have been asked about it.
    """

    run: RecipeRun
    trigger: CompactionTrigger
    state: ConversationState
    revision: int
    policy: CompactionPolicy
    call: ModelCall
    native: NativeCompaction | None = None
    writer: Writer | None = None
    own: ModelCall | None = None
    without_model: bool = False
    asked: bool = False

    def for_later(self) -> Order:
        """The same, as it is prepared: by a model, since nothing else takes time."""
        steps = tuple(dict.fromkeys((self.policy.strategy, "summary", "chunked")))
        return replace(self, policy=replace(self.policy, steps=steps))


@frozen
class Prepared:
    """A result that waits to be used.

    :ivar seconds: how long it took.
    """

    order: Order
    result: CompactedState
    seconds: float
