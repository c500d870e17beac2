"""`Strategy`: one way to compact a conversation, with its input (`Task`) and output
(`Draft`).

A strategy makes a proposal. The service adds what no compaction may lose and decides
whether the proposal is good enough; if it is not, the service tries the next strategy.
The built-in ones are in `strategies`. A package adds its own under the entry point
group `acp_agent.compaction_strategies`, as a class or function that returns a
`Strategy`.
"""

from __future__ import annotations

from typing import Protocol

from acp_agent.compaction.calls import ModelCalls
from acp_agent.compaction.cuts import Cut
from acp_agent.compaction.excerpts.index import ExcerptIndex
from acp_agent.compaction.layers import planned_cut
from acp_agent.compaction.shortening import Rewrite
from acp_agent.compaction.state import CompactionPolicy, ConversationState
from acp_agent.conversation.messages import UserPart
from acp_agent.frozen import frozen
from acp_agent.llm.provider import NativeCompaction

ENTRY_POINTS = "acp_agent.compaction_strategies"


@frozen
class Writer:
    """A model that writes summaries instead of the conversation's own. `model` is the
    provider's own ID.
    """

    model: str
    window: int
    max_output_tokens: int


@frozen
class Task:
    """The input of a strategy.

    :ivar size: maximum size of the new context in estimated tokens.
    :ivar calls: asks the model that writes summaries.
    :ivar native: the provider's own compaction, if it has one.
    :ivar writer: the model that `calls` asks, if it is not the conversation's own.
    """

    state: ConversationState
    policy: CompactionPolicy
    size: int
    calls: ModelCalls
    native: NativeCompaction | None = None
    writer: Writer | None = None
    index: ExcerptIndex | None = None

    @property
    def window(self) -> int:
        """Return the window of the model that writes the summary, in tokens."""
        return self.writer.window if self.writer else self.state.budget.window

    @property
    def max_output_tokens(self) -> int:
        """Return the maximum length of that model's answer in tokens, if its window has
        room.
        """
        if self.writer is not None:
            return self.writer.max_output_tokens
        return max(
            self.state.request.max_output_tokens, self.state.budget.output_reserve
        )

    def cut(
        self, tail_tokens: int | None = None, *, keep_reasoning: bool = False
    ) -> Cut | None:
        """Return the cut of the history, by default before the policy's tail, or None
        if nothing may be removed.

        :param keep_reasoning: see `plan_cut`.
        """
        tail = self.policy.tail if tail_tokens is None else tail_tokens
        leave_tail = not self.policy.by_hand
        return planned_cut(
            self.state,
            self.size,
            tail=tail,
            leave_tail=leave_tail,
            keep_reasoning=keep_reasoning,
        )


@frozen
class Draft:
    """A proposal.

    :ivar cut: which messages are removed and kept; None if all are kept and messages
        are only rewritten.
    :ivar summary: the summary for people.
    :ivar told: whether the model also reads the summary, framed as history.
    :ivar body: parts that the model reads instead of the summary.
    :ivar rewritten: messages that are kept in a shorter form.
    :ivar unverified: pieces of the summary that the conversation does not contain.
    :ivar missing: sections that the summary lacks.
    """

    cut: Cut | None
    summary: str
    told: bool = True
    body: tuple[UserPart, ...] = ()
    rewritten: tuple[Rewrite, ...] = ()
    unverified: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class Strategy(Protocol):
    """One way to compact a conversation."""

    @property
    def name(self) -> str:
        """Return the name that recipes and the configuration use."""
        ...

    async def draft(self, task: Task) -> Draft | None:
        """Return a proposal, or None if this strategy has nothing to do.

        :raises CompactionError: if it failed, with the reason. The next step of the
            ladder is tried, if there is one.
        """
        ...
