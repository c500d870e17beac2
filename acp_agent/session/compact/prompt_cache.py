"""`PromptCache`: what the provider's prompt cache holds of one session, as far as that is known."""

from __future__ import annotations

from dataclasses import dataclass

from acp_agent.frozen import frozen
from acp_agent.llm.caches import CacheLife
from acp_agent.session.compact.clock import Clock
from acp_agent.session.log import SessionLog


@frozen
class _Read:
    """A request that was answered.

    :ivar at: when it was sent, since providers count from then on.
    :ivar revision: of its context.
    """

    at: float
    model: str
    revision: int


@dataclass(eq=False, slots=True)
class PromptCache:
    """Notes which requests the provider has answered: it keeps the prompt of the last one for a while."""

    _log: SessionLog
    _clock: Clock
    _asked_at: float = 0.0
    _read: _Read | None = None

    def now(self) -> float:
        """Return the time by the clock of this object."""
        return self._clock.now()

    def asked(self) -> None:
        """Note that a request is sent."""
        self._asked_at = self._clock.now()

    def answered(self, model: str, at: float | None = None) -> None:
        """Note that a request with the current context was answered.

        :param model: `provider/model`.
        :param at: when it was sent; None for the last call of `asked`.
        """
        self._read = _Read(self._asked_at if at is None else at, model, self._log.context.revision)

    def last_read(self, model: str) -> float | None:
        """Return when the current context was last sent to a model; None if it never was.

        :param model: `provider/model`.
        """
        read, revision = self._read, self._log.context.revision
        return read.at if read and (read.model, read.revision) == (model, revision) else None

    def is_gone(self, model: str, life: CacheLife | None) -> bool:
        """Return whether the provider had the current context in its cache and certainly has it no more.

        :param model: `provider/model`.
        :param life: None if it is not known how long the provider keeps it.
        """
        at = self.last_read(model)
        return at is not None and life is not None and self._clock.now() >= at + life.gone
