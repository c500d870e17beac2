"""What hooks may do to a compaction that is about to happen: veto it, put it off, or write its summary.

They are asked once, at the moment at which it is certain that there will be one: before its first model request, or,
where no model is asked, before the swap.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from acp_agent.compaction.calls import ModelCalls
from acp_agent.compaction.state import CompactionPolicy
from acp_agent.conversation.events import ContextSwapped
from acp_agent.errors import AgentError, CompactionVetoedError
from acp_agent.frozen import frozen
from acp_agent.hooks.events import TokenUsage
from acp_agent.hooks.outcomes import Outcome
from acp_agent.session.commands import RecipeRun
from acp_agent.session.ordering import Order
from acp_agent.session.orders import BY_HAND

_UNCHANGED = "The history is unchanged."


class CompactionHooks(Protocol):
    """The session's hooks, as a compaction sees them."""

    async def before_compaction(self, order: Order) -> Outcome:
        """A compaction is about to happen."""
        ...

    async def summary_written(self, run: RecipeRun, summary: str) -> Outcome:
        """A recipe that compacts has its answer."""
        ...

    async def add(self, texts: Sequence[str]) -> None:
        """Have the model read what hooks added."""
        ...

    async def recipe_ended(self, run: RecipeRun, summary: str) -> None:
        """A recipe that compacts has done so.

        :param summary: its answer; empty where it was not asked.
        """
        ...

    async def usage(self) -> TokenUsage:
        """How full the window is now; all zeros where no hook wants to know."""
        ...

    async def after_compaction(self, order: Order, swap: ContextSwapped, before: TokenUsage) -> None:
        """A compaction has happened.

        :param before: from before it.
        """
        ...


class Asking:
    """Asks the hooks about one compaction, when it is called first."""

    def __init__(self, hooks: CompactionHooks, order: Order, calls: ModelCalls) -> None:
        self._hooks = hooks
        self._order = order
        self._calls = calls
        self._requests = calls.requests
        self._asked = order.asked
        calls.begin_with(self)

    async def __call__(self) -> None:
        """Ask, once.

        :raises Interposed: the compaction is to be another one, or none.
        """
        if self._asked:
            return
        self._asked = True
        outcome = await self._hooks.before_compaction(self._order)
        if outcome.blocks or outcome.defer or outcome.summary or outcome.context or outcome.stop is not None:
            # The request that was about to be made is not made.
            self._calls.requests = self._requests
            raise Interposed(outcome)


class Interposed(AgentError):  # noqa: N818 - not for users, and no error
    """Hooks want something of a compaction. Not for users: whoever began it does what they want."""

    def __init__(self, outcome: Outcome) -> None:
        self.outcome = outcome
        super().__init__("A hook interposed.")

    def applied_to(self, order: Order) -> Order:
        """The order as the hooks want it.

        :raises CompactionVetoedError: they want none, or none now.
        """
        outcome = self.outcome
        if outcome.blocks or outcome.stop is not None:
            reason = f" {outcome.stop or outcome.reason}".rstrip()
            raise CompactionVetoedError(f"A hook did not allow the compaction.{reason}", _UNCHANGED)
        if outcome.defer is None:
            return self._said_of(order)
        tokens = outcome.defer.tokens
        later = "until the turn ends" if tokens is None else f"until {tokens:,} more tokens are in the context"
        if order.policy.must_fit:
            raise CompactionVetoedError(
                f"A hook wanted the compaction put off {later}, and it could not wait.", _UNCHANGED
            )
        # Of one that was asked for, whatever else there is to say for it by then.
        then = "It is done then." if order.trigger in BY_HAND else _UNCHANGED
        said = Said(outcome.context, self._said_of(order) if outcome.summary is not None else None)
        raise CompactionPutOffError(f"A hook put the compaction off {later}.", then, tokens=tokens, said=said)

    def _said_of(self, order: Order) -> Order:
        """The order with what hooks have added and written."""
        policy = _with_context(order.policy, self.outcome.context)
        if self.outcome.summary is not None:
            # It costs nothing and is used as it is, with the tail that a model's summary would have.
            steps = ("summary", "ledger") if policy.must_fit else ("summary",)
            policy = replace(policy, written=self.outcome.summary, verify="off", sections=(), steps=steps)
            return replace(order, policy=policy, without_model=False, asked=True)
        return replace(order, policy=policy, asked=True)


@frozen
class Said:
    """What hooks have said of a compaction that was put off.

    :ivar context: texts for whoever writes its summary.
    :ivar written: the order with a hook's summary of the conversation as it was; None where no hook has written one.
    """

    context: tuple[str, ...] = ()
    written: Order | None = None

    def __bool__(self) -> bool:
        return bool(self.context) or self.written is not None

    def then(self, later: Said) -> Said:
        """This, and what was said of another one that is to be done with it; the later summary tells more."""
        context = tuple(dict.fromkeys((*self.context, *later.context)))
        return Said(context, later.written or self.written)

    def applied_to(self, order: Order) -> Order:
        """An order of the same compaction, as the hooks wanted it when they were asked. Of another context than the one
        that a hook has summarised, they are asked again."""
        written = self.written
        if written is not None:
            # What was said since stays behind what the hook has summarised.
            same = written.revision == order.revision
            return replace(written, run=order.run, trigger=order.trigger) if same else order
        return replace(order, policy=_with_context(order.policy, self.context), asked=True)


class CompactionPutOffError(CompactionVetoedError):
    """Hooks want a compaction later.

    :param tokens: by how many the context has to grow until then; None until the turn ends.
    :param said: what else they want of it.
    """

    def __init__(self, reason: str, advice: str, *, tokens: int | None, said: Said) -> None:
        self.tokens = tokens
        self.said = said
        super().__init__(reason, advice)


def _with_context(policy: CompactionPolicy, texts: Sequence[str]) -> CompactionPolicy:
    """A policy with texts added to what the model is told to write."""
    return replace(policy, prompt="\n\n".join((policy.prompt, *texts))) if texts else policy
