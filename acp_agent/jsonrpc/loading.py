"""Requests that cannot be bound before something is loaded, and those behind them.

Loading is done in a worker thread, so that the end of the connection is noticed meanwhile; the order of the wire stays.
Does not bind, does not answer, and does not know what is loaded.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import TypeAlias

import anyio
import anyio.to_thread

from acp_agent.frozen import frozen
from acp_agent.jsonrpc.batch import Batch
from acp_agent.jsonrpc.messages import Request

Load: TypeAlias = Callable[[], None]
"""Loads what a request is bound with. Called in a worker thread, which nobody waits for once the connection ends."""

logger = logging.getLogger(__name__)


@frozen
class Held:
    """A request on its way to be bound, and its place in a batch."""

    request: Request
    batch: Batch | None
    index: int


class LoadingLine:
    """The line of those that wait.

    :param to_load: says what a request needs that is not loaded yet; None where there is nothing.
    :param take: goes on with a request.
    :param limit: how many may wait; those beyond go on at once, to be refused.
    """

    def __init__(self, to_load: Callable[[Request], Load | None], take: Callable[[Held], None], limit: int) -> None:
        self._to_load = to_load
        self._take = take
        self._limit = limit
        self._line: deque[Held] = deque()
        self._load: Load | None = None

    def __len__(self) -> int:
        return len(self._line)

    def admit(self, held: Held) -> bool:
        """Go on with a request, behind those that wait.

        :returns: whether it is the first that waits: `run` has to be called, in a task.
        """
        waiting = len(self._line)
        if not waiting:
            self._load = self._to_load(held.request)
        if self._load is None or waiting >= self._limit:
            self._take(held)
            return False
        self._line.append(held)
        return not waiting

    async def run(self, scope: anyio.CancelScope) -> None:
        """Load until nobody waits.

        :param scope: where it is cancelled, they all go on at once, to be refused.
        """
        with scope:
            while self._load is not None:
                try:
                    await anyio.to_thread.run_sync(self._load, abandon_on_cancel=True)
                except Exception:
                    # Who binds the request finds it again, and has somebody to tell.
                    logger.exception("what %s is read with was not loaded", self._line[0].request.method)
                self._go_on()
        while self._line:
            self._take(self._line.popleft())
        self._load = None

    def _go_on(self) -> None:
        self._load = None
        while self._load is None and self._line:
            self._take(self._line.popleft())
            if self._line:
                self._load = self._to_load(self._line[0].request)
