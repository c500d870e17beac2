"""Automatic compaction: when it is due, and whether the user waits for it.

A summary is prepared in the background while there is room, and put in its place at the threshold or between two turns,
so that nobody waits for it. Only a context that cannot be sent otherwise makes the turn wait.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from acp_agent.compaction.budget import TokenBudget
from acp_agent.compaction.triggers import OUT_OF_ROOM, Pressure, pressure
from acp_agent.config.settings import CompactionSettings
from acp_agent.conversation.events import CompactionTrigger
from acp_agent.errors import (
    AgentError,
    CompactionError,
    CompactionVetoedError,
    ContextOverflowError,
    ModelError,
    OverflowLimit,
    RecipeError,
)
from acp_agent.session.breaker import Breaker
from acp_agent.session.chances import Chances
from acp_agent.session.compacting import Compactor, Pending
from acp_agent.session.models import ActiveModel
from acp_agent.session.ordering import Order
from acp_agent.session.orders import BY_HAND, Orders, Wanted
from acp_agent.session.preparing import Preparation
from acp_agent.session.putting_off import PutOff, Waiting

if TYPE_CHECKING:
    from acp_agent.session.host import SessionHost

_MUST = ("request_size", "full")
_DUE = ("threshold", *_MUST)
_PREPARED = ("summary", "native")
"""Strategies that take long, since a model writes."""

_log = logging.getLogger(__name__)


class AutoCompaction:
    """Decides for one session.

    :param make: makes what writes in the background, given whom to tell of a failure.
    """

    def __init__(
        self, host: SessionHost, orders: Orders, compactor: Compactor, make: Callable[[_Failed], Preparation]
    ) -> None:
        self._host = host
        self._orders = orders
        self._compactor = compactor
        self._breaker = Breaker(host.tell)
        self.preparation = make(self._failed)
        self._put_off = PutOff(orders, host.tell)
        self._used = 0
        self._chances = Chances()
        self._new_turn = False
        self._last: ActiveModel | None = None
        self._level: Pressure = "none"
        self._no_room: AgentError | None = None

    def begin_turn(self) -> None:
        """New input arrived, so that automatic compaction gets another chance."""
        self._chances.begin_turn()
        self._new_turn = True
        self._put_off.begin_turn()

    def succeeded(self) -> None:
        """A compaction by hand, or one that was prepared, succeeded: models can be asked again."""
        self._put_off.compacted()
        self._breaker.close()

    def undone(self) -> None:
        """A compaction was undone: nothing that was put off before that is done behind it."""
        self._put_off.compacted()

    def put_off(self, error: CompactionVetoedError, order: Order) -> None:
        """A hook did not allow a compaction that was asked for by hand, or wants it later."""
        self._put_off.vetoed(error, order.state.budget.used, order)

    async def before_request(self, active: ActiveModel, budget: TokenBudget, settings: CompactionSettings) -> None:
        """Compact before a model call where that is due.

        :param budget: the model's, filled with the request.
        :param settings: what the user wants. What cannot be sent otherwise is compacted all the same.
        :raises ContextOverflowError: the request is certainly too large for the model, and could not be made short.
        """
        await self.preparation.drop_if_stale()
        if (waiting := self._put_off.due(budget.used)) is not None:
            await self._do_put_off(waiting, active)
            budget = await self._host.requests.filled(active)
        self._no_room, self._used = None, budget.used
        opened, self._new_turn = self._new_turn, False
        last, self._last = self._last, active
        level = self._level = await self._pressure(active, budget, settings)
        waits = level in _MUST or (
            level == "threshold" and (settings.prepare is None or budget.utilisation >= OUT_OF_ROOM)
        )
        if await self._use_prepared(level, active, last, opened=opened, waits=waits):
            # What came since may be too much for all that, and the model one with a smaller window.
            level = self._level = await self._pressure(active, await self._host.requests.filled(active), settings)
            if level not in _MUST:
                return
        if level == "prepare" and not self._put_off.holds(budget.used):
            self._prepare(active, budget)
        if level not in _DUE:
            self._chances.tried(compacted=False)
        elif not self._chances.are_gone(self._host.context, budget) and (
            level in _MUST or not self._put_off.holds(budget.used)
        ):
            if waits:
                await self._compact(await self._waited_for(level, active, last))
            else:
                await self._without_waiting(active, budget)
        if level == "full" and self._no_room is not None:
            await self._end_unless_it_may_fit(active, self._no_room)

    async def make_room(self, active: ActiveModel, limit: OverflowLimit | None, window: int | None = None) -> None:
        """Compact since a provider refused the request, or cut an answer off for want of room.

        :param limit: what the provider said there was too much of; None where it took the request.
        :param window: tokens, by our count, that the conversation has to fit into; None for the model's window.
        :raises AgentError: it came to nothing; the context is as it was.
        """
        wanted = Wanted("overflow", must_fit=True, refused=limit, window=window)
        try:
            order = await self._orders.automatic(wanted, active)
        except RecipeError as error:
            why = f"The conversation does not fit the model's context window, and cannot be compacted. {error}"
            raise CompactionError(why) from error
        # A summary takes the place of words; what is left of the images may still be too many.
        pending = self._pending if limit in (None, "tokens") else None
        order = None if order is None else self._breaker.limited(order)
        swap = None if order is None else await self._compactor.compact(order, pending, self._spent)
        if order is None or swap is None:
            raise CompactionError(
                "The conversation does not fit the model's context window, and there is nothing in it that could be "
                "summarised. Start a new session, or choose a model with a larger window."
            )
        self._chances.tried(compacted=True)
        self._put_off.compacted()
        await self._breaker.compacted(order, swap)
        if pending is not None and swap.tokens_after > order.state.budget.window * order.policy.target:
            # It was prepared for less than what was refused, and leaves too much behind it.
            await self._compact(await self._order(wanted, active))

    async def on_request(self, active: ActiveModel, instructions: str = "") -> bool | None:
        """Compact since a hook asked for it: somebody wants it, however often it has failed. A failure is shown, and
        the turn goes on.

        :param instructions: what the hook wants kept in mind.
        :returns: see `_compact`.
        """
        if instructions:  # of which what is being prepared knows nothing
            await self.preparation.drop()
        return await self._compact(await self._order(Wanted("hook", instructions=instructions), active), asked_for=True)

    async def end_turn(self) -> None:
        """Between two turns: do what hooks have put off until then, or put a prepared summary in its place."""
        await self.preparation.drop_if_stale()
        if not await self.do_put_off() and self.preparation.ready and self._level != "none":
            await self._splice()

    async def do_put_off(self) -> bool:
        """Do what hooks have put off until the turn ends.

        :returns: whether there was anything.
        """
        waiting = self._put_off.due_at_end()
        if waiting is not None:
            await self._do_put_off(waiting, self._last)
        return waiting is not None

    # --- when ---

    async def _pressure(self, active: ActiveModel, budget: TokenBudget, settings: CompactionSettings) -> Pressure:
        messages = self._host.context.messages
        limits = await self._host.requests.limits(active, messages)
        level = pressure(budget, messages, limits, threshold=settings.threshold, prepare=settings.prepare)
        if level == "full" or (settings.auto and (level == "request_size" or not self._host.context.restored)):
            return level
        return "none"

    # --- the ways to compact ---

    async def _do_put_off(self, waiting: Waiting, active: ActiveModel | None) -> None:
        """Do what has waited.

        :param active: the model of the last request; None before the first.
        """
        if waiting.is_its_own:
            await self.preparation.drop()
        order = await self._put_off.order(waiting, active)
        await self._compact(order, asked_for=waiting.asked_for, put_off=waiting.asked_for)

    async def _use_prepared(
        self, level: Pressure, active: ActiveModel, last: ActiveModel | None, *, opened: bool, waits: bool
    ) -> bool:
        """Splice what is ready, at the threshold or where a turn opens; wait for what is not, where it must be.

        :returns: whether there was something, so that the context is another now.
        """
        if self.preparation.ready and level != "none" and (opened or level in _DUE):
            await self._splice()
            return True
        if not self.preparation.running or not waits:
            return False
        return bool(await self._compact(await self._waited_for(level, active, last)))

    async def _waited_for(self, level: Pressure, active: ActiveModel, last: ActiveModel | None) -> Order | None:
        wanted = Wanted(_why(level, last, active), must_fit=level == "full")
        return await self._order(wanted, active, last)

    def _prepare(self, active: ActiveModel, budget: TokenBudget) -> None:
        """Begin to write a summary of the context as it is, unless leaving old results out will do."""
        if self.preparation.running or self.preparation.ready or self._breaker.is_open:
            return
        if not self._chances.has_grown(self._host.context, budget, "prepare"):
            return
        context = self._host.context

        async def make() -> Order | None:
            order = await self._order(Wanted("threshold", context), active)
            if order is None or order.policy.strategy not in _PREPARED:
                return None
            return None if await self._compactor.can_mask(order) else order.for_later()

        self.preparation.begin(make)

    async def _without_waiting(self, active: ActiveModel, budget: TokenBudget) -> None:
        """At the threshold: what takes no time, now; a summary, as soon as it is written."""
        if self.preparation.running or not self._chances.has_grown(self._host.context, budget, "threshold"):
            return
        order = await self._order(Wanted("threshold"), active)
        if order is None:
            return
        if order.policy.strategy not in _PREPARED:
            await self._compact(order)
        elif not await self._compact(replace(order, without_model=True)) and not self._breaker.is_open:

            async def make() -> Order | None:
                return order.for_later()

            self.preparation.begin(make)

    async def _splice(self) -> None:
        prepared = self.preparation.take()
        if prepared is None:
            return
        try:
            await self._compactor.splice(prepared, prepared.order.trigger)
            self._chances.tried(compacted=True)
            self.succeeded()
        except AgentError as error:
            await self._failed(error)

    async def _failed(self, error: AgentError, order: Order | None = None) -> None:
        """A compaction came to nothing. A veto is no failure.

        :param order: what was to be done; None for a summary in the background.
        """
        if isinstance(error, CompactionVetoedError):
            used = self._used if order is None or order.trigger not in BY_HAND else order.state.budget.used
            self._put_off.vetoed(error, used, order)
        else:
            await self._breaker.failed(error)

    @property
    def _pending(self) -> Pending | None:
        """What is written already, or soon will be, for whoever has to wait anyway."""
        preparation = self.preparation
        return preparation.result if preparation.running or preparation.ready else None

    def _spent(self) -> int:
        return self.preparation.requests

    async def _compact(self, order: Order | None, *, asked_for: bool = False, put_off: bool = False) -> bool | None:
        """Compact now; a failure is shown, and the turn goes on.

        :param asked_for: whether somebody wants it, so that a model is asked in any case.
        :param put_off: whether they were told that it is done later.
        :returns: whether the context has changed; None where there was nothing to compact.
        """
        self._no_room = None
        if order is None:
            return False
        if not asked_for:
            order = self._breaker.limited(order)
        try:
            swap = await self._compactor.compact(order, self._pending, self._spent)
        except AgentError as error:
            # The user has seen it; the turn goes on with what fits, and does not try again before there is new input.
            self._chances.failed(self._host.context.head)
            if order.policy.must_fit and isinstance(error, CompactionError | ModelError):
                self._no_room = error
            await self._failed(error, order)
            if put_off:
                await self._put_off.failed(error)
            return False
        if swap is None and order.policy.must_fit:
            self._no_room = CompactionError("There is nothing in it that could give way.")
        self._chances.tried(compacted=swap is not None)
        if swap is not None:
            self._put_off.compacted()
            await self._breaker.compacted(order, swap)
        return None if swap is None else True

    async def _end_unless_it_may_fit(self, active: ActiveModel, reason: AgentError) -> None:
        """End the turn where not even facts and tail had room: what a provider must refuse need not be sent.

        :raises ContextOverflowError: the request is certainly too large.
        """
        used = await self._host.requests.too_large(active)
        if used is not None:
            why = reason.reason if isinstance(reason, CompactionError) else str(reason)
            raise ContextOverflowError(
                f"The request (about {used:,} tokens) does not fit the model's context window "
                f"({active.budget.window:,}), so it was not sent. Send less at once, choose a model with a larger "
                f"window, or start a new session. It could not be made short either: {why}"
            ) from reason

    async def _order(self, wanted: Wanted, active: ActiveModel, last: ActiveModel | None = None) -> Order | None:
        try:
            return await self._orders.automatic(wanted, active, last)
        except RecipeError as error:
            if self._chances.failed(self._host.context.head):
                await self._host.tell(f"The context is nearly full and cannot be compacted by itself. {error}")
            return None


def _why(level: Pressure, last: ActiveModel | None, active: ActiveModel) -> CompactionTrigger:
    if level == "request_size":
        return "request_size"
    if level == "full" and last is None:
        return "resume"
    return "model_switch" if level == "full" and last is not None and last.name != active.name else "threshold"


_Failed = Callable[[AgentError], Awaitable[None]]
