"""`SessionCompaction`: one session's compactions, by hand and by itself.

Whatever asks for one, the way is the same: an order is made, `Compactor` carries it out, and the swap is in the log.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from anyio.abc import TaskGroup

from acp_agent.compaction.budget import Pressure, pressure
from acp_agent.compaction.estimate import estimate_messages
from acp_agent.conversation.events import CompactionTrigger
from acp_agent.errors import (
    AgentError,
    CompactionError,
    CompactionVetoedError,
    ContextOverflowError,
    RecipeError,
)
from acp_agent.session.commands import RecipeRun
from acp_agent.session.compact.background import BackgroundSummary
from acp_agent.session.compact.decide import Situation, decide
from acp_agent.session.compact.job import Compactor
from acp_agent.session.compact.order import WITHOUT_MODEL, Order, Orders
from acp_agent.session.models import ActiveModel
from acp_agent.session.services import Services
from acp_agent.session.source import Source

if TYPE_CHECKING:
    from acp_agent.session.host import SessionHost

INDEXED_FROM = 0.5
"""Share of the usable window from which on entries are indexed as they come: a compaction may be near."""

_log = logging.getLogger(__name__)


class SessionCompaction:
    """Compacts one session."""

    def __init__(self, host: SessionHost, services: Services) -> None:
        self._host = host
        self._tasks: TaskGroup | None = None
        self._opens_turn = True  # a prompt came, and no request has been sent since
        self._failed_at = 0  # seq of the log when a compaction came to nothing
        self._vetoed = False  # by a hook, since the newest prompt
        self._model: ActiveModel | None = None  # that of the last request
        self._source = Source(services.store, host.session_id, host.log)
        self.orders = Orders(host, self._source)
        self.compactor = Compactor(
            host.log, services.compaction(), host.hooks, host.show, host.show_usage, host.read_instructions
        )
        self.background = BackgroundSummary(host.log, self.compactor)

    def run_in(self, tasks: TaskGroup) -> None:
        """Do what is done in the background in this task group, which ends with the session."""
        self._tasks = tasks
        self.background.run_in(tasks)

    # --- what the user and hooks ask for ---

    async def compact(self, run: RecipeRun) -> bool:
        """Compact because the user asked; return False where there was nothing to compact.

        :raises AgentError: it failed; the context is as it was.
        """
        order = await self.orders.make("manual", await self._active(), run)
        assert order is not None  # since its recipe is given
        prepared, least = self.background.order, 2 if self.background.state == "ready" else 3  # by any model
        if prepared is not None and prepared.terms[:least] == order.terms[:least]:
            return await self.compactor.compact(order, self.background.result) is not None
        await self.background.drop()
        return await self.compactor.compact(order) is not None

    async def on_request(self, instructions: str = "") -> None:
        """Compact since a hook asked for it; a failure is shown, and the turn goes on."""
        await self.background.drop()
        order = await self._order("hook", await self._active(), instructions=instructions)
        try:
            if order is not None and await self.compactor.compact(order) is None:
                await self.orders.tell_once("A hook wants the conversation compacted; there is nothing to compact yet.")
        except AgentError as error:
            _log.warning("a compaction that a hook asked for failed: %s", error)

    # --- by itself ---

    def begin_turn(self) -> None:
        """Note that a prompt came, so that hooks are asked again, and what came to nothing is tried again."""
        self._opens_turn, self._vetoed = True, False

    async def before_request(self, active: ActiveModel) -> None:
        """Compact before a model call where that is due.

        :raises ContextOverflowError: the request is certainly too large for the model, and could not be made short.
        :raises CompactionVetoedError: it does not fit, and a hook wants no compaction.
        """
        if self.background.state == "none" or (self._opens_turn and self._is_vetoed):
            await self.background.drop()  # of another context, or to ask the hook again
        at = await self._situation(active)
        last, self._model, self._opens_turn = self._model, active, False
        trigger = _trigger(at.level, active, last)
        match decide(at):
            case "prepare":
                await self.background.begin(lambda: self._to_prepare(active))
            case "use":
                failure = await self._use_prepared(active)
                level = (await self._situation(active)).level
                if level == "full" or (failure and level not in ("none", "prepare")):
                    await self._swap(level, _trigger(level, active, last), active, failure)
            case "relieve":
                order = await self._order("threshold", active)
                if order is not None and await self.compactor.would_mask(order):
                    await self._compact(order.with_steps("mask"), active)
                elif order is not None:
                    await self.background.begin(lambda: self._to_prepare(active))
            case "swap":
                await self._swap(at.level, trigger, active, self.background.failure)
            case "wait":
                order = await self._order(trigger, active, must_fit=at.level == "full")
                if order is not None:
                    await self._compact(order, active, wait=True)
            case "nothing":
                if at.level == "full":
                    await self._end_if_too_large(active, "")

    async def end_turn(self) -> None:
        """Put a summary that is ready in its place between two turns."""
        if self._model is not None and self.background.state == "ready":
            between = replace(await self._situation(self._model), opens_turn=True)
            if decide(between) == "use":
                await self._use_prepared(self._model, turn_over=True)

    # --- the steps ---

    async def _situation(self, active: ActiveModel) -> Situation:
        host, context = self._host, self._host.context
        settings, budget = host.compaction_settings(active.name), await host.requests.filled(active)
        if self._tasks is not None and budget.utilisation > INDEXED_FROM:
            self._tasks.start_soon(self._source.keep_up)
        limits = await host.requests.limits(active, context.messages)
        since = max(self._failed_at, *context.swaps[-1:], 0)
        grown = estimate_messages(entry.message for entry in context.entries if entry.seq > since)
        level = pressure(budget, context.messages, limits, threshold=settings.threshold, prepare=settings.prepare)
        return Situation(
            level,
            auto=settings.auto,
            undone=context.restored,
            writes=level == "none" or await self.orders.strategy(active.name) not in WITHOUT_MODEL,
            prepares=settings.prepare is not None,
            wait=settings.wait,
            background=self.background.state,
            opens_turn=self._opens_turn,
            grown=grown / budget.usable,
            vetoed=self._vetoed or self._is_vetoed,
        )

    @property
    def _is_vetoed(self) -> bool:
        """Whether a hook vetoed the summary in the background."""
        return isinstance(self.background.failure, CompactionVetoedError)

    async def _to_prepare(self, active: ActiveModel) -> Order | None:
        """Return the order for a summary in the background; None where masking old results will do."""
        order = await self._order("threshold", active)
        if order is None or await self.compactor.would_mask(order):
            return None
        return order.with_steps(*dict.fromkeys((order.policy.strategy, "summary")))

    async def _use_prepared(self, active: ActiveModel, *, turn_over: bool = False) -> AgentError | None:
        """Put a summary that is ready in its place; return why it was not used."""
        order = self.background.order
        assert order is not None
        try:
            now = await self.orders.now(order, active, turn_over=turn_over)
            await self.compactor.compact(now, lambda _: self.background.result())  # nobody watches it being written
        except AgentError as error:
            await self.background.drop()
            self._failed(error)
            return error
        return None

    async def _swap(
        self, level: Pressure, trigger: CompactionTrigger, active: ActiveModel, failure: AgentError | None
    ) -> None:
        """Mask old results, or swap excerpts in; the receipt says why there is no summary."""
        await self.background.drop()
        order = await self._order(trigger, active, must_fit=level == "full")
        if order is not None:
            note = "" if failure is None else f"No summary: {failure}"
            chosen = order.policy.strategy if order.policy.strategy in WITHOUT_MODEL else "excerpts"
            steps = dict.fromkeys(("mask", chosen, "excerpts"))
            await self._compact(replace(order.with_steps(*steps), note=note), active)

    async def _compact(self, order: Order, active: ActiveModel, *, wait: bool = False) -> bool:
        """Compact; where that fails, the turn goes on if the request may fit.

        :param wait: for what is written in the background.
        """
        pending = self.background.result if wait and self.background.state in ("running", "ready") else None
        reason = ""
        try:
            if await self.compactor.compact(order, pending) is not None:
                return True
        except AgentError as error:
            self._failed(error)
            reason = error.reason if isinstance(error, CompactionError) else str(error)
            if isinstance(error, CompactionVetoedError) and order.policy.must_fit:
                await self._end_if_too_large(active, reason)
                raise
        self._failed_at = self._host.context.head
        if order.policy.must_fit:
            await self._end_if_too_large(active, reason)
        return False

    def _failed(self, error: AgentError) -> None:
        _log.warning("an automatic compaction failed: %s", error)
        self._vetoed = self._vetoed or isinstance(error, CompactionVetoedError)

    async def _end_if_too_large(self, active: ActiveModel, reason: str) -> None:
        """Raise `ContextOverflowError` where the request is certainly too large: it need not be sent to be refused."""
        if (used := await self._host.requests.too_large(active)) is not None:
            why = f" It could not be made short either: {reason}" if reason else ""
            raise ContextOverflowError(
                f"The request (about {used:,} tokens) does not fit the model's context window "
                f"({active.budget.window:,}), so it was not sent. Send less at once, choose a model with a larger "
                f"window, or start a new session.{why}"
            )

    async def _order(
        self, trigger: CompactionTrigger, active: ActiveModel, *, must_fit: bool = False, instructions: str = ""
    ) -> Order | None:
        try:
            return await self.orders.make(trigger, active, must_fit=must_fit, instructions=instructions)
        except RecipeError as error:
            await self.orders.tell_once(f"The context is nearly full and cannot be compacted by itself. {error}")
            return None

    async def _active(self) -> ActiveModel:
        return await self._host.models.active(self._host.model)


def _trigger(level: Pressure, active: ActiveModel, last: ActiveModel | None) -> CompactionTrigger:
    if level != "full":
        return "request_size" if level == "request_size" else "threshold"
    if last is None:
        return "resume"
    return "overflow" if last.name == active.name else "model_switch"
