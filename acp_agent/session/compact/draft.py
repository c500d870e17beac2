"""`SummaryDraft`: a summary that is written in the background."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import anyio

from acp_agent.compaction.calls import Courtesy, ModelCalls
from acp_agent.compaction.calls import Show as ShowText
from acp_agent.compaction.state import CompactedState
from acp_agent.errors import AgentError
from acp_agent.session.compact.order import Order

Outcome: TypeAlias = CompactedState | AgentError | Literal["writing", "not needed"]


@dataclass(eq=False, slots=True)
class SummaryDraft:
    """A summary of one revision of the context, from its order until it is used or
    dropped.

    :ivar clock: returns the current time.
    :ivar text: the text that has streamed so far.
    :ivar changed: set and replaced when more text has streamed, or when no more will.
    :ivar outcome: the summary or the failure; until then `writing`, and `not needed` if
        no summary will be written.
    :ivar taken: set when the summary is used.
    :ivar calls: the requests that write the summary.
    :ivar asked_at: when the first request was sent, according to `clock`.
    :ivar courtesy: makes the requests wait while the turn needs a server that answers
        one request at a time.
    """

    revision: int
    clock: Callable[[], float]
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    text: str = ""
    changed: anyio.Event = field(default_factory=anyio.Event)
    outcome: Outcome = "writing"
    taken: anyio.Event = field(default_factory=anyio.Event)
    order: Order | None = None
    calls: ModelCalls | None = None
    asked_at: float | None = None
    courtesy: Courtesy = field(init=False)

    def __post_init__(self) -> None:
        self.courtesy = Courtesy(self._begin_again)

    def _begin_again(self) -> None:
        self.text = ""

    @property
    def is_done(self) -> bool:
        """Return whether no more text will arrive."""
        return self.outcome != "writing"

    @property
    def result(self) -> CompactedState | None:
        """Return the summary if it is complete; else None."""
        return self.outcome if isinstance(self.outcome, CompactedState) else None

    @property
    def failure(self) -> AgentError | None:
        """Return the error if the summary failed; else None."""
        return self.outcome if isinstance(self.outcome, AgentError) else None

    @property
    def is_idle(self) -> bool:
        """Return whether the summary is prepared while the user pauses."""
        return self.order is not None and self.order.policy.idle

    async def asked(self) -> None:
        """Record that a request is being sent."""
        if self.asked_at is None:
            self.asked_at = self.clock()

    @property
    def is_answered(self) -> bool:
        """Return whether the model has answered, so that its server is free."""
        return self.is_done or (self.calls is not None and self.calls.usage is not None)

    async def add(self, text: str) -> None:
        self.text += text
        self.wake()

    def wake(self) -> None:
        self.changed.set()
        self.changed = anyio.Event()

    async def take(self, show: ShowText) -> CompactedState | None:
        """Take the summary, or return None if it failed. If it is still being written,
        wait and show all of it.
        """
        self.courtesy.go_on()  # the turn waits for the summary
        shown = 0
        while not self.is_done:
            changed = self.changed
            text = self.text[shown:]
            shown += len(text)
            await show(text)
            await changed.wait()
        if shown:
            await show(self.text[shown:])
        if self.result is not None:
            self.taken.set()
        return self.result
