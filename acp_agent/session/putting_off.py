"""`PutOff`: automatic compactions that hooks have vetoed or put off, and when they are due again."""

from __future__ import annotations

import logging

from acp_agent.errors import CompactionVetoedError

_log = logging.getLogger(__name__)


class PutOff:
    """What one session's hooks have put off.

    :ivar until_end: whether a compaction is to be done when the turn ends.
    """

    def __init__(self) -> None:
        self.until_end = False
        self._until = 0

    def begin_turn(self) -> None:
        """What was to be done at the end of the last turn is done, or is not due any more."""
        self.until_end = False

    def vetoed(self, error: CompactionVetoedError, used: int) -> None:
        """A hook wants no compaction, or none now.

        :param used: tokens in the context.
        """
        _log.info("%s", error)
        self.until_end = error.put_off and error.tokens is None
        self._until = used + error.tokens if error.tokens is not None else 0

    def holds(self, used: int) -> bool:
        """Whether a compaction that nothing forces is still put off.

        :param used: tokens in the context.
        """
        return self.until_end or used < self._until

    def compacted(self) -> None:
        """The context is another one now."""
        self.until_end, self._until = False, 0
