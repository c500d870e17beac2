"""One compaction of a session, from its first sign in the editor to the swap in the log.

Whatever asked for it, it goes through here with a recipe. Exactly one terminal word is shown and logged of each that
began; until the swap is committed, nothing has happened.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TypeAlias

import anyio
from anyio import to_thread

from acp_agent.compaction.calls import ModelCalls, Show
from acp_agent.compaction.estimate import estimate_text
from acp_agent.compaction.framing import frame
from acp_agent.compaction.service import CompactionService
from acp_agent.compaction.state import CompactedState
from acp_agent.conversation.context import Context
from acp_agent.conversation.events import (
    CompactionFailed,
    CompactionTrigger,
    ContextSwapped,
    Event,
    InstructionsLoaded,
)
from acp_agent.conversation.messages import CompactedBlock, Text, UserPart, new_id
from acp_agent.errors import AgentError, CompactionError, CompactionVetoedError
from acp_agent.hooks.outcomes import SwapContext
from acp_agent.logfile import log_failure
from acp_agent.session.interposing import Asking, CompactionHooks, Interposed
from acp_agent.session.log import SessionLog
from acp_agent.session.ordering import Order, Prepared
from acp_agent.session.receipts import finished
from acp_agent.session.swapping import swap_events
from acp_agent.turn.updates import CompactionChunk, CompactionFinished, CompactionStarted, Update

DOUBT = 1.25
"""What the tokens that we count of a summary may be more than those that the provider counts."""

_log = logging.getLogger(__name__)


Pending: TypeAlias = Callable[[Show], Awaitable[Prepared | None]]
"""Waits for a result that is in the making, and shows what of it streams meanwhile; None where it comes to nothing."""


class Compactor:
    """Compacts one session.

    :param show: lets the user see an update.
    :param show_usage: lets the user see how full the window is.
    :param instructions: reads the project's instructions afresh.
    """

    def __init__(
        self,
        log: SessionLog,
        service: CompactionService,
        hooks: CompactionHooks,
        show: Callable[[Update], Awaitable[None]],
        show_usage: Callable[[], Awaitable[None]],
        instructions: Callable[[], Awaitable[InstructionsLoaded]],
    ) -> None:
        self._log = log
        self.service = service
        self._hooks = hooks
        self._show = show
        self._show_usage = show_usage
        self._instructions = instructions

    async def compact(
        self,
        order: Order,
        pending: Pending | None = None,
        spent: Callable[[], int] = lambda: 0,
    ) -> ContextSwapped | None:
        """Compact now.

        :param pending: waits for what is being prepared already, which is used in the place of what was ordered; where
            it comes to nothing, the order is carried out.
        :param spent: model requests that were made for it by then; what is left of the twelve is the order's.
        :returns: None where there was nothing to compact, and nothing was shown.
        :raises AgentError: it failed; that was shown and logged, and the context is as it was.
        """
        shown = _Shown(order.trigger, self._show)
        calls = ModelCalls(order.call, shown.chunk, shown.begin)
        waits_since = anyio.current_time()

        async def result() -> Prepared | None:
            if pending is not None:
                await shown.begin()
                if (prepared := await pending(shown.chunk)) is not None:
                    return _ordered(prepared, order.trigger, calls)
                calls.requests = spent()
            return await self.prepare(order, calls)

        return await self._to_the_end(shown, calls, order, result, waits_since=waits_since)

    async def prepare(self, order: Order, calls: ModelCalls) -> Prepared | None:
        """Compact without showing or changing anything.

        :param calls: counts what it costs.
        :raises AgentError: it came to nothing.
        """
        began = anyio.current_time()
        asking = Asking(self._hooks, order, calls)
        try:
            compacted = await self._run(order, calls)
            if compacted is not None:
                await asking()
        except Interposed as interposed:
            order = interposed.applied_to(order)
            compacted = await self._run(order, calls)
        order = replace(order, asked=True)
        return None if compacted is None else Prepared(order, compacted, anyio.current_time() - began)

    async def splice(self, prepared: Prepared, trigger: CompactionTrigger) -> ContextSwapped | None:
        """Put a prepared result in the place of what it summarises; what was said since stays behind it.

        :raises AgentError: it failed; that was shown and logged, and the context is as it was.
        """
        shown = _Shown(trigger, self._show)
        calls = ModelCalls(prepared.order.call)
        ordered = _ordered(prepared, trigger, calls)

        async def result() -> Prepared:
            return ordered

        return await self._to_the_end(shown, calls, ordered.order, result, waits_since=anyio.current_time())

    async def can_mask(self, order: Order) -> bool:
        """Whether leaving old results of tools out would be enough."""
        masking = replace(order, policy=replace(order.policy, steps=("mask",)))
        return await self._run(masking, ModelCalls(order.call)) is not None

    async def _run(self, order: Order, calls: ModelCalls) -> CompactedState | None:
        # Loaded with the first compaction, while a turn may be going on.
        await to_thread.run_sync(lambda: self.service.strategies, abandon_on_cancel=True)
        return await self.service(
            order.state,
            order.policy,
            order.call,
            calls=calls,
            native=order.native,
            writer=order.writer,
            own=order.own,
            without_model=order.without_model,
        )

    async def _to_the_end(
        self,
        shown: _Shown,
        calls: ModelCalls,
        order: Order,
        result: Callable[[], Awaitable[Prepared | None]],
        waits_since: float,
    ) -> ContextSwapped | None:
        """Come to exactly one terminal word."""
        try:
            prepared = await result()
            if prepared is None:
                if shown.begun:
                    raise CompactionError("There was nothing to compact. The history is unchanged.")
                return None
            await shown.begin()
            return await self._commit(shown.compaction_id, prepared, waits_since)
        except anyio.get_cancelled_exc_class():
            await self._failed(
                shown, CompactionFailed(shown.compaction_id, order.trigger, "cancelled", None, calls.usage)
            )
            raise
        except AgentError as error:
            if isinstance(error, CompactionVetoedError) and not shown.begun:
                raise
            failed = CompactionFailed(shown.compaction_id, order.trigger, "failed", str(error), calls.usage)
            await self._failed(shown, failed)
            raise
        except Exception as error:
            reason = log_failure(_log, "The compaction failed inside the agent", error)
            failure = CompactionError(reason, "The history is unchanged.")
            failed = CompactionFailed(shown.compaction_id, order.trigger, "failed", str(failure), calls.usage)
            await self._failed(shown, failed)
            raise failure from error

    async def _commit(self, compaction_id: str, prepared: Prepared, waits_since: float) -> ContextSwapped:
        order = prepared.order
        result, swap_as, added = await self._reworded(order, prepared.result)
        instructions = None if swap_as.preserve_system_prompt else await self._instructions()
        before = await self._hooks.usage()
        receipt = replace(result.receipt, seconds=prepared.seconds, waited=anyio.current_time() - waits_since)
        swaps: list[ContextSwapped] = []

        def build(context: Context) -> tuple[Event, ...]:
            if context.revision != order.revision:
                raise CompactionError("The session changed while the summary was written, so it was not used.")
            fresh, swap = swap_events(
                context,
                order.state,
                result,
                compaction_id=compaction_id,
                trigger=order.trigger,
                recipe=order.run.recipe,
                instructions=instructions,
                receipt=receipt,
            )
            swaps.append(swap)
            return (*fresh, swap)

        # A cancel that comes after the commit is too late: what is in the log is what the user is told.
        with anyio.CancelScope(shield=True):
            await self._log.append_built(build)
            await self._hooks.add(added)
            await self._show(finished(swaps[-1]))
            try:
                await self._show_usage()
            except AgentError as error:
                _log.info("no usage to show after compaction %s: %s", compaction_id, error)
        await self._hooks.after_compaction(order, swaps[-1], before)
        await self._hooks.recipe_ended(order.run, result.summary)
        return swaps[-1]

    async def _reworded(
        self, order: Order, result: CompactedState
    ) -> tuple[CompactedState, SwapContext, tuple[str, ...]]:
        """The result after the recipe's hooks, which decide whether its answer takes the conversation's place; how it
        does that, and what they add behind it."""
        if not result.sent:
            return result, order.run.swap, ()
        outcome = await self._hooks.summary_written(order.run, result.summary)
        if outcome.blocks:
            raise CompactionError(f"A hook refused the summary. {outcome.reason}".rstrip(), "The history is unchanged.")
        if not isinstance(outcome.action, SwapContext):
            raise CompactionError(
                f"The hooks of the recipe {order.run.recipe.name!r} asked for no swap. Nothing changed."
            )
        # A hook may have worded it; its bounds are the recipe's all the same.
        swap = replace(order.run.swap, summary=outcome.action.summary)
        most, size = swap.max_summary_tokens, estimate_text(swap.summary)
        if most is not None and size > most * DOUBT:
            raise CompactionError(
                f"The summary has about {size:,} tokens, more than the {most:,} of `max_summary_tokens`.",
                "The history is unchanged; have the recipe ask for less, or allow more.",
            )
        if swap.summary == result.summary:
            return result, swap, outcome.context
        recall = order.state.recall
        [before] = frame("", result.summary, "", recall=recall)
        [after] = frame("", swap.summary, "", recall=recall)
        sent = tuple(_with_words(part, before.text, after.text) for part in result.sent)
        return replace(result, summary=swap.summary, sent=sent), swap, outcome.context

    async def _failed(self, shown: _Shown, event: CompactionFailed) -> None:
        if not shown.begun and event.status == "cancelled":
            return
        with anyio.CancelScope(shield=True):
            try:
                await self._log.append(event)
            except AgentError as error:
                # Whoever appends next is told; what began in the editor must end there all the same.
                _log.warning("the end of compaction %s was not logged: %s", event.compaction_id, error)
            await shown.begin()
            await self._show(CompactionFinished(event.compaction_id, event.status, error=event.error))


class _Shown:
    """What the user sees of a compaction; it begins with the first thing that takes time, or with its end."""

    def __init__(self, trigger: CompactionTrigger, show: Callable[[Update], Awaitable[None]]) -> None:
        self.compaction_id = new_id("cmp")
        self.begun = False
        self._trigger = trigger
        self._show = show

    async def begin(self) -> None:
        if not self.begun:
            self.begun = True
            await self._show(CompactionStarted(self.compaction_id, self._trigger))

    async def chunk(self, text: str) -> None:
        await self._show(CompactionChunk(self.compaction_id, text))


def _with_words(part: UserPart, before: str, after: str) -> UserPart:
    """A part with one framed summary in the place of another. What a provider has made itself cannot be reworded; the
    text beside it, for all other providers, ends with the summary."""
    if isinstance(part, Text):
        return Text(after) if part.text == before else part
    if isinstance(part, CompactedBlock) and part.text.endswith(before):
        return replace(part, text=part.text.removesuffix(before) + after)
    return part


def _ordered(prepared: Prepared, trigger: CompactionTrigger, calls: ModelCalls) -> Prepared:
    """A prepared result for whoever asks for one now; what it cost is counted in `calls`."""
    if prepared.result.usage is not None:
        calls.spent(prepared.result.usage)
    return replace(prepared, order=replace(prepared.order, trigger=trigger))
