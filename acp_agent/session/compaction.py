"""`SessionCompaction`: everything about one session's compactions, by hand, by itself and undone.

Loaded with the session's first prompt, and not with the session: what makes a summary is a room of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import anyio

from acp_agent.compaction.budget import MIN_OUTPUT
from acp_agent.compaction.calls import ModelCalls
from acp_agent.compaction.triggers import SURE_SHARE
from acp_agent.conversation.context import Context
from acp_agent.conversation.events import ContextRestored, ContextSwapped, Event
from acp_agent.conversation.messages import Message
from acp_agent.errors import (
    CompactionError,
    CompactionVetoedError,
    ContextOverflowError,
    NoRoomError,
    OverflowLimit,
    RecipeError,
)
from acp_agent.session.automatic import AutoCompaction
from acp_agent.session.commands import RecipeRun
from acp_agent.session.compacting import Compactor, Pending
from acp_agent.session.learned import AFTER_REFUSAL, own_window, shorter_answer
from acp_agent.session.models import ActiveModel
from acp_agent.session.ordering import Order
from acp_agent.session.orders import Orders, Wanted, asks_for_the_same, same_writer, will_do
from acp_agent.session.preparing import Preparation
from acp_agent.session.receipts import finished
from acp_agent.session.replacing import replacement
from acp_agent.session.services import Services
from acp_agent.session.undoing import undo

if TYPE_CHECKING:
    from acp_agent.session.host import SessionHost


class SessionCompaction:
    """Compacts one session.

    :ivar compactor: does it.
    :ivar orders: makes the orders for it.
    :ivar automatic: decides when it is done without being asked.
    """

    def __init__(self, host: SessionHost, services: Services) -> None:
        self._host = host
        self._services = services
        self._asked_less = -1
        self._told: set[str] = set()
        self._nothing_short: CompactionError | None = None
        self.compactor = Compactor(
            host.log,
            services.compaction(),
            host.hooks,
            host.show,
            host.show_usage,
            host.read_instructions,
        )
        self.orders = Orders(host)
        self.automatic = AutoCompaction(
            host, self.orders, self.compactor, lambda failed: Preparation(host.log, self.compactor, failed)
        )

    @property
    def preparation(self) -> Preparation:
        """What is written in the background."""
        return self.automatic.preparation

    # --- what the user, a hook and a turn ask for ---

    async def compact(self, run: RecipeRun) -> bool:
        """Compact because the user asked.

        :returns: False where there was nothing to compact.
        :raises AgentError: it failed; the context is as it was.
        """
        order = await self.orders.by_hand(run)
        pending = await self._underway(order)
        try:
            swap = await self.compactor.compact(order, pending, lambda: self.preparation.requests if pending else 0)
        except CompactionVetoedError as error:
            self.automatic.put_off(error, order)
            raise
        if swap is not None:
            self.automatic.succeeded()
        return swap is not None

    async def _underway(self, order: Order) -> Pending | None:
        """The summary that is written in the background, or is ready, where it is what the user asks for; another one
        is given up."""
        preparation = self.preparation
        await preparation.drop_if_stale()
        other = await preparation.ordered()
        if other is None or not asks_for_the_same(order, other) or not (preparation.ready or same_writer(order, other)):
            await preparation.drop()
            return None
        steps = self.compactor.service.ladder(order.policy)
        return partial(preparation.result, good=lambda prepared: will_do(order, prepared, self.context, steps))

    async def on_request(self, instructions: str = "") -> None:
        """Compact since a hook asked for it.

        :param instructions: what it wants kept in mind.
        """
        if await self.automatic.on_request(await self._active(), instructions) is None:
            await self._tell_once("A hook wants the conversation compacted; there is nothing to compact yet.")

    async def replace(self, messages: Sequence[Message]) -> ContextSwapped:
        """Put a hook's messages in the place of the conversation.

        :raises HookError: they cannot stand there.
        """
        host, swaps = self._host, list[ContextSwapped]()
        used = host.requests.used(await self._active())

        def build(context: Context) -> tuple[Event, ...]:
            events = replacement(context, messages, used, host.requests.prefix_tokens())
            swaps.extend(event for event in events if isinstance(event, ContextSwapped))
            return events

        await self.preparation.drop()
        with anyio.CancelScope(shield=True):
            await host.log.append_built(build)
            await host.show(finished(swaps[-1]))
            await host.show_usage()
        return swaps[-1]

    async def summary(self, instructions: str = "") -> str | None:
        """A summary of the conversation, which stays as it is.

        :param instructions: what whoever wants it wants kept in mind.
        :returns: None where there is nothing to summarise, or no recipe that does it.
        :raises AgentError: none was written.
        """
        wanted = Wanted("hook", instructions=instructions)
        order = await self.orders.automatic(wanted, await self._active())
        if order is None:
            return None
        # No compaction is about to happen that hooks could be asked about.
        prepared = await self.compactor.prepare(replace(order, asked=True), ModelCalls(order.call))
        if prepared is not None:
            return prepared.result.summary
        await self._tell_once("A hook wants a summary of the conversation; there is nothing to summarise yet.")
        return None

    async def _tell_once(self, text: str) -> None:
        if text not in self._told:
            self._told.add(text)
            await self._host.tell(text)

    async def before_request(self, active: ActiveModel) -> None:
        """Compact before a model call where that is due."""
        settings = self._host.compaction_settings(active.name)
        await self.automatic.before_request(active, await self._host.requests.filled(active), settings)

    async def heed(self, asked: ActiveModel, refusal: ContextOverflowError) -> bool:
        """Learn what a refusal says of the window, or every turn would have to be refused first.

        :param asked: the model of the refused request.
        :returns: whether the same prompt fits with a shorter answer, which the next request asks for. Once for each
            prompt: what is refused again has to become short.
        """
        if refusal.limit != "tokens":
            return False
        learned, less = self._host.models.learned(asked.name), None
        if refusal.maximum is not None:
            learned = learned.states(refusal.maximum)
            less = await self._shorter_answer(asked, refusal, refusal.maximum, learned.measured_rate)
        if less is not None:
            self._nothing_short, self._asked_less = None, self.context.head
            learned = learned.asks_for(less, fits=True)
        if refusal.prompt is not None:
            learned = learned.counts(refusal.prompt, self._host.requests.estimate())
        self._host.models.learn(asked.name, learned)
        return less is not None

    async def _shorter_answer(
        self, asked: ActiveModel, refusal: ContextOverflowError, stated: int, rate: float
    ) -> int | None:
        """See `shorter_answer`."""
        if refusal.partial or self._asked_less == self.context.head:
            return None
        used = (await self._host.requests.filled(replace(asked, rate=rate))).used
        return shorter_answer(stated, refusal.prompt, used, self._answer(asked), rate)

    async def make_room(
        self, asked: ActiveModel | None, limit: OverflowLimit | None, refusal: ContextOverflowError | None
    ) -> bool:
        """Compact, since the provider refused the last request or its answer ended for want of room.

        :param asked: the model of that request.
        :param limit: what the provider said there was too much of; None where it took the request.
        :param refusal: what it said, where it refused the request or broke an answer off; `heed` has learned from it.
        :returns: False where nothing could be made short, and a shorter answer is asked for instead.
        :raises AgentError: it came to nothing; the context is as it was.
        """
        if limit != "tokens" or asked is None:
            await self.automatic.make_room(await self._active(), limit)
        elif refusal is not None and refusal.maximum is not None:
            learned = self._host.models.learned(asked.name)
            self._host.models.learn(asked.name, learned.asks_for(max(1, refusal.maximum // AFTER_REFUSAL)))
            active = await self._active()
            used = self._host.requests.used(active)
            # It may be less by the provider's count than by the one that our doubt makes of it.
            certain = own_window(refusal.maximum, refusal.prompt or used, used)
            await self._fit(active, own_window(refusal.maximum, refusal.prompt, used, active.rate), certain)
        else:
            return await self._make_unknown_room(asked, refusal)
        return True

    async def _make_unknown_room(self, asked: ActiveModel, refusal: ContextOverflowError | None) -> bool:
        """The same where the provider did not say how much it takes."""
        models, name, answer = self._host.models, asked.name, self._answer(asked)
        if self._nothing_short is not None and self._asked_less == self.context.head:
            raise CompactionError(f"A shorter answer was asked for, and it was refused as well. {self._nothing_short}")
        active, known = await self._active(), models.learned(name)
        requests = self._host.requests
        # As it is counted from now on, and not less than the provider says: a window that is taken for too small stays
        # so, since nothing larger is sent.
        asked = replace(asked, rate=known.measured_rate)
        counted = requests.used(asked)
        used = max(counted, (await requests.filled(asked)).used)
        # What was refused is more than fits; unless it was so together with the answer's limit alone.
        fits = int(used * SURE_SHARE)
        broke_off = refusal is None or refusal.partial
        if refusal is None:
            # What filled the window fits in it.
            models.learn(name, known.suspects(used))
        elif not broke_off:
            models.learn(name, known.suspects(fits))
        # Where an error broke an answer off, nobody knows what that took.
        try:
            if active.name == name:
                active = replace(active, rate=asked.rate)
            # By our count alone, as the order counts.
            most = int(counted * SURE_SHARE)
            await self._fit(active, known.likely(most), most)
        except BaseException as error:
            models.learn(name, known)
            if not isinstance(error, CompactionError) or isinstance(error, CompactionVetoedError):
                raise
            if isinstance(error.__cause__, RecipeError):
                raise
            if broke_off or answer <= MIN_OUTPUT:
                raise
            # There is nothing to make short: it may be the answer that there was no room for.
            self._nothing_short, self._asked_less = error, self.context.head
            models.learn(name, known.asks_for(MIN_OUTPUT, later=max(MIN_OUTPUT, answer // 2)))
            return False
        return True

    async def _fit(self, active: ActiveModel, window: int, most: int) -> None:
        """Compact into a window that is surely small enough; where what has to stay has no room in it, into the largest
        that may be.

        :param window: tokens by our count, with what it may be wrong by taken off.
        :param most: the same with nothing taken off.
        :raises AgentError: it came to nothing; the context is as it was.
        """
        try:
            await self.automatic.make_room(active, "tokens", window)
        except NoRoomError as error:
            if most <= window or error.least > replace(active.budget, window=most).most:
                raise
            await self.automatic.make_room(active, "tokens", most)

    def _answer(self, asked: ActiveModel) -> int:
        """Tokens that the last request asked for."""
        return asked.budget.output(self._host.requests.used(asked), asked.max_output_tokens)

    async def undo(self) -> ContextRestored:
        """Undo the newest compaction that is in force.

        :raises CompactionError: there is none.
        """
        host = self._host
        restored = await undo(self._services.store, host.session_id, host.log, host.requests.prefix_tokens())
        # Only now: where nothing was undone, what is prepared still fits.
        await self.preparation.drop()
        self.automatic.undone()
        await host.show_usage()
        return restored

    @property
    def context(self) -> Context:
        """The context after everything appended so far."""
        return self._host.context

    async def _active(self) -> ActiveModel:
        return await self._host.models.active(self._host.model)
