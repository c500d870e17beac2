"""`SessionCompaction`: everything about one session's compactions, by hand, by itself and undone.

Loaded with the session's first prompt, and not with the session: what makes a summary is a room of its own.
"""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING

from acp_agent.compaction.budget import MARGIN_SHARE, MIN_OUTPUT
from acp_agent.compaction.triggers import SURE_SHARE
from acp_agent.conversation.context import Context
from acp_agent.conversation.events import ContextRestored
from acp_agent.errors import CompactionError, ContextOverflowError, OverflowLimit, RecipeError
from acp_agent.hooks.events import RequestCompaction, TurnEnd
from acp_agent.session.automatic import AutoCompaction
from acp_agent.session.commands import RecipeRun, bindings
from acp_agent.session.compacting import Compactor, Order, Pending
from acp_agent.session.models import ActiveModel
from acp_agent.session.orders import Orders, asks_for_the_same, same_writer, will_do
from acp_agent.session.preparing import Preparation
from acp_agent.session.services import Services
from acp_agent.session.undoing import undo

if TYPE_CHECKING:
    from acp_agent.session.host import SessionHost

DOUBT = 4 / 3
"""What our count may have to be multiplied by."""


class SessionCompaction:
    """Compacts one session.

    :ivar compactor: does it.
    :ivar orders: makes the orders for it.
    :ivar automatic: decides when it is done without being asked.
    """

    def __init__(self, host: SessionHost, services: Services) -> None:
        self._host = host
        self._services = services
        self.compactor = Compactor(
            host.session_id,
            host.log,
            services.compaction(),
            services.hooks,
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
        swap = await self.compactor.compact(order, pending, lambda: self.preparation.requests if pending else 0)
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

    async def after_recipe(self, run: RecipeRun, response: str) -> None:
        """Ask the hooks of a recipe whose turn is about to end, and do what they want.

        :param response: the visible text of its last answer.
        """
        event = TurnEnd(self._host.session_id, self.context.cwd, 1, response)
        actions = await self._services.hooks.dispatch(event, bindings(run.recipe))
        if any(isinstance(action, RequestCompaction) for action in actions):
            await self.automatic.on_request(await self._active())

    async def before_request(self, active: ActiveModel) -> None:
        """Compact before a model call where that is due."""
        settings = self._host.settings.compaction_for(active.name)
        await self.automatic.before_request(active, await self._host.filled(active), settings)

    async def make_room(
        self, asked: ActiveModel | None, limit: OverflowLimit | None, refusal: ContextOverflowError | None
    ) -> None:
        """Compact or ask for less, since the provider refused the last request or its answer ended for want of room.

        :param asked: the model of that request.
        :param limit: what the provider said there was too much of; None where it took the request.
        :param refusal: what it said, where it refused the request or broke an answer off.
        :raises AgentError: it came to nothing; the context is as it was.
        """
        if limit == "tokens" and asked is not None:
            await self._fit(asked, refusal)
        else:
            await self.automatic.make_room(await self._active(), limit)

    async def _fit(self, asked: ActiveModel, refusal: ContextOverflowError | None) -> None:
        """Learn what a refusal says of the window, or every turn would have to be refused first; then have the next
        request fit it.

        :raises AgentError: see `make_room`.
        """
        models, name = self._host.models, asked.name
        used = (await self._host.filled(asked)).used
        answer = asked.budget.output(used, asked.max_output_tokens)
        stated = refusal.maximum if refusal is not None else None
        broke_off = refusal is None or refusal.partial
        if refusal is not None and stated is not None:
            models.learn_stated(name, stated)
            # Tokens of the prompt: as the provider has counted them, or as many as they may be.
            prompt = refusal.prompt or math.ceil(used * DOUBT)
            room = stated - int(stated * MARGIN_SHARE) - prompt
            least = min(MIN_OUTPUT, stated // 4)
            if not broke_off and (refusal.prompt or used + answer > stated) and least <= room < answer:
                # The prompt fits; with the longest answer beside it, it does not.
                models.ask_for_less(name, room)
                return
            # What will be left of the conversation may be more than we count, too.
            models.ask_for_less(name, max(1, stated // 4))
        # What was refused is more than fits, by our count; unless it was so together with the answer's limit alone.
        fits = int(used * SURE_SHARE)
        if stated is None or used + answer <= stated:
            models.narrow(name, fits)
        try:
            await self.automatic.make_room(await self._active(), "tokens")
        except CompactionError as error:
            if broke_off or stated is not None or answer <= MIN_OUTPUT or isinstance(error.__cause__, RecipeError):
                raise
            # There is nothing to make short: it may be the answer that there was no room for.
            models.narrow(name, None)
            models.ask_for_less(name, MIN_OUTPUT, later=max(MIN_OUTPUT, answer // 2))
            return
        if refusal is None:
            # What filled the window fits in it.
            models.suspect(name, used)
        elif stated is None and not broke_off:
            models.suspect(name, fits)
        # Where an error broke an answer off, nobody knows what that took.

    async def undo(self) -> ContextRestored:
        """Undo the newest compaction that is in force.

        :raises CompactionError: there is none.
        """
        host = self._host
        restored = await undo(self._services.store, host.session_id, host.log, host.prefix_tokens())
        # Only now: where nothing was undone, what is prepared still fits.
        await self.preparation.drop()
        await host.show_usage()
        return restored

    @property
    def context(self) -> Context:
        """The context after everything appended so far."""
        return self._host.context

    async def _active(self) -> ActiveModel:
        return await self._host.models.active(self.context.model)
