"""`Breaker`: when a session stops asking a model for summaries by itself.

It counts summaries that failed in a row. What is tried in place of one, it does not know.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace

from acp_agent.conversation.events import ContextSwapped
from acp_agent.errors import AgentError, CompactionError
from acp_agent.session.ordering import Order

MAX_FAILURES = 3
"""Summaries that failed in a row, after which no model is asked for one by itself any more."""

_WRITTEN_BY_A_MODEL = ("summary", "native", "chunked")

_log = logging.getLogger(__name__)


class Breaker:
    """Closed as long as summaries come about.

    :param tell: tells the user, once, that it has opened.
    """

    def __init__(self, tell: Callable[[str], Awaitable[None]]) -> None:
        self._tell = tell
        self._failures = 0

    @property
    def is_open(self) -> bool:
        """Whether no model is to be asked."""
        return self._failures >= MAX_FAILURES

    def close(self) -> None:
        """A summary came about, or somebody asked for one."""
        self._failures = 0

    def limited(self, order: Order) -> Order:
        """The order, without a model where this is open; a summary that a hook has written needs none."""
        return replace(order, without_model=True) if self.is_open and order.policy.written is None else order

    async def failed(self, error: AgentError) -> None:
        """A summary failed."""
        _log.warning("automatic compaction failed: %s", error)
        self._failures += 1
        if self._failures == MAX_FAILURES:
            await self._tell(
                f"No summary could be written {MAX_FAILURES} times in a row, so none is tried by itself any more in "
                "this session; old results of tools are left out instead. /compact tries again. The last reason: "
                f"{error}"
            )

    async def compacted(self, order: Order, swap: ContextSwapped) -> None:
        """A compaction came about: count a model that was asked for it in vain, or has written a summary."""
        if not swap.receipt.requests:
            return
        if swap.strategy in (*_WRITTEN_BY_A_MODEL, order.policy.strategy):
            self.close()
        else:
            await self.failed(CompactionError(swap.receipt.notes[0] if swap.receipt.notes else ""))
