"""What a session store offers. `sqlite.py` is the one we ship; a contract test-suite lets another stand behind it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from acp_agent.conversation.context import Context
from acp_agent.conversation.events import Event, LoggedEvent


@dataclass(frozen=True, slots=True)
class SessionRecord:
    """What a list of sessions shows; times are milliseconds since the epoch."""

    session_id: str
    cwd: str
    additional_directories: tuple[str, ...]
    title: str | None
    created_at: int
    updated_at: int
    head: int


@dataclass(frozen=True, slots=True)
class SessionPage:
    """Part of the list, newest first, and the cursor of the next part."""

    sessions: tuple[SessionRecord, ...]
    next_cursor: str | None


class SessionStore(Protocol):
    """An append-only log per session, and the list of sessions.

    Every method may be called from any task; what it does is either wholly there afterwards or not at all.
    """

    async def create(
        self, session_id: str, cwd: str, additional_directories: Sequence[str], events: Sequence[Event]
    ) -> tuple[LoggedEvent, ...]:
        """Make a session whose log begins with these events.

        :raises StorageError: the id is taken, or was deleted.
        """
        ...

    async def append(self, session_id: str, expected: int, events: Sequence[Event]) -> tuple[LoggedEvent, ...]:
        """Add events to the end of a log, if its head is still `expected`.

        Durable when it returns. A cancelled append has happened wholly or not at all; callers that must know shield it.

        :param expected: seq of the last event that the caller has seen.
        :raises SessionConflictError: the head is another one.
        :raises SessionNotFoundError: no such session, or it was deleted.
        """
        ...

    async def record(self, session_id: str) -> SessionRecord:
        """What is known of one session.

        :raises SessionNotFoundError: no such session.
        """
        ...

    async def context(self, session_id: str) -> Context:
        """The context folded from the log, read from the tail of the last compaction on.

        :raises SessionNotFoundError: no such session.
        """
        ...

    def events(self, session_id: str, after: int = 0) -> AsyncIterator[LoggedEvent]:
        """The whole log in order, from behind `after` on, in batches, so that memory stays small.

        :raises SessionNotFoundError: no such session.
        """
        ...

    async def list(self, cwd: str | None = None, cursor: str | None = None, limit: int = 50) -> SessionPage:
        """Sessions, newest first, of one directory where `cwd` is given.

        :raises InvalidParamsError: the cursor is not one of ours.
        """
        ...

    async def delete(self, session_id: str) -> None:
        """Remove a session and its log for good; an unknown one is no error. A later append cannot revive it."""
        ...

    async def aclose(self) -> None:
        """Close the store; safe to call twice."""
        ...
