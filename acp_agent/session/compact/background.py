"""`BackgroundSummary`: writes a summary in the background, for a later compaction."""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import dataclass

import anyio
from anyio.abc import TaskGroup

from acp_agent.compaction.calls import ModelCalls
from acp_agent.compaction.state import CompactedState
from acp_agent.conversation.events import SummaryDropped
from acp_agent.errors import AgentError, CompactionError
from acp_agent.logfile import log_failure
from acp_agent.session.compact.compactor import Compactor
from acp_agent.session.compact.decide import Background
from acp_agent.session.compact.draft import SummaryDraft
from acp_agent.session.compact.order import Order, Orders
from acp_agent.session.compact.prompt_cache import PromptCache
from acp_agent.session.log import SessionLog
from acp_agent.session.models.models import ActiveModel
from acp_agent.session.models.requests import Requests

_logger = logging.getLogger(__name__)


@dataclass(eq=False, slots=True)
class BackgroundSummary:
    """Writes summaries while the turn continues, at most one at a time. A summary
    covers the context as it was when writing began.

    The summary is shown only if a caller waits for it. An unused summary is dropped,
    and its cost is logged.
    """

    _log: SessionLog
    _orders: Orders
    _compactor: Compactor
    _tasks: TaskGroup
    _cache: PromptCache
    _draft: SummaryDraft | None = None
    # The summary that was being written when the turn called the model.
    _concurrent: SummaryDraft | None = None
    _in_turn: bool = False  # whether a turn that has called the model is running

    def note_model_call(self) -> None:
        """Record that the turn is about to call the model.

        If the model's server answers one request at a time, the summary waits until the
        turn is over.
        """
        self._in_turn = True
        self._concurrent = None
        self._cache.asked()
        draft = self._draft
        if draft is not None:
            draft.courtesy.give_way()
            self._concurrent = None if draft.is_answered else draft

    def note_answer(self, active: ActiveModel, requests: Requests) -> None:
        """Record that the turn's answer has started to arrive.

        If the same server finished the summary first, the server made the turn wait, so
        it answers only one request at a time.
        """
        self._cache.answered(active.name)
        draft = self._concurrent
        self._concurrent = None
        if draft is None or draft.order is None or active.parallel != "unknown":
            return
        if draft.is_answered and draft.order.model.provider is active.provider:
            requests.learn_queue(active.provider.name)

    def note_turn_end(self) -> None:
        """Record that the turn is over, and let the summary proceed."""
        self._in_turn = False
        if self._draft is not None:
            self._draft.courtesy.go_on()

    @property
    def state(self) -> Background:
        """Return the state of the current context's background summary."""
        draft = self._draft
        if (
            draft is None
            or draft.taken.is_set()
            or draft.revision != self._log.context.revision
        ):
            return "none"
        match draft.outcome:
            case "writing":
                return "running"
            case CompactedState():
                return "ready"
            case _:
                return "unavailable"

    @property
    def draft(self) -> SummaryDraft | None:
        """Return the current context's summary if it is being written or ready; else
        None.
        """
        return self._draft if self.state in ("running", "ready") else None

    @property
    def failure(self) -> AgentError | None:
        """Return the error if the current context's summary failed; else None."""
        return (
            self._draft.failure if self._draft and self.state == "unavailable" else None
        )

    def begin(self, active: ActiveModel, order: Order | None = None) -> None:
        """Begin a summary of the current context.

        :param order: the order of a summary that is prepared while the user pauses. If
            None, make an order, and write no summary if masking old results is enough.
        """
        self.drop()
        self._draft = SummaryDraft(self._log.context.revision, self._cache.now)
        if not self._in_turn:
            self._draft.courtesy.go_on()
        self._draft.order = order
        self._tasks.start_soon(self._write, active, self._draft)

    def fail(self, error: AgentError) -> None:
        """Drop the summary, and record why this context gets no further summary."""
        self.drop()
        self._draft = SummaryDraft(
            self._log.context.revision, self._cache.now, outcome=error
        )

    def drop(self) -> None:
        """Drop the summary. Its cost is logged."""
        if self._draft is not None:
            self._draft.scope.cancel()
            self._draft = None

    async def _masking_is_enough(self, order: Order) -> bool:
        return (
            await self._compactor.run_strategies(order.with_steps("mask")) is not None
        )

    async def _write(self, active: ActiveModel, draft: SummaryDraft) -> None:
        calls: ModelCalls | None = None
        try:
            with draft.scope:
                order = draft.order or await self._orders.make("threshold", active)
                if (
                    order.policy.idle
                    or order.policy.native_first
                    or not await self._masking_is_enough(order)
                ):
                    order = order.with_steps(*_steps(order))
                    competes = (
                        order.model.provider is active.provider
                        and active.parallel == "one"
                    )
                    courtesy = draft.courtesy if competes else None
                    draft.order = order
                    calls = ModelCalls(
                        order.model.stream, draft.add, draft.asked, courtesy
                    )
                    draft.calls = calls
                    written = await self._compactor.prepare(order, calls)
                    self._note_read(draft)
                    if written is not None:
                        draft.outcome = written
                        draft.wake()
                        await draft.taken.wait()
        except AgentError as error:
            draft.outcome = error
        except Exception as error:
            draft.outcome = CompactionError(
                log_failure(
                    _logger, "Preparing a summary failed inside the agent", error
                )
            )
        finally:
            if not draft.is_done:
                draft.outcome = "not needed"
            draft.wake()
            # If the session is closing, the append would be cancelled without the
            # shield. It takes little time.
            with anyio.CancelScope(shield=True), suppress(AgentError):
                if (
                    calls is not None
                    and calls.usage is not None
                    and not draft.taken.is_set()
                ):
                    await self._log.append(SummaryDropped(calls.usage))
            if draft is self._draft and draft.is_idle and draft.result is None:
                self._draft = None  # if a summary failed in a pause, try again when a compaction is due
        if draft.failure is not None:
            _logger.warning("no summary was prepared: %s", draft.failure)

    def _note_read(self, draft: SummaryDraft) -> None:
        """Record that the summary's request read the conversation from the provider's
        cache. Reading extends the time that the provider keeps the conversation.
        """
        order = draft.order
        calls = draft.calls
        if (
            order is None
            or order.writer is not None
            or calls is None
            or calls.usage is None
        ):
            return
        is_same = order.revision == self._log.context.revision
        if is_same and calls.usage.cache_read_tokens > 0 and draft.asked_at is not None:
            self._cache.answered(order.model.name, draft.asked_at)


def _steps(order: Order) -> tuple[str, ...]:
    """Return the strategies that write a summary in the background."""
    if order.policy.idle and order.policy.native_first:
        # A summary would lose the reasoning of the kept messages.
        return (order.policy.strategy,)
    return tuple(dict.fromkeys((order.policy.strategy, "summary")))
