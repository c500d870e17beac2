"""What a session store offers. `sqlite.py` is the one we ship; a contract test-suite lets another stand behind it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Sequence
from typing import Literal, Protocol, TypeAlias

from acp_agent.conversation.context import Context
from acp_agent.conversation.events import Event, LoggedEvent
from acp_agent.frozen import frozen

ArchiveFilter: TypeAlias = Literal["exclude", "include", "only"]
"""What becomes of archived sessions in a list: left out, listed among the others, or all that is listed."""
Role: TypeAlias = Literal["user", "assistant", "tool", "summary"]


@frozen
class SessionRecord:
    """What a list of sessions shows; times are milliseconds since the epoch."""

    session_id: str
    cwd: str
    additional_directories: tuple[str, ...]
    title: str | None
    created_at: int
    updated_at: int
    head: int
    archived: bool = False


@frozen
class SessionPage:
    """Part of the list, newest first, and the cursor of the next part."""

    sessions: tuple[SessionRecord, ...]
    next_cursor: str | None


@frozen
class Found:
    """A message that a search found.

    :ivar at: milliseconds since the epoch.
    :ivar tool: name of the tool, for a result.
    :ivar title: what the call was shown as, for a result.
    :ivar snippet: one line of the text, around the words that were looked for.
    """

    seq: int
    at: int
    role: Role
    tool: str
    title: str
    snippet: str


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

    async def fork(
        self,
        session_id: str,
        new_id: str,
        at: int,
        cwd: str,
        additional_directories: Sequence[str],
        events: Sequence[Event],
    ) -> tuple[LoggedEvent, ...]:
        """Make a session whose log begins with a copy of another one's, and goes on with these events. Neither knows of
        the other afterwards: each is changed and deleted by itself.

        :param at: seq of the last entry that is copied; from 1 to the other one's head.
        :returns: the new events in their places.
        :raises SessionNotFoundError: no such session.
        :raises InvalidParamsError: it has no such entry.
        :raises StorageError: the new id is taken, or was deleted.
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

    async def context_at(self, session_id: str, seq: int) -> Context:
        """The context as it was after entry `seq`: what `Context.from_log` makes of the log up to there.

        :param seq: the head counts where it is beyond it; before the first entry there is an empty context.
        :raises SessionNotFoundError: no such session.
        """
        ...

    async def search(self, session_id: str, query: str, *, limit: int, before: int | None = None) -> tuple[Found, ...]:
        """Messages of a session that hold the words of a query, best first.

        Prompts, answers with their calls, results and summaries are searched; calls of `recall` and their results are
        not. Capitals do not count, and accents need not. What stands in double quotes is looked for as a phrase; other
        words may be the beginning of longer ones. Where no message holds all of them, those that hold some are found.

        :param query: plain words; nothing in it is syntax but double quotes.
        :param limit: so many at most.
        :param before: only entries with a smaller seq.
        :raises SessionNotFoundError: no such session.
        """
        ...

    async def read(self, session_id: str, seqs: Sequence[int]) -> tuple[LoggedEvent, ...]:
        """The entries at these places, in order and once each, without those that do not exist.

        :raises SessionNotFoundError: no such session.
        """
        ...

    async def blobs(self, session_id: str, digests: Collection[str]) -> dict[str, bytes]:
        """Bytes that the session's events refer to, by their SHA-256; without those that it does not refer to.

        Large bytes in events that are appended (see `put_away`) are kept once for all sessions, and what `append` and
        every reader return refers to them. They go with the last session whose log refers to them. So are long texts
        of files that came along, but everybody reads them where they stood.

        :raises SessionNotFoundError: no such session.
        """
        ...

    async def neighbours(self, session_id: str, seq: int) -> tuple[int | None, int | None]:
        """Places of the last message before and the first one behind a place, without summaries.

        :raises SessionNotFoundError: no such session.
        """
        ...

    def events(self, session_id: str, after: int = 0) -> AsyncIterator[LoggedEvent]:
        """The whole log in order, from behind `after` on, in batches, so that memory stays small.

        :raises SessionNotFoundError: no such session.
        """
        ...

    async def list(
        self,
        cwd: str | None = None,
        cursor: str | None = None,
        limit: int = 50,
        archived: ArchiveFilter = "exclude",
        not_begun: Collection[str] | None = None,
    ) -> SessionPage:
        """Sessions, newest first, of one directory where `cwd` is given.

        What is made or changed while somebody reads page after page disturbs none of the others: a session whose place
        stays is listed once.

        :param not_begun: of those that were never prompted, named, archived or made by a fork, the ones that are listed
            too; None for all.
        :raises InvalidParamsError: the cursor is not one of ours.
        """
        ...

    async def archive(self, session_id: str, archived: bool) -> None:
        """Leave a session out of the ordinary list, or put it back. Nothing else of it changes, its time included.

        :raises SessionNotFoundError: no such session.
        """
        ...

    async def delete(self, session_id: str) -> None:
        """Remove a session and its log for good; an unknown one is no error. A later append cannot revive it."""
        ...

    def hurry(self) -> None:
        """The process ends: from now on, wait a moment at most for whoever has locked the store, and log what could not
        be stored for it."""
        ...

    async def aclose(self) -> None:
        """Close the store; safe to call twice."""
        ...
