"""`Strategy`: one way to compact a conversation, with its input (`Task`) and output
(`Draft`).

A strategy makes a proposal. The service adds the parts that every compaction keeps,
such as pins and the user's text, and decides whether the proposal is good enough. If
not, the service tries the next strategy. The built-in strategies are in `strategies`. A
package adds its own under the entry point group `acp_agent.compaction_strategies`, as a
class or function that returns a `Strategy`.
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
    """A model that writes summaries in place of the conversation's own model.

    :ivar model: the provider's ID of the model.
    :ivar window: size of its context window in tokens.
    """

    model: str
    window: int
    max_output_tokens: int


@frozen
class Task:
    """The input of a strategy.

    :ivar size: maximum size of the new context in estimated tokens.
    :ivar calls: calls the model that writes summaries.
    :ivar native: the provider's own compaction, if it has one.
    :ivar writer: the model that `calls` uses; None for the conversation's own model.
    :ivar index: an index of the original entries; None to build one when needed.
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
        """Return the maximum length of a summary in tokens, if it fits the window."""
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
        leave_tail = not self.policy.manual
        return planned_cut(
            self.state,
            self.size,
            tail=tail,
            leave_tail=leave_tail,
            keep_reasoning=keep_reasoning,
        )


@frozen
class Draft:
    """A proposal for the compacted conversation.

    :ivar cut: which messages are removed and kept; None if no message is removed and
        some are only rewritten.
    :ivar summary: the summary as people read it.
    :ivar in_context: whether the summary is also added to the context, framed as
        history. If not, only people read it.
    :ivar body: parts that are added to the context instead of the framed summary.
    :ivar rewritten: messages that are kept in a shorter form.
    :ivar unverified: pieces of the summary that are not in the conversation.
    :ivar missing: required sections that are not in the summary.
    :ivar notes: further sentences for the receipt.
    """

    cut: Cut | None
    summary: str
    in_context: bool = True
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
        """Return a proposal, or None if there is nothing to do.

        :raises CompactionError: if the strategy failed, with the reason. The service
            then tries the next step of the ladder, if there is one.
        """
        ...
