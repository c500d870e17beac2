"""What a session learns of a model's window where the provider refuses a request, and how it then makes room."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from acp_agent.compaction.budget import MIN_OUTPUT, SURE_SHARE
from acp_agent.errors import (
    CompactionError,
    CompactionVetoedError,
    ContextOverflowError,
    NoRoomError,
    OverflowLimit,
    RecipeError,
)
from acp_agent.session.compact.order import WITHOUT_MODEL
from acp_agent.session.learned import AFTER_REFUSAL, own_window, shorter_answer
from acp_agent.session.models import ActiveModel

if TYPE_CHECKING:
    from acp_agent.session.compact.control import SessionCompaction
    from acp_agent.session.host import SessionHost


class Refusals:
    """Those of one session."""

    def __init__(self, host: SessionHost, compaction: SessionCompaction) -> None:
        self._host = host
        self._compaction = compaction
        self._asked_less = -1
        self._nothing_short: CompactionError | None = None

    async def learn(self, asked: ActiveModel, refusal: ContextOverflowError) -> bool:
        """Learn what a refusal says of the window, or every turn would have to be refused first.

        :param asked: the model of the refused request.
        :returns: whether the same prompt fits with a shorter answer, which the next request asks for. Once for each
            prompt: what is refused again has to become short.
        """
        if refusal.limit != "tokens":
            return False
        host = self._host
        learned, less = host.models.learned(asked.name), None
        if refusal.maximum is not None:
            learned = learned.states(refusal.maximum)
            if not refusal.partial and self._asked_less != host.context.head:
                rate = learned.measured_rate
                used = (await host.requests.filled(replace(asked, rate=rate))).used
                less = shorter_answer(refusal.maximum, refusal.prompt, used, self._answer(asked), rate)
        if less is not None:
            self._nothing_short, self._asked_less = None, host.context.head
            learned = learned.asks_for(less, fits=True)
        if refusal.prompt is not None:
            learned = learned.counts(refusal.prompt, host.requests.estimate())
        host.models.learn(asked.name, learned)
        return less is not None

    async def make_room(
        self, asked: ActiveModel | None, limit: OverflowLimit | None, refusal: ContextOverflowError | None
    ) -> bool:
        """Compact, since the provider refused the last request or its answer ended for want of room.

        :param asked: the model of that request.
        :param limit: what the provider said there was too much of; None where it took the request.
        :param refusal: what it said, where it refused the request or broke an answer off; see `learn`.
        :returns: False where nothing could be made short, and a shorter answer is asked for instead.
        :raises AgentError: it came to nothing; the context is as it was.
        """
        host = self._host
        active = await host.models.active(host.model)
        if limit != "tokens" or asked is None:
            await self._compact(active, limit)
        elif refusal is not None and refusal.maximum is not None:
            learned = host.models.learned(asked.name)
            host.models.learn(asked.name, learned.asks_for(max(1, refusal.maximum // AFTER_REFUSAL)))
            active = await host.models.active(host.model)
            used = host.requests.used(active)
            # It may be less by the provider's count than by the one that our doubt makes of it.
            certain = own_window(refusal.maximum, refusal.prompt or used, used)
            await self._fit(active, own_window(refusal.maximum, refusal.prompt, used, active.rate), certain)
        else:
            return await self._make_unknown_room(active, asked, refusal)
        return True

    async def _make_unknown_room(
        self, active: ActiveModel, asked: ActiveModel, refusal: ContextOverflowError | None
    ) -> bool:
        """Make room where the provider did not say how much it takes."""
        models, requests, name, answer = self._host.models, self._host.requests, asked.name, self._answer(asked)
        if self._nothing_short is not None and self._asked_less == self._host.context.head:
            raise CompactionError(f"A shorter answer was asked for, and it was refused as well. {self._nothing_short}")
        known = models.learned(name)
        # As it is counted from now on, and not less than the provider says: a window that is taken for too small stays
        # so, since nothing larger is sent.
        asked = replace(asked, rate=known.measured_rate)
        counted = requests.used(asked)
        used = max(counted, (await requests.filled(asked)).used)
        broke_off = refusal is None or refusal.partial
        if refusal is None:
            models.learn(name, known.suspects(used))  # what filled the window fits in it
        elif not broke_off:
            models.learn(name, known.suspects(int(used * SURE_SHARE)))
        # Where an error broke an answer off, nobody knows what that took.
        try:
            if active.name == name:
                active = replace(active, rate=asked.rate)
            most = int(counted * SURE_SHARE)  # by our count alone, as the order counts
            await self._fit(active, known.likely(most), most)
        except BaseException as error:
            models.learn(name, known)
            if not isinstance(error, CompactionError) or isinstance(error, CompactionVetoedError):
                raise
            if isinstance(error.__cause__, RecipeError) or broke_off or answer <= MIN_OUTPUT:
                raise
            # There is nothing to make short: it may be the answer that there was no room for.
            self._nothing_short, self._asked_less = error, self._host.context.head
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
            await self._compact(active, "tokens", window)
        except NoRoomError as error:
            if most <= window or error.least > replace(active.budget, window=most).most:
                raise
            await self._compact(active, "tokens", most)

    async def _compact(self, active: ActiveModel, limit: OverflowLimit | None, window: int | None = None) -> None:
        """Compact since a provider refused the request, or cut an answer off for want of room.

        :param limit: what the provider said there was too much of; None where it took the request.
        :param window: tokens, by our count, that the conversation has to fit into; None for the model's window.
        :raises AgentError: it came to nothing; the context is as it was.
        """
        compaction = self._compaction
        try:
            order = await compaction.orders.make("overflow", active, must_fit=True, refused=limit, window=window)
        except RecipeError as error:
            why = f"The conversation does not fit the model's context window, and cannot be compacted. {error}"
            raise CompactionError(why) from error
        wait = self._host.compaction_settings(active.name).wait
        pending = compaction.background.result if wait or compaction.background.state == "ready" else None
        if pending is None:
            await compaction.background.drop()
            order = order and order.with_steps(*WITHOUT_MODEL)
        if order is None or await compaction.compactor.compact(order, pending) is None:
            raise CompactionError(
                "The conversation does not fit the model's context window, and there is nothing in it that could give "
                "way. Start a new session, or choose a model with a larger window."
            )

    def _answer(self, asked: ActiveModel) -> int:
        """Return the tokens that the last request asked for."""
        return asked.budget.output(self._host.requests.used(asked), asked.max_output_tokens)
