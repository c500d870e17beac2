"""`PutOff`: compactions that hooks have put off or vetoed, and when they are due again.

One that somebody asked for, the user or a hook, is done when it is due, whatever the context is by then. One that the
agent has begun by itself is done at the turn's end; by tokens, it is only held back until they have come. Knows nothing
of how one is done.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import reduce

from acp_agent.conversation.events import CompactionTrigger
from acp_agent.errors import AgentError, CompactionVetoedError
from acp_agent.frozen import frozen
from acp_agent.session.commands import RecipeRun
from acp_agent.session.interposing import CompactionPutOffError, Said
from acp_agent.session.models import ActiveModel
from acp_agent.session.ordering import Order
from acp_agent.session.orders import BY_HAND, Orders, Wanted

_log = logging.getLogger(__name__)


@frozen
class Waiting:
    """A compaction that waits.

    :ivar run: the recipe that was to do it, with what was asked for; None where nobody asked for anything.
    :ivar until: tokens in the context from which on it is due; None until the turn ends.
    :ivar said: what hooks have added to it, or written for it.
    """

    trigger: CompactionTrigger
    run: RecipeRun | None
    until: int | None
    said: Said

    @property
    def asked_for(self) -> bool:
        """Whether somebody wants it, the user or a hook."""
        return self.trigger in BY_HAND

    @property
    def instructions(self) -> str:
        """What whoever wants it wants kept in mind."""
        return "" if self.run is None else self.run.instructions

    @property
    def is_its_own(self) -> bool:
        """Whether something is wanted of it of which what is being prepared knows nothing."""
        return self.trigger == "manual" or bool(self.instructions or self.said)


class PutOff:
    """What one session's hooks have put off.

    :param tell: tells the user what became of one that is not done.
    """

    def __init__(self, orders: Orders, tell: Callable[[str], Awaitable[None]]) -> None:
        self._orders = orders
        self._tell = tell
        self._asked_for: Waiting | None = None
        self._automatic: Waiting | None = None

    def begin_turn(self) -> None:
        """A turn begins. What was to be done at the end of the last one, which did not come to it, is due now where
        somebody asked for it."""
        if self._automatic is not None and self._automatic.until is None:
            self._automatic = None
        if self._asked_for is not None and self._asked_for.until is None:
            self._asked_for = replace(self._asked_for, until=0)

    def vetoed(self, error: CompactionVetoedError, used: int, order: Order | None = None) -> None:
        """A hook wants no compaction, or none now.

        :param used: tokens in the context.
        :param order: what was to be done; None for a summary in the background.
        """
        _log.info("%s", error)
        trigger: CompactionTrigger = "threshold" if order is None else order.trigger
        waiting = None
        if isinstance(error, CompactionPutOffError):
            until = None if error.tokens is None else used + error.tokens
            waiting = Waiting(trigger, None if order is None else order.run, until, error.said)
        if trigger not in BY_HAND:  # it is asked about again when there is new input
            self._automatic = waiting
        elif waiting is not None:
            self._asked_for = waiting if self._asked_for is None else _sooner(self._asked_for, waiting)

    def holds(self, used: int) -> bool:
        """Whether a compaction that nothing forces and nobody asked for is still put off.

        :param used: tokens in the context.
        """
        waiting = self._automatic
        return waiting is not None and (waiting.until is None or used < waiting.until)

    def due(self, used: int) -> Waiting | None:
        """What is to be done amid a turn, since the tokens that it waited for have come; given once.

        :param used: tokens in the context.
        """
        waiting = self._asked_for
        if waiting is None or waiting.until is None or used < waiting.until:
            return None
        self._asked_for = None
        return waiting

    def due_at_end(self) -> Waiting | None:
        """What is to be done now that a turn ends; given once. One compaction is enough for all that wait for it."""
        ending = [each for each in (self._asked_for, self._automatic) if each is not None and each.until is None]
        self._asked_for = None if self._asked_for in ending else self._asked_for
        self._automatic = None if self._automatic in ending else self._automatic
        return replace(ending[0], said=reduce(Said.then, (each.said for each in ending))) if ending else None

    async def order(self, waiting: Waiting, active: ActiveModel | None) -> Order | None:
        """The order for one that is due, of the conversation as it is now. The hooks have been asked about it, and this
        is when they wanted it; what they said of it then holds.

        :param active: the model of the last request; None before the first.
        :returns: None where it cannot be done; the user was told why.
        """
        order = None
        try:
            if waiting.trigger == "manual" and waiting.run is not None:
                order = await self._orders.by_hand(waiting.run)
            elif active is not None:
                order = await self._orders.automatic(Wanted(waiting.trigger, instructions=waiting.instructions), active)
        except AgentError as error:
            await self.failed(error)
        return None if order is None else waiting.said.applied_to(order)

    async def failed(self, error: AgentError) -> None:
        """Tell whoever was told that it is done later; not where it was put off once more."""
        if not isinstance(error, CompactionPutOffError):
            await self._tell(f"The compaction that a hook put off was not done. {error}")

    def compacted(self) -> None:
        """The context is another one now."""
        self._asked_for = self._automatic = None


def _sooner(first: Waiting, second: Waiting) -> Waiting:
    """One for two that were asked for: as the user wanted it, where one of them did, and when the first of them is due.
    A hook that asks and one that defers at each turn must not put it off for ever."""
    chosen = first if first.trigger == "manual" and second.trigger != "manual" else second
    chosen = replace(chosen, said=first.said.then(second.said))
    if first.until is None or second.until is None:
        return replace(chosen, until=None)
    return replace(chosen, until=min(first.until, second.until))
