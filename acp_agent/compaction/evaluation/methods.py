"""The ways to compact that are compared: strategies, recipes, and as a yardstick the newest messages alone.

A recipe is what it sets. Where it wants a summary of a model and there is none to ask, what it has besides the summary
is measured: no text is made up.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import replace
from typing import Protocol

from acp_agent.compaction.calls import ModelCall
from acp_agent.compaction.cuts import plan_cut
from acp_agent.compaction.estimate import estimate_messages
from acp_agent.compaction.service import ASKS_A_MODEL, CompactionService
from acp_agent.compaction.state import CompactionPolicy, ConversationState
from acp_agent.compaction.strategy import Writer
from acp_agent.conversation.messages import Message
from acp_agent.errors import CompactionError
from acp_agent.frozen import frozen
from acp_agent.llm.provider import ModelEvent, ModelRequest, NativeCompaction

IN_PLACE_OF_A_SUMMARY = "ledger"
YARDSTICK = 0.4


@frozen
class Outcome:
    """What a method made of a conversation.

    :ivar messages: all that the model sees after it.
    :ivar summary: as a model wrote it; empty where none did.
    :ivar unverified: pieces of the summary that the conversation does not contain.
    """

    messages: tuple[Message, ...]
    tokens_before: int
    tokens_after: int
    summary: str = ""
    unverified: tuple[str, ...] = ()


class Method(Protocol):
    """A way to compact."""

    @property
    def name(self) -> str:
        """As the report calls it."""
        ...

    @property
    def note(self) -> str:
        """What a reader has to know of its figures; empty for nothing."""
        ...

    async def compact(self, state: ConversationState) -> Outcome | None:
        """Compact; None where it finds nothing to do.

        :raises AgentError: it came to nothing.
        """
        ...


@frozen
class Model:
    """The model that writes summaries.

    :ivar writer: its name and limits, which are not those of the window that is measured with.
    """

    call: ModelCall
    writer: Writer
    native: NativeCompaction | None = None


@frozen
class PolicyMethod:
    """The service with a policy, by its first strategy alone and as if a person had asked for it.

    :ivar tail_share: size of the tail as a share of the window, which differs from point to point.
    :ivar model: None where no model may be asked.
    """

    name: str
    policy: CompactionPolicy
    service: CompactionService
    tail_share: float | None = None
    model: Model | None = None

    @property
    def note(self) -> str:
        """That the summary is missing, where it is."""
        if self.model is None and self.policy.strategy in ASKS_A_MODEL:
            return "measured without its summary, since no --model was given: what it pins, its facts and its tail"
        return ""

    async def compact(self, state: ConversationState) -> Outcome | None:
        """Compact (see `Method`)."""
        policy = self.policy
        if self.tail_share is not None:
            policy = replace(policy, tail=int(state.budget.window * self.tail_share))
        if self.note:
            policy = replace(policy, strategy=IN_PLACE_OF_A_SUMMARY)
        if self.model is None:
            result = await self.service(state, policy, _no_model)
        else:
            model = self.model
            state = replace(state, request=replace(state.request, model=model.writer.model))
            result = await self.service(state, policy, model.call, native=model.native, writer=model.writer)
        if result is None:
            return None
        written = result.summary if result.strategy in ASKS_A_MODEL else ""
        return Outcome(result.messages, result.tokens_before, result.tokens_after, written, result.receipt.unverified)


@frozen
class TailMethod:
    """The newest messages word for word, and nothing of the rest.

    :ivar share: of the conversation's tokens that stays.
    """

    share: float = YARDSTICK

    @property
    def name(self) -> str:
        """As the report calls it."""
        return f"newest {self.share:.0%}"

    @property
    def note(self) -> str:
        """Nothing to know."""
        return ""

    async def compact(self, state: ConversationState) -> Outcome | None:
        """Compact (see `Method`)."""
        cut = plan_cut(state.entries, None, int(state.budget.messages * self.share))
        if cut is None:
            return None
        kept = tuple(entry.message for entry in cut.kept)
        after = state.budget.system + estimate_messages(kept)
        return Outcome(kept, state.budget.used, after)


def strategy_methods(service: CompactionService, tail_share: float | None, tail: int | None) -> tuple[Method, ...]:
    """A method for each installed strategy that asks no model, with the agent's own settings.

    :param tail_share: size of the tail as a share of the window; None for the default.
    :param tail: the same in tokens.
    """
    return tuple(
        PolicyMethod(name, CompactionPolicy("", strategy=name, tail=tail), service, tail_share)
        for name in sorted(service.strategies)
        if name not in ASKS_A_MODEL
    )


async def _no_model(_: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
    raise CompactionError("This strategy asks a model: name one with --model.")
    yield  # the type of a stream
