"""Runs one compaction of a session, from its first update in the editor to the swap in
the log.

Every compaction that was shown ends exactly once, in the editor and in the log. The
context does not change before the swap is appended.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial

import anyio
from anyio import to_thread

from acp_agent.compaction.assembly import refreshed
from acp_agent.compaction.calls import ModelCalls
from acp_agent.compaction.estimate import estimate_text
from acp_agent.compaction.frame import reworded
from acp_agent.compaction.saving import saving_of
from acp_agent.compaction.service import CompactionService
from acp_agent.compaction.state import CompactedState
from acp_agent.conversation.events import (
    CompactionFailed,
    ContextSwapped,
    Event,
    FeatureRefused,
    ReasoningWithheld,
    SummaryDropped,
    ToolsRefused,
)
from acp_agent.conversation.messages import new_id
from acp_agent.conversation.swaps import CompactionTrigger
from acp_agent.conversation.updates import (
    CompactionChunk,
    CompactionFinished,
    CompactionStarted,
    Show,
)
from acp_agent.errors import AgentError, CompactionError, CompactionVetoedError
from acp_agent.hooks.outcomes import NOTHING, SwapContext
from acp_agent.llm.provider import Refused, RefusedTools
from acp_agent.logfile import log_failure
from acp_agent.session.compact.draft import SummaryDraft
from acp_agent.session.compact.order import REQUESTED, Order
from acp_agent.session.compact.report import finished
from acp_agent.session.hooks import SessionHooks
from acp_agent.session.log import SessionLog
from acp_agent.session.models.models import ActiveModel
from acp_agent.session.models.requests import Requests

ESTIMATE_TOLERANCE = 1.25
"""Factor by which a summary's estimated tokens may exceed the limit, since the estimate
is inexact.
"""
_UNCHANGED = "The history is unchanged."

_logger = logging.getLogger(__name__)


@dataclass(eq=False, slots=True)
class Compactor:
    """Runs the compactions of one session."""

    _log: SessionLog
    _service: CompactionService
    _hooks: SessionHooks
    _requests: Requests
    _show: Show
    # Head of the log when an automatic compaction last failed or was not possible.
    _failed_at: int = field(default=0, init=False)

    @property
    def tried_at(self) -> int:
        """Return the sequence number of the newest compaction, or of the log's head at
        the newest failed attempt if that is later; 0 if there was neither.
        """
        return max(self._failed_at, *self._log.context.swaps[-1:], 0)

    def note_failed_attempt(self) -> None:
        """Record that an automatic compaction of the current context failed, or had
        nothing to compact.
        """
        self._failed_at = self._log.context.head

    async def compact(
        self, order: Order, draft: SummaryDraft | None = None
    ) -> ContextSwapped | None:
        """Compact now; return None if there is nothing to compact.

        :param draft: the background summary to use instead of a new one. It may be
            unfinished.
        :raises AgentError: if the compaction failed. The context is unchanged. The
            failure has been shown and logged, except if the compaction was not shown
            yet and was automatic or vetoed.
        """
        display = _CompactionDisplay(order.trigger, self._show)
        calls = ModelCalls(order.model.stream, display.chunk, display.start)
        began = anyio.current_time()
        swapped = None
        try:
            result = await self._take_draft(order, draft, display, calls)
            if result is None:
                result = await self.prepare(order, calls)
            if result is None:
                if display.is_started:
                    raise CompactionError("There was nothing to compact.", _UNCHANGED)
                return None
            result, swap, added = await self._approve_summary(order, result)
            await display.start()
            instructions = None
            if not swap.preserve_system_prompt:
                instructions = await self._requests.instructions()
            before = await self._hooks.usage()
            waited = anyio.current_time() - began
            result = replace(result, receipt=replace(result.receipt, waited=waited))
            build = partial(
                order.swap_events, result, display.compaction_id, instructions
            )
            # `swap_events` raises if the context's revision has changed since the order
            # was made. A cancel after the append is too late, since the user must see
            # everything that is in the log.
            with anyio.CancelScope(shield=True):
                *_, swapped = await self._log.append_built(build)
                # From here on, the compaction has succeeded, even if a later step
                # fails.
                try:
                    await self._hooks.add(added)
                except AgentError as error:
                    _logger.warning("texts of hooks were not logged: %s", error)
                await self._show(finished(swapped))
                with suppress(AgentError):
                    await self._show(await self._requests.usage())
        except anyio.get_cancelled_exc_class():
            await self._report_end(display, None, calls)
            raise
        except AgentError as error:
            await self._report_end(display, error, calls)
            raise
        except Exception as error:
            failure = CompactionError(
                log_failure(_logger, "The compaction failed inside the agent", error),
                _UNCHANGED,
            )
            await self._report_end(display, failure, calls)
            raise failure from error
        assert swapped is not None  # every other path has returned or raised
        # These hooks run outside the `try` block, since their failure does not undo the
        # swap.
        await self._hooks.after_compaction(
            order.trigger, order.state.budget.window, swapped.summary, before
        )
        await self._hooks.recipe_ended(order.run, swapped.summary)
        return swapped

    async def _take_draft(
        self,
        order: Order,
        draft: SummaryDraft | None,
        display: _CompactionDisplay,
        calls: ModelCalls,
    ) -> CompactedState | None:
        """Return the background summary, updated for the current conversation, and
        count its cost; None if there is none or it failed.
        """
        if draft is None:
            return None
        written = await draft.take(display.chunk)
        if written is None:
            return None
        if written.usage is not None:
            calls.spent(written.usage)
        written_from = None if draft.order is None else draft.order.state
        result = await to_thread.run_sync(
            refreshed, written, order.state, order.policy, order.index, written_from
        )
        if order.uncached_prices is None:
            return result
        saving = saving_of(
            result.tokens_before, result.tokens_after, order.uncached_prices
        )
        return replace(result, receipt=replace(result.receipt, saving=saving))

    async def prepare(self, order: Order, calls: ModelCalls) -> CompactedState | None:
        """Run the `before_compaction` hooks, and return the new context without
        swapping it in. `BackgroundSummary` calls this as well, so a draft has passed
        these hooks.

        If there is nothing to compact, run no hooks and return None.

        :raises CompactionVetoedError: if a hook vetoed the compaction.
        :raises AgentError: if the compaction failed.
        """
        began = anyio.current_time()
        policy = order.policy
        window = order.state.budget.window
        instructions = order.run.instructions
        hooked = NOTHING
        if await self._hooks.is_handled("before_compaction") and await self._has_work(
            order
        ):
            hooked = await self._hooks.before_compaction(
                order.trigger, window, instructions
            )
        if hooked.blocks or hooked.stop is not None:
            why = f"A hook did not allow the compaction. {hooked.stop or hooked.reason}".rstrip()
            raise CompactionVetoedError(why, _UNCHANGED)
        if hooked.context:
            policy = replace(
                policy, prompt="\n\n".join((policy.prompt, *hooked.context))
            )
        if hooked.summary is not None:
            steps = ("summary", "excerpts") if policy.must_fit else ("summary",)
            policy = replace(
                policy, written=hooked.summary, verify="off", sections=(), steps=steps
            )
        try:
            result = await self.run_strategies(replace(order, policy=policy), calls)
        finally:
            await self._log_refusals(order.model, calls)
        if result is None:
            return None
        notes = (*filter(None, [order.note]), *result.receipt.notes)
        receipt = replace(
            result.receipt, seconds=anyio.current_time() - began, notes=notes
        )
        return replace(result, receipt=receipt)

    async def _has_work(self, order: Order) -> bool:
        return await self._service.has_work(
            order.state, order.policy, order.model.stream, order.index
        )

    async def _log_refusals(self, model: ActiveModel, calls: ModelCalls) -> None:
        """Log which parts of the summary requests the provider refused, so that they
        are not sent again.
        """
        events: list[Event] = []
        for refusal in calls.refusals:
            if isinstance(refusal, Refused):
                events.append(
                    FeatureRefused(model.name, refusal.feature, refusal.takes)
                )
            elif isinstance(refusal, RefusedTools):
                events.append(ToolsRefused(model.name, refusal.tools))
            else:
                events.append(
                    ReasoningWithheld(refusal.messages, refusal.said, refusal.pieces)
                )
        calls.refusals.clear()
        if events:
            with anyio.CancelScope(shield=True), suppress(AgentError):
                await self._log.append(*events)

    async def run_strategies(
        self, order: Order, calls: ModelCalls | None = None
    ) -> CompactedState | None:
        """Run the order's strategies and return the new context, without running hooks
        or swapping it in.

        :param calls: shows the summary while it streams, and counts its cost; None to
            do neither.
        """
        calls = calls or ModelCalls(order.model.stream)
        native = order.native
        writer = order.writer
        index = order.index
        try:
            return await self._service(
                order.state,
                order.policy,
                order.model.stream,
                calls=calls,
                native=native,
                writer=writer,
                index=index,
            )
        finally:
            for overflow in calls.overflows:
                # Do not learn a guessed window if the smaller request also failed.
                is_known = overflow.refusal.maximum is not None
                if is_known or calls.has_answer_since(overflow):
                    self._requests.learn_overflow(
                        order.model, overflow.refusal, overflow.estimate
                    )

    async def _approve_summary(
        self, order: Order, result: CompactedState
    ) -> tuple[CompactedState, SwapContext, tuple[str, ...]]:
        """Ask the hooks of `turn_end`, the recipe's and all others, whether to swap in
        a summary that a model or another hook wrote. Excerpts and masking need no
        approval.

        :returns: the approved result, the swap that the hooks requested, and texts that
            hooks add for the model.
        :raises CompactionError: if a hook refused the summary, or if it is too long.
        """
        if not result.sent or result.strategy == "excerpts":
            return result, order.run.swap, ()
        outcome = await self._hooks.summary_written(order.run, result.summary)
        if outcome.blocks:
            raise CompactionError(
                f"A hook refused the summary. {outcome.reason}".rstrip(), _UNCHANGED
            )
        if not isinstance(outcome.action, SwapContext):
            raise CompactionError(
                f"The hooks of the recipe {order.run.recipe.name!r} did not ask for a swap.",
                _UNCHANGED,
            )
        # The recipe's limits apply even if a hook has changed the summary.
        swap = replace(order.run.swap, summary=outcome.action.summary)
        most = swap.max_summary_tokens
        size = estimate_text(swap.summary)
        if most is not None and size > most * ESTIMATE_TOLERANCE:
            raise CompactionError(
                f"The summary has about {size:,} tokens, more than the {most:,} of `max_summary_tokens`.",
                "The history is unchanged. Have the recipe ask for a shorter summary, or raise the limit.",
            )
        if swap.summary != result.summary:
            sent = reworded(
                result.sent, result.summary, swap.summary, recall=order.state.recall
            )
            result = replace(result, summary=swap.summary, sent=sent)
        return result, swap, outcome.context

    async def _report_end(
        self, display: _CompactionDisplay, error: AgentError | None, calls: ModelCalls
    ) -> None:
        """Log and show that a compaction failed or was cancelled.

        Only log the cost if the compaction was not shown yet and it was cancelled,
        vetoed or automatic.

        :param error: None if the compaction was cancelled.
        """
        ended, reason = ("cancelled", None) if error is None else ("failed", str(error))
        is_failure = error is not None and not isinstance(error, CompactionVetoedError)
        is_reported = display.is_started or (
            is_failure and display.trigger in REQUESTED
        )
        with anyio.CancelScope(shield=True):
            # The next append reports an error of the log. The compaction shown in the
            # editor must end in any case.
            with suppress(AgentError):
                if is_reported:
                    event = CompactionFailed(
                        display.compaction_id,
                        display.trigger,
                        ended,
                        reason,
                        calls.usage,
                    )
                    await self._log.append(event)
                elif calls.usage is not None:
                    await self._log.append(SummaryDropped(calls.usage))
            if is_reported:
                await display.start()
                await self._show(
                    CompactionFinished(display.compaction_id, ended, error=reason)
                )


@dataclass(eq=False, slots=True)
class _CompactionDisplay:
    """Shows one compaction to the client.

    `CompactionStarted` is sent before the first model call or chunk, or at the latest
    before the end of the compaction.
    """

    trigger: CompactionTrigger
    _show: Show
    is_started: bool = False
    compaction_id: str = field(default_factory=partial(new_id, "cmp"))

    async def start(self) -> None:
        """Show that the compaction has started, once."""
        if not self.is_started:
            self.is_started = True
            await self._show(CompactionStarted(self.compaction_id, self.trigger))

    async def chunk(self, text: str) -> None:
        """Show more of the summary."""
        await self.start()
        if text:
            await self._show(CompactionChunk(self.compaction_id, text))
