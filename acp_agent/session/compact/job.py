"""One compaction of a session, from its first sign in the editor to the swap in the log.

Whatever asked for it, it goes through here with a recipe. Of each that was shown, exactly one end is shown and logged;
until the swap is committed, nothing has happened.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

import anyio
from anyio import to_thread

from acp_agent.compaction.assembly import renewed
from acp_agent.compaction.calls import ModelCalls, Show
from acp_agent.compaction.estimate import estimate_text
from acp_agent.compaction.frame import reworded
from acp_agent.compaction.layers import size_of
from acp_agent.compaction.service import CompactionService
from acp_agent.compaction.state import CompactedState
from acp_agent.conversation.context import Context
from acp_agent.conversation.events import (
    CompactionFailed,
    CompactionTrigger,
    ContextSwapped,
    Event,
    FileVersion,
    InstructionsLoaded,
    SummaryDropped,
)
from acp_agent.conversation.messages import new_id
from acp_agent.errors import AgentError, CompactionError, CompactionVetoedError
from acp_agent.hooks.outcomes import Outcome, SwapContext
from acp_agent.logfile import log_failure
from acp_agent.session.compact.order import BY_HAND, WITHOUT_MODEL, Order, Prepared
from acp_agent.session.log import SessionLog
from acp_agent.session.reports import finished
from acp_agent.turn.updates import CompactionChunk, CompactionFinished, CompactionStarted, Update

if TYPE_CHECKING:
    from acp_agent.session.hooking import SessionHooks

DOUBT = 1.25
"""What the tokens that we count of a summary may be more than those that the provider counts."""
_UNCHANGED = "The history is unchanged."

_log = logging.getLogger(__name__)

Pending: TypeAlias = Callable[[Show], Awaitable[Prepared | None]]
"""Waits for a summary in the making, and shows what of it streams meanwhile; None where none comes of it."""


@dataclass(eq=False, slots=True)
class Compactor:
    """Compacts one session.

    :param show_usage: lets the user see how full the window is.
    :param instructions: reads the project's instructions afresh.
    """

    _log: SessionLog
    service: CompactionService
    _hooks: SessionHooks
    _show: Callable[[Update], Awaitable[None]]
    _show_usage: Callable[[], Awaitable[None]]
    _instructions: Callable[[], Awaitable[InstructionsLoaded]]

    async def compact(self, order: Order, pending: Pending | None = None) -> ContextSwapped | None:
        """Compact now; None where there was nothing to compact.

        :param pending: waits for what is being prepared, which is used in the place of what was ordered.
        :raises AgentError: it failed; the context is as it was. It was shown and logged, too, unless nobody asked for
            the compaction and nothing of it was shown.
        """
        shown = _Shown(order.trigger, self._show)
        calls = ModelCalls(order.call, shown.chunk, shown.begin)
        began = anyio.current_time()
        try:
            prepared = await pending(shown.chunk) if pending is not None else None
            if prepared is not None and prepared.result.usage is not None:
                calls.spent(prepared.result.usage)
            if prepared and order.policy.by_hand and prepared.result.strategy != order.policy.strategy:
                prepared = None
            if prepared is not None:
                prepared = await self._renewed(prepared, order, calls)
            else:
                prepared = await self.prepare(order, calls)
            if prepared is None and not shown.begun:
                return None
            if prepared is None:
                raise CompactionError("There was nothing to compact.", _UNCHANGED)
            result, swap, added = await self._turn_end(prepared.order, prepared.result)
            await shown.begin()
            instructions = None if swap.preserve_system_prompt else await self._instructions()
            before = await self._hooks.usage()
            notes = (*filter(None, [prepared.order.note]), *result.receipt.notes)
            waited = anyio.current_time() - began
            receipt = replace(result.receipt, seconds=prepared.seconds, waited=waited, notes=notes)
            result = replace(result, receipt=receipt)
            swapped = await self._commit(shown, prepared.order, result, instructions, added)
        except anyio.get_cancelled_exc_class():
            await self._ended(shown, None, calls)
            raise
        except AgentError as error:
            await self._ended(shown, error, calls)
            raise
        except Exception as error:
            failure = CompactionError(log_failure(_log, "The compaction failed inside the agent", error), _UNCHANGED)
            await self._ended(shown, failure, calls)
            raise failure from error
        # Not above: what fails from here on does not undo the swap.
        await self._hooks.after_compaction(prepared.order, swapped, before)
        await self._hooks.recipe_ended(prepared.order.run, result.summary)
        return swapped

    async def prepare(self, order: Order, calls: ModelCalls | None = None) -> Prepared | None:
        """Ask the hooks, and compact without showing or changing anything; None where there is nothing to compact.

        :raises CompactionVetoedError: a hook wants none.
        :raises AgentError: it failed.
        """
        began = anyio.current_time()
        if not order.asked:
            order = _as_hooks_want(order, await self._hooks.before_compaction(order))
        result = await self._run(order, calls)
        return None if result is None else Prepared(order, result, anyio.current_time() - began)

    async def _renewed(self, prepared: Prepared, order: Order, calls: ModelCalls) -> Prepared | None:
        """Return a prepared result for the conversation as it is now; where it has no room, and a compaction there must
        be, excerpts."""
        state, policy = order.state, order.policy

        def again() -> CompactedState:
            return renewed(prepared.result, state, policy, size_of(state, policy), order.index)

        try:
            result = await to_thread.run_sync(again)
        except CompactionError as error:
            if not order.policy.must_fit:
                raise
            note = f"No summary: {error.reason}"
            return await self.prepare(replace(order.with_steps(*WITHOUT_MODEL), asked=True, note=note), calls)
        return Prepared(replace(order, asked=True), result, prepared.seconds)

    async def would_mask(self, order: Order) -> bool:
        """Return whether masking old results of tools would be enough."""
        return await self._run(order.with_steps("mask")) is not None

    async def _run(self, order: Order, calls: ModelCalls | None = None) -> CompactedState | None:
        native, writer, index = order.native, order.writer, order.index
        return await self.service(
            order.state, order.policy, order.call, calls=calls, native=native, writer=writer, index=index
        )

    async def _commit(
        self, shown: _Shown, order: Order, result: CompactedState, new: InstructionsLoaded | None, added: Sequence[str]
    ) -> ContextSwapped:
        """Append the swap with new instructions before it and what hooks added behind it, and show it."""
        swaps: list[ContextSwapped] = []

        def build(context: Context) -> tuple[Event, ...]:
            if context.revision != order.revision:
                raise CompactionError("The session changed while the summary was written, so it was not used.")
            events = swap_events(context, order, result, shown.compaction_id, new)
            swaps.extend(event for event in events if isinstance(event, ContextSwapped))
            return events

        # A cancel that comes after the commit is too late: what is in the log is what the user is told.
        with anyio.CancelScope(shield=True):
            await self._log.append_built(build)
            await self._hooks.add(added)
            await self._show(finished(swaps[-1]))
            with suppress(AgentError):  # the swap is what counts
                await self._show_usage()
        return swaps[-1]

    async def _turn_end(
        self, order: Order, result: CompactedState
    ) -> tuple[CompactedState, SwapContext, tuple[str, ...]]:
        """Ask `turn_end` about words that a model or a hook wrote; its `swap_context` asks for the swap."""
        if not result.sent or result.strategy == "excerpts":
            return result, order.run.swap, ()
        outcome = await self._hooks.summary_written(order.run, result.summary)
        if outcome.blocks:
            raise CompactionError(f"A hook refused the summary. {outcome.reason}".rstrip(), _UNCHANGED)
        if not isinstance(outcome.action, SwapContext):
            raise CompactionError(f"The hooks of the recipe {order.run.recipe.name!r} asked for no swap.", _UNCHANGED)
        # A hook may have worded it; its bounds are the recipe's all the same.
        swap = replace(order.run.swap, summary=outcome.action.summary)
        most, size = swap.max_summary_tokens, estimate_text(swap.summary)
        if most is not None and size > most * DOUBT:
            raise CompactionError(
                f"The summary has about {size:,} tokens, more than the {most:,} of `max_summary_tokens`.",
                "The history is unchanged; have the recipe ask for less, or allow more.",
            )
        if swap.summary != result.summary:
            sent = reworded(result.sent, result.summary, swap.summary, recall=order.state.recall)
            result = replace(result, summary=swap.summary, sent=sent)
        return result, swap, outcome.context

    async def _ended(self, shown: _Shown, error: AgentError | None, calls: ModelCalls) -> None:
        """Log that a compaction failed or was cancelled, and show it where it was shown, or somebody asked for it."""
        ended, reason = ("cancelled", None) if error is None else ("failed", str(error))
        asked = shown.trigger in BY_HAND and error is not None and not isinstance(error, CompactionVetoedError)
        with anyio.CancelScope(shield=True):
            # Whoever appends next is told what is wrong with the log; what began in the editor must end all the same.
            with suppress(AgentError):
                if shown.begun or asked:
                    event = CompactionFailed(shown.compaction_id, shown.trigger, ended, reason, calls.usage)
                    await self._log.append(event)
                elif calls.usage is not None:
                    await self._log.append(SummaryDropped(calls.usage))
            if shown.begun or asked:
                await shown.begin()
                await self._show(CompactionFinished(shown.compaction_id, ended, error=reason))


class _Shown:
    """What the user sees of a compaction; it begins with the first thing that takes time, or with its end."""

    def __init__(self, trigger: CompactionTrigger, show: Callable[[Update], Awaitable[None]]) -> None:
        self.compaction_id = new_id("cmp")
        self.begun = False
        self.trigger: CompactionTrigger = trigger
        self._show = show

    async def begin(self) -> None:
        if not self.begun:
            self.begun = True
            await self._show(CompactionStarted(self.compaction_id, self.trigger))

    async def chunk(self, text: str) -> None:
        await self.begin()
        if text:
            await self._show(CompactionChunk(self.compaction_id, text))


def swap_events(
    context: Context,
    order: Order,
    result: CompactedState,
    compaction_id: str,
    instructions: InstructionsLoaded | None,
) -> tuple[Event, ...]:
    """Return the swap, and the events that go before it.

    :param context: at the moment of the swap, of the same revision as the order's.
    :param instructions: the project's instructions as they are now; None leaves those that hold.
    """
    fresh: tuple[Event, ...] = ()
    if instructions is not None and instructions.text != context.instructions:
        fresh = (instructions,)
    text = context.instructions if instructions is None else instructions.text
    keep_from = fold_from = context.fold_from or 1
    if result.sent:
        behind = [entry.seq for entry in context.entries if not entry.summary and entry.seq > result.boundary]
        keep_from, fold_from = min(behind, default=context.head + len(fresh) + 1), 0
    memory = replace(result.memory, pins=context.memory.pins, next_pin=context.memory.next_pin)
    swap = ContextSwapped(
        compaction_id=compaction_id,
        message_id=new_id("msg"),
        trigger=order.trigger,
        summary=result.summary,
        sent=result.sent,
        keep_from=keep_from,
        carried=replace(context.carried(), instructions=text, memory=memory),
        tokens_before=result.tokens_before,
        tokens_after=result.tokens_after,
        pinned=result.pinned,
        usage=result.usage,
        recipe=order.run.recipe.name,
        digest=order.run.recipe.digest,
        strategy=result.strategy,
        rewritten=result.rewritten,
        files=tuple(FileVersion(path, version) for path, version in context.files.items() if path in result.files),
        fold_from=fold_from,
        earlier=context.swaps,
        receipt=result.receipt,
    )
    return (*fresh, swap)


def _as_hooks_want(order: Order, outcome: Outcome) -> Order:
    """Return the order with what hooks added to it or wrote for it.

    :raises CompactionVetoedError: they want none.
    """
    if outcome.blocks or outcome.stop is not None:
        reason = f" {outcome.stop or outcome.reason}".rstrip()
        raise CompactionVetoedError(f"A hook did not allow the compaction.{reason}", _UNCHANGED)
    policy = order.policy
    if outcome.context:
        policy = replace(policy, prompt="\n\n".join((policy.prompt, *outcome.context)))
    if outcome.summary is not None:
        steps = ("summary", "excerpts") if policy.must_fit else ("summary",)
        policy = replace(policy, written=outcome.summary, verify="off", sections=(), steps=steps)
    return replace(order, policy=policy, asked=True)
