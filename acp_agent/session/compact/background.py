"""A summary that is written in the background while the turn goes on, against a frozen revision of the context.

Nothing of it is shown, unless somebody waits for it. What nobody takes is dropped, and the log says what it cost.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field

import anyio
from anyio.abc import TaskGroup

from acp_agent.compaction.calls import ModelCalls, Show
from acp_agent.conversation.events import SummaryDropped
from acp_agent.errors import AgentError, CompactionError
from acp_agent.logfile import log_failure
from acp_agent.session.compact.decide import Background
from acp_agent.session.compact.job import Compactor
from acp_agent.session.compact.order import Order, Prepared
from acp_agent.session.log import SessionLog

_log = logging.getLogger(__name__)


@dataclass(eq=False, slots=True)
class _Draft:
    """One summary, from its first thought until it is used or dropped.

    :ivar revision: of the context that it summarises.
    :ivar changed: set, and replaced, when there is more of it.
    """

    revision: int
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    taken: anyio.Event = field(default_factory=anyio.Event)
    ended: anyio.Event = field(default_factory=anyio.Event)
    changed: anyio.Event = field(default_factory=anyio.Event)
    chunks: list[str] = field(default_factory=list[str])
    order: Order | None = None
    prepared: Prepared | None = None
    failure: AgentError | None = None

    async def add(self, text: str = "") -> None:
        """Let those go on who wait for more."""
        self.chunks.append(text)
        self.changed.set()
        self.changed = anyio.Event()


class BackgroundSummary:
    """At most one summary in the making, or ready to be used."""

    def __init__(self, log: SessionLog, compactor: Compactor) -> None:
        self._log = log
        self._compactor = compactor
        self._tasks: TaskGroup | None = None
        self._draft: _Draft | None = None

    def run_in(self, tasks: TaskGroup) -> None:
        """Work in this task group, which ends with the session."""
        self._tasks = tasks

    @property
    def state(self) -> Background:
        """Where the summary of the context as it is stands."""
        draft = self._draft
        if draft is None or draft.revision != self._log.context.revision:
            return "none"
        if draft.ended.is_set():
            return "failed"
        return "running" if draft.prepared is None else "ready"

    @property
    def order(self) -> Order | None:
        """What is being written, or is ready; None until that is known."""
        return self._draft.order if self._draft and self.state in ("running", "ready") else None

    @property
    def failure(self) -> AgentError | None:
        """Why the summary of the context as it is came to nothing."""
        return self._draft.failure if self._draft and self.state == "failed" else None

    async def begin(self, make: Callable[[], Awaitable[Order | None]]) -> None:
        """Start to write.

        :param make: makes the order, of the context as it is now; None where there is no need of one after all.
        """
        await self.drop()
        if self._tasks is not None:
            self._draft = _Draft(self._log.context.revision)
            self._tasks.start_soon(self._write, make, self._draft)

    async def result(self, show: Show | None = None) -> Prepared | None:
        """Wait for the summary, show all of it, and take it; None where none comes of it."""
        draft, shown = self._draft, 0
        while draft is not None:
            changed, text = draft.changed, "".join(draft.chunks[shown:])
            shown = len(draft.chunks)
            if show is not None:
                await show(text)
            if draft.ended.is_set() or draft.prepared is not None:
                break
            await changed.wait()
        if draft is None or self.state != "ready":
            return None
        draft.taken.set()
        self._draft = None
        return draft.prepared

    async def drop(self) -> None:
        """Give up what is being written or waits, and log what it cost."""
        if self._draft is not None:
            self._draft.scope.cancel()
            await self._draft.ended.wait()
            self._draft = None

    async def _write(self, make: Callable[[], Awaitable[Order | None]], draft: _Draft) -> None:
        calls: ModelCalls | None = None
        try:
            with draft.scope:
                if (order := await make()) is not None:
                    draft.order, calls = order, ModelCalls(order.call, draft.add)
                    draft.prepared = await self._compactor.prepare(order, calls)
                if draft.prepared is not None:
                    await draft.add()
                    await draft.taken.wait()
        except AgentError as error:
            draft.failure = error
        except Exception as error:
            draft.failure = CompactionError(log_failure(_log, "Preparing a summary failed inside the agent", error))
        finally:
            draft.ended.set()
            # Also where the whole session is being ended: an append takes a moment.
            with anyio.CancelScope(shield=True), suppress(AgentError):
                await draft.add()
                if calls is not None and calls.usage is not None and not draft.taken.is_set():
                    await self._log.append(SummaryDropped(calls.usage))
        if draft.failure is not None:
            _log.warning("no summary was prepared: %s", draft.failure)
