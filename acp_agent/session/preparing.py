"""A summary that is written in the background while the turn goes on, against a frozen revision of the context.

Nothing of it is shown, unless somebody waits for it. Whoever wants it takes it; what nobody takes is dropped, and the
log says what it cost.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeAlias

import anyio
from anyio.abc import TaskGroup
from anyio.streams.memory import MemoryObjectSendStream

from acp_agent.compaction.calls import ModelCalls, Show
from acp_agent.conversation.events import SummaryDropped
from acp_agent.errors import AgentError, CompactionError
from acp_agent.logfile import log_failure
from acp_agent.session.compacting import Compactor
from acp_agent.session.log import SessionLog
from acp_agent.session.ordering import Order, Prepared

MakeOrder: TypeAlias = Callable[[], Awaitable[Order | None]]

_log = logging.getLogger(__name__)


@dataclass(eq=False, slots=True)
class _Draft:
    """One summary, from its first thought until it is used or dropped.

    :ivar revision: of the context that it summarises.
    :ivar order: what is written, once that is known.
    :ivar ordered: set when it is known, or has come to nothing.
    :ivar written: set when it waits to be used, or has come to nothing.
    :ivar ended: set when nothing of it is left.
    :ivar watcher: takes what streams, where somebody waits for it.
    """

    revision: int
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    order: Order | None = None
    ordered: anyio.Event = field(default_factory=anyio.Event)
    written: anyio.Event = field(default_factory=anyio.Event)
    taken: anyio.Event = field(default_factory=anyio.Event)
    ended: anyio.Event = field(default_factory=anyio.Event)
    prepared: Prepared | None = None
    watcher: MemoryObjectSendStream[str] | None = None

    async def show(self, text: str) -> None:
        """Hand on what streams. Who waits shows it: what they have stopped waiting for must not be shown any more."""
        if self.watcher is not None:
            self.watcher.send_nowait(text)

    def end_writing(self) -> None:
        """Let those go on who wait."""
        self.ordered.set()
        self.written.set()
        if self.watcher is not None:
            self.watcher.close()

    async def wait(self, show: Show) -> None:
        """Wait until it is written or has come to nothing, and show what streams meanwhile."""
        if self.written.is_set():
            return
        # As long as a summary at most: a slow editor does not slow down what is written for later.
        watcher, texts = anyio.create_memory_object_stream[str](math.inf)
        self.watcher = watcher
        with watcher, texts:
            try:
                async for text in texts:
                    await show(text)
            finally:
                self.watcher = None


class Preparation:
    """At most one summary in the making, or ready to be used.

    :param failed: told that a summary came to nothing.
    :ivar requests: how many model requests the newest summary took, where it was not used.
    """

    def __init__(self, log: SessionLog, compactor: Compactor, failed: Callable[[AgentError], Awaitable[None]]) -> None:
        self._log = log
        self._compactor = compactor
        self._failed = failed
        self._tasks: TaskGroup | None = None
        self._draft: _Draft | None = None
        self.requests = 0

    def run_in(self, tasks: TaskGroup) -> None:
        """Work in this task group, which ends with the session."""
        self._tasks = tasks

    @property
    def running(self) -> bool:
        """Whether a summary is being written."""
        return self._draft is not None and not self._draft.written.is_set()

    @property
    def ready(self) -> bool:
        """Whether a summary waits that fits the context as it is."""
        return self._draft is not None and self._draft.prepared is not None and not self._stale(self._draft)

    @property
    def state(self) -> str:
        """A word on it for the user; empty where nothing is being prepared."""
        if self.running:
            return "a summary is being prepared in the background"
        return "a summary is ready" if self.ready else ""

    def begin(self, make: MakeOrder) -> None:
        """Start to write, unless there is a summary already.

        :param make: makes the order, of the context as it is now; None where there is no need of one after all.
        """
        if self._tasks is None or self._draft is not None:
            return
        self._draft = _Draft(self._log.context.revision)
        self._tasks.start_soon(self._write, make, self._draft)

    async def written(self) -> None:
        """Wait until nothing is being written."""
        while self._draft is not None and self.running:
            await self._draft.written.wait()

    async def ordered(self) -> Order | None:
        """What is being written or waits; None where there is nothing."""
        draft = self._draft
        if draft is None:
            return None
        await draft.ordered.wait()
        return draft.order if draft is self._draft else None

    async def result(self, show: Show, good: Callable[[Prepared], bool] | None = None) -> Prepared | None:
        """Wait until nothing is being written, and take the result; None where there is none that fits.

        :param show: told what streams from now on.
        :param good: whether the result will do; one that will not is dropped.
        """
        draft = self._draft
        if draft is not None:
            await draft.wait(show)
            if good is not None and draft.prepared is not None and not good(draft.prepared):
                await self.drop()
        return self.take()

    def take(self) -> Prepared | None:
        """The result where there is one that fits, which is given away once."""
        draft = self._draft
        if draft is None or draft.prepared is None or self._stale(draft):
            return None
        self._draft = None
        draft.taken.set()
        return draft.prepared

    async def drop(self) -> None:
        """Give up what is being written or waits, and log what it cost."""
        if self._draft is not None:
            self._draft.scope.cancel()
            await self._draft.ended.wait()

    async def drop_if_stale(self) -> None:
        """Give up what another revision of the context made worthless."""
        if self._draft is not None and self._stale(self._draft):
            await self.drop()

    def _stale(self, draft: _Draft) -> bool:
        return draft.revision != self._log.context.revision

    async def _write(self, make: MakeOrder, draft: _Draft) -> None:
        calls: ModelCalls | None = None
        failure: AgentError | None = None
        try:
            with draft.scope:
                order = draft.order = await make()
                if order is not None:
                    draft.ordered.set()
                    calls = ModelCalls(order.call, draft.show)
                    draft.prepared = await self._compactor.prepare(order, calls)
                if draft.prepared is not None:
                    draft.end_writing()
                    await draft.taken.wait()
        except AgentError as error:
            failure = error
        except Exception as error:
            failure = CompactionError(log_failure(_log, "Preparing a summary failed inside the agent", error))
        finally:
            self.requests = calls.requests if calls is not None and not draft.taken.is_set() else 0
            # Also where the whole session is being ended: an append is shielded, and takes a moment.
            if calls is not None and not draft.taken.is_set():
                await self._note_cost(calls)
            if self._draft is draft:
                self._draft = None
            draft.end_writing()
            draft.ended.set()
        if failure is not None:
            await self._failed(failure)

    async def _note_cost(self, calls: ModelCalls) -> None:
        if calls.usage is not None:
            try:
                await self._log.append(SummaryDropped(calls.usage))
            except AgentError as error:
                _log.info("what a dropped summary cost was not logged: %s", error)
