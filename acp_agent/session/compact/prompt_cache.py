"""`PromptCache`: tracks whether the provider's prompt cache probably contains a
session's context.
"""

from __future__ import annotations

from dataclasses import dataclass

from acp_agent.frozen import frozen
from acp_agent.llm.caches import CacheLife
from acp_agent.session.compact.clock import Clock
from acp_agent.session.log import SessionLog


@frozen
class _Read:
    """A request that was answered.

    :ivar at: when the request was sent, since the cache lifetime counts from then.
    :ivar revision: the revision of the context that was sent.
    """

    at: float
    model: str
    revision: int


@dataclass(eq=False, slots=True)
class PromptCache:
    """Records the last request that the provider answered, since the provider caches
    its prompt for a while.
    """

    _log: SessionLog
    _clock: Clock
    _asked_at: float = 0.0
    _read: _Read | None = None

    def now(self) -> float:
        """Return the current time by this object's clock."""
        return self._clock.now()

    def asked(self) -> None:
        """Record that a request is being sent."""
        self._asked_at = self._clock.now()

    def answered(self, model: str, at: float | None = None) -> None:
        """Record that a request with the current context was answered.

        :param model: `provider/model`.
        :param at: when the request was sent; None for the time of the last call to
            `asked`.
        """
        self._read = _Read(
            self._asked_at if at is None else at, model, self._log.context.revision
        )

    def last_read(self, model: str) -> float | None:
        """Return when the current context was sent to a model; None if the last
        answered request was another one.

        :param model: `provider/model`.
        """
        read = self._read
        revision = self._log.context.revision
        return (
            read.at
            if read and (read.model, read.revision) == (model, revision)
            else None
        )

    def is_gone(self, model: str, life: CacheLife | None) -> bool:
        """Return whether the current context was in the provider's cache and has
        certainly expired.

        :param model: `provider/model`.
        :param life: how long the provider keeps a prompt; None if that is unknown.
        """
        at = self.last_read(model)
        return (
            at is not None and life is not None and self._clock.now() >= at + life.gone
        )
