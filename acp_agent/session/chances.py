"""`Chances`: whether another automatic compaction could help, after those that have been tried in this turn.

Owns what keeps a full context from being compacted over and over. Pure: knows no session, no model and no strategy.
"""

from __future__ import annotations

from acp_agent.compaction.budget import TokenBudget
from acp_agent.compaction.estimate import estimate_messages
from acp_agent.compaction.triggers import GROWTH, NEW_INPUT, Pressure
from acp_agent.conversation.context import Context

MAX_FUTILE = 2
"""Automatic compactions in one turn after which the context was too full at once: a third would do no better."""


class Chances:
    """What one session has tried."""

    def __init__(self) -> None:
        self._futile = 0
        self._just_compacted = False
        self._failed_at = 0
        self._seen: tuple[int, Pressure, int] | None = None

    def begin_turn(self) -> None:
        """New input arrived, so that compaction gets another chance."""
        self._futile = 0
        self._just_compacted = False
        self._seen = None

    def tried(self, *, compacted: bool) -> None:
        """A compaction ended, or none was due."""
        self._just_compacted = compacted

    def failed(self, head: int) -> bool:
        """A compaction came to nothing: no other is tried before there is new input.

        :param head: number of the log's last event.
        :returns: whether there was a chance until now.
        """
        had = self._futile < MAX_FUTILE
        self._futile, self._failed_at = MAX_FUTILE, head
        return had

    def are_gone(self, context: Context, budget: TokenBudget) -> bool:
        """Whether compactions in this turn have helped so little that another would not help either: the context is
        due again although little has come since. New results of tools are new input as much as a prompt is.

        :param context: it is due.
        """
        since = max(self._failed_at, *context.swaps[-1:], 0)
        grown = estimate_messages(entry.message for entry in context.entries if entry.seq > since)
        if grown > budget.usable * NEW_INPUT:
            self._futile = 0
        else:
            self._futile += self._just_compacted
        self._just_compacted = False
        return self._futile >= MAX_FUTILE

    def has_grown(self, context: Context, budget: TokenBudget, level: Pressure) -> bool:
        """Whether the context is worth another look, after one that came to nothing."""
        revision, used = context.revision, budget.used
        if self._seen is not None:
            seen, at, before = self._seen
            if (seen, at) == (revision, level) and used - before < budget.usable * GROWTH:
                return False
        self._seen = (revision, level, used)
        return True
