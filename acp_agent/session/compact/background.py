"""`BackgroundSummary`: a summary that is written while the turn goes on, against a frozen revision of the context.

It is shown only to a caller that waits for it. A summary that is not used is dropped, and the log says what it cost.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import dataclass, field

import anyio
from anyio.abc import TaskGroup

from acp_agent.compaction.calls import ModelCalls, Show
from acp_agent.compaction.state import CompactedState
from acp_agent.conversation.events import SummaryDropped
from acp_agent.errors import AgentError, CompactionError
from acp_agent.logfile import log_failure
from acp_agent.session.compact.decide import Background
from acp_agent.session.compact.job import Compactor
from acp_agent.session.compact.order import Order, Orders
from acp_agent.session.log import SessionLog
from acp_agent.session.project.models import ActiveModel

_log = logging.getLogger(__name__)


@dataclass(eq=False, slots=True)
class _Draft:
    """One summary of a context's revision, from its order until it is used or dropped.

    :ivar changed: is set, and replaced, when more of it has streamed, or when it is written.
    :ivar over: whether nothing more will come of it.
    """

    revision: int
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    taken: anyio.Event = field(default_factory=anyio.Event)
    changed: anyio.Event = field(default_factory=anyio.Event)
    over: bool = False
    text: str = ""
    order: Order | None = None
    result: CompactedState | None = None
    failure: AgentError | None = None

    async def add(self, text: str = "") -> None:
        self.text += text
        self.changed.set()
        self.changed = anyio.Event()


@dataclass(eq=False, slots=True)
class BackgroundSummary:
    """At most one summary that is being written or is ready, in a task group that ends with the session."""

    _log: SessionLog
    _orders: Orders
    _compactor: Compactor
    _tasks: TaskGroup
    _draft: _Draft | None = None

    @property
    def state(self) -> Background:
        """Return how far the summary of the context as it is has come."""
        draft = self._draft
        if draft is None or draft.revision != self._log.context.revision:
            return "none"
        if draft.over:
            return "failed"
        return "running" if draft.result is None else "ready"

    @property
    def order(self) -> Order | None:
        """Return the order of the summary that is being written or is ready; None until it is made."""
        return self._draft.order if self._draft and self.state in ("running", "ready") else None

    @property
    def failure(self) -> AgentError | None:
        """Return why the summary of the context as it is failed."""
        return self._draft.failure if self._draft and self.state == "failed" else None

    def begin(self, active: ActiveModel) -> None:
        """Begin a summary of the context as it is, unless masking old results will do."""
        self.drop()
        self._draft = _Draft(self._log.context.revision)
        self._tasks.start_soon(self._write, active, self._draft)

    async def result(self, show: Show) -> CompactedState | None:
        """Take the summary; None if it failed. While it is being written, wait for it, and show all of it."""
        draft, shown = self._draft, 0
        if draft is None:
            return None
        while draft.result is None and not draft.over:
            changed, text = draft.changed, draft.text[shown:]
            shown += len(text)
            await show(text)
            await changed.wait()
        if shown:
            await show(draft.text[shown:])
        if self.state != "ready":
            return None
        draft.taken.set()
        self._draft = None
        return draft.result

    def fail(self, error: AgentError) -> None:
        """Note that the summary cannot be used, and why."""
        self.drop()
        self._draft = _Draft(self._log.context.revision, over=True, failure=error)

    def drop(self) -> None:
        """Drop the summary; the log will say what it cost."""
        if self._draft is not None:
            self._draft.scope.cancel()
            self._draft = None

    async def _write(self, active: ActiveModel, draft: _Draft) -> None:
        calls: ModelCalls | None = None
        try:
            with draft.scope:
                order = await self._orders.make("threshold", active)
                if await self._compactor.dry_run(order.with_steps("mask")) is None:
                    order = order.with_steps(*dict.fromkeys((order.policy.strategy, "summary")))
                    draft.order, calls = order, ModelCalls(order.model.stream, draft.add)
                    draft.result = await self._compactor.prepare(order, calls)
                if draft.result is not None:
                    await draft.add()
                    await draft.taken.wait()
        except AgentError as error:
            draft.failure = error
        except Exception as error:
            draft.failure = CompactionError(log_failure(_log, "Preparing a summary failed inside the agent", error))
        finally:
            draft.over = True
            # Also where the whole session is being ended: an append takes a moment.
            with anyio.CancelScope(shield=True), suppress(AgentError):
                await draft.add()
                if calls is not None and calls.usage is not None and not draft.taken.is_set():
                    await self._log.append(SummaryDropped(calls.usage))
        if draft.failure is not None:
            _log.warning("no summary was prepared: %s", draft.failure)
