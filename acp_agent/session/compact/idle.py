"""`IdleSummaries`: prepares a summary while the user pauses, shortly before the
provider's prompt cache expires.

At that time the summary is cheap, since the provider reads the conversation from its
cache. Once the cache has expired, the next request is cheaper with the summary than
with the whole conversation. A pause is the time between two turns. At most one summary
is requested per pause.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

import anyio
from anyio.abc import TaskGroup

from acp_agent.compaction.saving import Saving, pays, saving_of, summary_cost
from acp_agent.errors import AgentError
from acp_agent.frozen import frozen
from acp_agent.llm.caches import CacheLife
from acp_agent.llm.rules import ReasoningRules
from acp_agent.session.compact.background import BackgroundSummary
from acp_agent.session.compact.clock import Clock
from acp_agent.session.compact.order import WITHOUT_MODEL, Order, Orders
from acp_agent.session.compact.prompt_cache import PromptCache
from acp_agent.session.models.models import ActiveModel
from acp_agent.session.models.requests import Requests

LEAST_TOKENS = 60_000
LEAST_SHARE = 0.5
"""Share of the usable window. A context must be larger than this, or than
`LEAST_TOKENS` if that is less.
"""
MARGIN_SHARE = 0.1
MOST_MARGIN = 60
"""How many seconds before the cache expires the summary is requested; at most a tenth
of the cache's lifetime.
"""
SHORTEST_PAUSE = 5
"""Seconds after which the time until the next prompt counts as a pause. All providers
keep a cache for longer.
"""
LONGEST_PAUSE = 3_600
"""Seconds after which the user is not expected to return. No summary is prepared if the
cache is kept longer.
"""

_log = logging.getLogger(__name__)


@frozen
class Plan:
    """The plan for a pause.

    :ivar at: when a summary is requested, by the session's clock; None for never.
    :ivar until: when the cache expires.
    :ivar why: the reason, as text for the user.
    """

    at: float | None = None
    until: float = 0.0
    why: str = ""


@dataclass(eq=False, slots=True)
class IdleSummaries:
    """Prepares the summaries of one session's pauses."""

    _requests: Requests
    _orders: Orders
    _background: BackgroundSummary
    _cache: PromptCache
    _clock: Clock
    _tasks: TaskGroup
    _began: float | None = None  # when the current pause began; None in a turn
    _is_waiting: bool = False  # whether a task waits for the pause to be long enough
    _pause: anyio.CancelScope | None = None
    # Time of the last model request at the latest attempt to prepare a summary.
    _tried: float | None = None

    def begin_pause(self) -> None:
        """Record that a turn is over, and end the previous pause if it has not ended."""
        self.end_pause()
        self._began = self._clock.now()
        if not self._is_waiting:
            self._is_waiting = True
            self._tasks.start_soon(self._wait)

    def end_pause(self) -> None:
        """Record that a prompt has arrived, and begin no summary. A summary that is
        being written continues.
        """
        self._began = None
        if self._pause is not None:
            self._pause.cancel()
            self._pause = None

    async def plan(self, active: ActiveModel) -> Plan:
        """Return the plan for a pause that begins now."""
        life = self._requests.cache_life(active)
        read_at = self._cache.last_read(active.name)
        least = least_tokens(active)
        if why := self._never(active, life):
            return Plan(why=why)
        if self._requests.used(active) <= least:
            return Plan(why=f"above {least:,} tokens")
        if why := _obstacle(
            await self._orders.strategy(active), self._requests.rules(active)
        ):
            return Plan(why=why)
        if self._requests.context.restored:
            return Plan(why="no, because the newest compaction was undone")
        if self._background.state in ("running", "unavailable"):
            return Plan(
                why="no, because a summary of this context is being written or has failed"
            )
        if read_at is None or life is None:
            return Plan(why="after the next answer")
        if read_at == self._tried:
            return Plan(why="not again before the next answer")
        margin = min(MOST_MARGIN, life.kept * MARGIN_SHARE)
        wait = _minutes(life.kept - margin)
        kept = _minutes(life.kept)
        why = f"{wait} after the last request, because the provider keeps its prompt cache for {kept}"
        return Plan(read_at + life.kept - margin, read_at + life.kept, why)

    def _never(self, active: ActiveModel, life: CacheLife | None) -> str:
        """Return why this model or the settings rule out summaries in pauses; empty if
        they do not.
        """
        if self._requests.compaction(active.name).idle == "off":
            return "off"
        if life is None:
            return (
                "no, because it is unknown how long the provider keeps its prompt cache"
            )
        if life.kept > LONGEST_PAUSE:
            return f"no, because the provider keeps its prompt cache for {life.kept // 3_600} hours"
        if active.parallel == "one":
            return "no, because the model's server answers one request at a time"
        if active.profile.prices is None:
            return "no, because the model's prices are unknown"
        return ""

    async def _wait(self) -> None:
        """Wait until a pause has lasted for `SHORTEST_PAUSE`, then prepare its summary
        in time. One task waits for many short pauses.
        """
        try:
            while (began := self._began) is not None:
                if self._clock.now() >= began + SHORTEST_PAUSE:
                    break
                await self._clock.sleep_until(began + SHORTEST_PAUSE)
        finally:
            self._is_waiting = False
        if began is not None:
            self._pause = anyio.CancelScope()
            await self._use_pause(self._pause)

    async def _use_pause(self, pause: anyio.CancelScope) -> None:
        try:
            with pause:
                plan = await self.plan(await self._requests.active())
                if plan.at is None:
                    return
                await self._clock.sleep_until(plan.at)
                await self._prepare()
        except AgentError as error:
            _log.info("no summary was prepared in a pause: %s", error)
        except Exception:
            _log.exception("preparing a summary in a pause failed inside the agent")

    async def _prepare(self) -> None:
        """Begin a summary, unless it is no longer planned or would cost more than it
        saves.
        """
        active = await self._requests.active()
        plan = await self.plan(active)
        # The machine may have been suspended.
        if plan.at is None or self._clock.now() >= plan.until:
            return
        order = await self._orders.make("idle", active)
        self._tried = self._cache.last_read(active.name)
        saving, cost = self._expected(order, active)
        if pays(saving, cost):
            self._background.begin(active, order)
        else:
            _log.info(
                "no summary was prepared in a pause: it would cost $%.4f and save %s",
                cost,
                saving,
            )

    def _expected(self, order: Order, active: ActiveModel) -> tuple[Saving, float]:
        """Return the expected saving of a summary in the next request, and the
        summary's expected price.
        """
        assert active.profile.prices is not None
        prices = active.profile.prices
        used = order.state.budget.used
        size = order.policy.size_tokens(order.state)
        after = order.state.budget.system + min(size, order.state.budget.messages)
        before = used
        ready = self._background.draft
        if ready is not None and ready.result is not None:
            before -= ready.result.tokens_before - ready.result.tokens_after
        writer = order.model.profile.prices if order.writer else prices
        cost = (
            summary_cost(used, writer, cached=order.writer is None)
            if writer
            else float("inf")
        )
        return saving_of(before, after, prices), cost


def least_tokens(active: ActiveModel) -> int:
    """Return the number of tokens above which a context is summarised in a pause."""
    return min(LEAST_TOKENS, int(active.budget.usable * LEAST_SHARE))


def _obstacle(strategy: str, rules: ReasoningRules) -> str:
    """Return why a strategy cannot be used in a pause; empty if it can.

    :param strategy: the strategy of automatic compactions.
    """
    keeps_reasoning = not rules.binds or (strategy == "native" and rules.native_first)
    if strategy in WITHOUT_MODEL:
        return f"no, because the strategy `{strategy}` does not call a model"
    if rules.checks != "none" and not keeps_reasoning:
        return "no, because the kept messages would lose reasoning that is still valid"
    if strategy == "native" and rules.asked_by == "path":
        return "no, because the provider's compaction does not read its prompt cache"
    return ""


def _minutes(seconds: float) -> str:
    return f"{seconds / 60:g} minutes"
