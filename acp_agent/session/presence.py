"""`OpenSessions`: which sessions are open in this process, whichever connection has opened them.

Each connection has a manager with sessions of its own; here they find each other, so that a session that another has
open is known to be, and can be ended. Knows no session's work.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from acp_agent.session.session import Session


class Keeper(Protocol):
    """Who has a session open."""

    async def close_if_open(self, session_id: str, reason: Literal["close", "delete"]) -> None:
        """Close it; returns when that is done, also where it was under way already."""
        ...


class OpenSessions:
    """One for all connections of a process."""

    def __init__(self) -> None:
        self._kept: dict[str, dict[Session, Keeper]] = {}

    def add(self, session: Session, keeper: Keeper) -> None:
        """A session is open now."""
        self._kept.setdefault(session.session_id, {})[session] = keeper

    def discard(self, session: Session) -> None:
        """It is not any more; may be told twice."""
        here = self._kept.get(session.session_id, {})
        here.pop(session, None)
        if not here:
            self._kept.pop(session.session_id, None)

    def ids(self) -> tuple[str, ...]:
        """All that are open."""
        return tuple(self._kept)

    def find(self, session_id: str) -> Session | None:
        """A session that is open, of several the one that was opened last; None where it is open nowhere."""
        return next(reversed(self._kept.get(session_id, {})), None)

    def others(self, session_id: str, keeper: Keeper) -> tuple[Session, ...]:
        """It, as other connections have it open."""
        return tuple(session for session, other in self._kept.get(session_id, {}).items() if other is not keeper)

    async def close(self, session_id: str, reason: Literal["close", "delete"]) -> None:
        """Close it wherever it is open."""
        for keeper in set(self._kept.get(session_id, {}).values()):
            await keeper.close_if_open(session_id, reason)
