"""What hooks may do to a compaction that is about to happen: veto it, put it off, or write its summary.

They are asked once, at the moment at which it is certain that there will be one: before its first model request, or,
where no model is asked, before the swap.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

from acp_agent.compaction.calls import ModelCalls
from acp_agent.conversation.events import ContextSwapped
from acp_agent.errors import AgentError, CompactionVetoedError
from acp_agent.hooks.events import TokenUsage
from acp_agent.hooks.outcomes import Outcome
from acp_agent.session.commands import RecipeRun
from acp_agent.session.ordering import Order
from acp_agent.session.orders import BY_HAND


class CompactionHooks(Protocol):
    """The session's hooks, as a compaction sees them."""

    async def before_compaction(self, order: Order) -> Outcome:
        """A compaction is about to happen."""
        ...

    async def summary_written(self, run: RecipeRun, summary: str) -> Outcome:
        """A recipe that compacts has its answer."""
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
            raise CompactionVetoedError(f"A hook did not allow the compaction.{reason}", "The history is unchanged.")
        if outcome.defer is not None:
            later = "until the turn ends"
            if outcome.defer.tokens is not None:
                later = f"until {outcome.defer.tokens:,} more tokens are in the context"
            what, then = f"A hook put the compaction off {later}.", "The history is unchanged."
            if order.trigger in BY_HAND:
                # Whatever else there is to say for it by then.
                then = "It is done then."
            elif order.policy.must_fit:
                what = f"A hook wanted the compaction put off {later}, and it could not wait."
            raise CompactionVetoedError(
                what,
                then,
                put_off=not order.policy.must_fit,
                tokens=outcome.defer.tokens,
            )
        policy = order.policy
        if outcome.context:
            policy = replace(policy, prompt="\n\n".join((policy.prompt, *outcome.context)))
        if outcome.summary is not None:
            # It costs nothing and is used as it is, with the tail that a model's summary would have.
            steps = ("summary", "ledger") if policy.must_fit else ("summary",)
            policy = replace(policy, written=outcome.summary, verify="off", sections=(), steps=steps)
            return replace(order, policy=policy, without_model=False, asked=True)
        return replace(order, policy=policy, asked=True)
