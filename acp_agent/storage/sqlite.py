"""`SessionStore` on one SQLite file, which several processes may share.

Owns the tables' reading and writing. One connection, used by one worker thread at a time, so that neither a slow disk
nor another process's lock stops the event loop. What stands in an event is the codec's matter.
"""

from __future__ import annotations

import logging
import math
import sqlite3
import threading
import time
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from functools import partial
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

import anyio
from anyio import to_thread

from acp_agent.conversation.context import Context
from acp_agent.conversation.events import Event, LoggedEvent
from acp_agent.errors import StorageError
from acp_agent.storage.database import BUSY_SECONDS, is_busy, open_database, storage_errors, transaction
from acp_agent.storage.folding import fold_from
from acp_agent.storage.records import read_page, read_record
from acp_agent.storage.rows import find, read_events, read_some, storable
from acp_agent.storage.search import has_full_text, index_more, search
from acp_agent.storage.store import ArchiveFilter, Found, SessionPage, SessionRecord
from acp_agent.storage.words import MESSAGE_KINDS, query_words
from acp_agent.storage.writing import append, archive, bury, create, fork

P = ParamSpec("P")
T = TypeVar("T")

_log = logging.getLogger(__name__)

LAST_SECONDS = 1.0
"""How long another process's lock is waited for while the process ends."""
_TRY_MILLISECONDS = 50
_BATCH_EVENTS = 500
_BATCH_CHARACTERS = 4 << 20

_READ_BLOB = "SELECT sha256, data FROM blob_uses JOIN blobs USING (sha256) WHERE session = ? AND sha256 = ?"
_NEIGHBOUR = f"""
    SELECT {{which}}(seq) FROM events
    WHERE session = ? AND seq {{side}} ? AND kind IN ({", ".join(f"'{kind}'" for kind in MESSAGE_KINDS)})
"""


class SqliteStore:
    """Sessions in an SQLite database; see `SessionStore` for what its methods promise."""

    def __init__(
        self, path: Path, connection: sqlite3.Connection, limiter: anyio.CapacityLimiter, full_text: bool
    ) -> None:
        self._path = path
        self._full_text = full_text
        self._connection: sqlite3.Connection | None = connection
        self._limiter = limiter
        # The limiter makes tasks wait without a thread; the lock holds where a task that was cancelled past anyio
        # (`asyncio.Task.cancel`) has left its thread at work.
        self._lock = threading.Lock()
        self._impatient_from = math.inf

    @classmethod
    async def open(cls, path: Path, *, full_text: bool = True) -> SqliteStore:
        """Open a database, or make it.

        :param path: absolute path of the file; its folder is made, and becomes private.
        :param full_text: False searches without FTS5, as with an SQLite that was built without it.
        :raises ConfigError: the folder cannot be used.
        :raises StorageError: the file cannot be used; it was left as it is.
        """
        limiter = anyio.CapacityLimiter(1)
        connection = await to_thread.run_sync(open_database, path, limiter=limiter)
        connection.execute(f"PRAGMA busy_timeout = {_TRY_MILLISECONDS}")  # see `_patiently`
        return cls(path, connection, limiter, full_text and has_full_text(connection))

    async def create(
        self, session_id: str, cwd: str, additional_directories: Sequence[str], events: Sequence[Event]
    ) -> tuple[LoggedEvent, ...]:
        """Make a session whose log begins with these events.

        :raises StorageError: the id is taken, or was deleted.
        """
        return await self._run(create, session_id, cwd, tuple(additional_directories), tuple(events))

    async def fork(
        self,
        session_id: str,
        new_id: str,
        at: int,
        cwd: str,
        additional_directories: Sequence[str],
        events: Sequence[Event],
    ) -> tuple[LoggedEvent, ...]:
        """Make a session whose log begins with a copy of another one's; see `SessionStore.fork`.

        :raises SessionNotFoundError: no such session.
        :raises InvalidParamsError: it has no such entry.
        :raises StorageError: the new id is taken, or was deleted.
        """
        return await self._run(fork, session_id, new_id, at, cwd, tuple(additional_directories), tuple(events))

    async def append(self, session_id: str, expected: int, events: Sequence[Event]) -> tuple[LoggedEvent, ...]:
        """Add events to the end of a log, if its head is still `expected`.

        :raises SessionConflictError: the head is another one.
        :raises SessionNotFoundError: no such session, or it was deleted.
        """
        return await self._run(append, session_id, expected, tuple(events))

    async def record(self, session_id: str) -> SessionRecord:
        """What is known of one session.

        :raises SessionNotFoundError: no such session.
        """
        return await self._run(read_record, session_id)

    async def context(self, session_id: str) -> Context:
        """The context folded from the log, read from the tail of the last compaction on.

        :raises SessionNotFoundError: no such session.
        """
        return await self._run(_read_context, session_id)

    async def context_at(self, session_id: str, seq: int) -> Context:
        """The context as it was after entry `seq`.

        :raises SessionNotFoundError: no such session.
        """
        return await self._run(_read_context_at, session_id, seq)

    async def search(self, session_id: str, query: str, *, limit: int, before: int | None = None) -> tuple[Found, ...]:
        """Messages of a session that hold the words of a query, best first; see `SessionStore.search`.

        :raises SessionNotFoundError: no such session.
        """
        words = query_words(storable(query))
        # The first search makes the index. In pieces, between which others come to their turn.
        while (found := await self._run(search, session_id, words, limit, before, self._full_text)) is None:
            await self._run(index_more, session_id)
        return found

    async def read(self, session_id: str, seqs: Sequence[int]) -> tuple[LoggedEvent, ...]:
        """The entries at these places, in order, without those that do not exist.

        :raises SessionNotFoundError: no such session.
        """
        return await self._run(_read_seqs, session_id, tuple(seqs))

    async def blobs(self, session_id: str, digests: Collection[str]) -> dict[str, bytes]:
        """Bytes that the session's events refer to; see `SessionStore.blobs`.

        :raises SessionNotFoundError: no such session.
        """
        return await self._run(_read_blobs, session_id, tuple(digests))

    async def neighbours(self, session_id: str, seq: int) -> tuple[int | None, int | None]:
        """Places of the last message before and the first one behind a place.

        :raises SessionNotFoundError: no such session.
        """
        return await self._run(_read_neighbours, session_id, seq)

    async def events(self, session_id: str, after: int = 0) -> AsyncIterator[LoggedEvent]:
        """The log in order, from behind `after` up to the head that it has when this is called.

        :raises SessionNotFoundError: no such session, or it was deleted while this read it.
        """
        head, batch = await self._run(_read_batch, session_id, after, None)
        while batch:
            for logged in batch:
                yield logged
            _, batch = await self._run(_read_batch, session_id, batch[-1].seq, head)

    async def list(
        self,
        cwd: str | None = None,
        cursor: str | None = None,
        limit: int = 50,
        archived: ArchiveFilter = "exclude",
        not_begun: Collection[str] | None = None,
    ) -> SessionPage:
        """See `SessionStore`.

        :param limit: 1 or more.
        :raises InvalidParamsError: the cursor is not one of ours.
        """
        return await self._run(read_page, cwd, cursor, limit, archived, not_begun)

    async def archive(self, session_id: str, archived: bool) -> None:
        """Leave a session out of the ordinary list, or put it back.

        :raises SessionNotFoundError: no such session.
        """
        await self._run(archive, session_id, archived)

    async def delete(self, session_id: str) -> None:
        """Remove a session and its log for good; an unknown one is no error. A later append cannot revive it."""
        await self._run(self._delete, session_id)

    def hurry(self) -> None:
        """Wait for other processes' locks for a moment more at the most, since the process ends."""
        self._impatient_from = min(self._impatient_from, time.monotonic() + LAST_SECONDS)

    async def aclose(self) -> None:
        """Close the store; safe to call twice."""
        with anyio.CancelScope(shield=True):
            await to_thread.run_sync(self._close, limiter=self._limiter)

    def _close(self) -> None:
        with self._lock, storage_errors(self._path):
            if self._connection is not None:
                self._connection.close()
            self._connection = None

    async def _run(self, work: Callable[Concatenate[sqlite3.Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        def locked() -> T:
            with self._lock, storage_errors(self._path):
                if self._connection is None:
                    raise StorageError(f"The session store {self._path} was closed. Start acp-agent again.")
                return self._patiently(partial(work, self._connection, *args, **kwargs))

        return await to_thread.run_sync(locked, limiter=self._limiter)

    def _patiently(self, work: Callable[[], T]) -> T:
        """Do something as a whole, and again where another process had the database locked.

        SQLite itself would wait as well, but could not be told meanwhile that the process is to end.
        """
        until = time.monotonic() + BUSY_SECONDS
        while True:
            try:
                return work()
            except sqlite3.OperationalError as error:
                now = time.monotonic()
                if not is_busy(error) or now > until:
                    raise
                if now > self._impatient_from:
                    _log.error("%s is locked by another process, so the last of a session was not stored", self._path)
                    raise

    def _delete(self, connection: sqlite3.Connection, session_id: str) -> None:
        if not bury(connection, session_id):
            return
        # What was deleted is overwritten in the file (`secure_delete`), but would stay in the write-ahead log, which
        # cannot be emptied while somebody reads. SQLite itself waits for `_TRY_MILLISECONDS`.
        until = time.monotonic() + BUSY_SECONDS
        while connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]:
            if time.monotonic() > min(until, self._impatient_from):
                return


def _read_context(connection: sqlite3.Connection, session_id: str) -> Context:
    with transaction(connection, "DEFERRED"):
        session, head, context_from = find(connection, session_id)
        return Context.from_log(read_events(connection, session, context_from, head))


def _read_context_at(connection: sqlite3.Connection, session_id: str, seq: int) -> Context:
    with transaction(connection, "DEFERRED"):
        session, head, _ = find(connection, session_id)
        last = max(0, min(seq, head))
        return Context.from_log(read_events(connection, session, fold_from(connection, session, last), last))


def _read_batch(
    connection: sqlite3.Connection, session_id: str, after: int, upto: int | None
) -> tuple[int, tuple[LoggedEvent, ...]]:
    with transaction(connection, "DEFERRED"):
        session, head, _ = find(connection, session_id)
        upto = head if upto is None else upto
        last = min(upto, after + _BATCH_EVENTS)
        return upto, tuple(read_events(connection, session, after + 1, last, _BATCH_CHARACTERS))


def _read_seqs(connection: sqlite3.Connection, session_id: str, seqs: tuple[int, ...]) -> tuple[LoggedEvent, ...]:
    with transaction(connection, "DEFERRED"):
        session, head, _ = find(connection, session_id)
        return tuple(read_some(connection, session, sorted({seq for seq in seqs if 1 <= seq <= head})))


def _read_blobs(connection: sqlite3.Connection, session_id: str, digests: tuple[str, ...]) -> dict[str, bytes]:
    with transaction(connection, "DEFERRED"):
        session, _, _ = find(connection, session_id)
        rows = (connection.execute(_READ_BLOB, (session, storable(digest))).fetchone() for digest in digests)
        return dict(row for row in rows if row is not None)


def _read_neighbours(connection: sqlite3.Connection, session_id: str, seq: int) -> tuple[int | None, int | None]:
    with transaction(connection, "DEFERRED"):
        session, head, _ = find(connection, session_id)
        place = (session, max(0, min(seq, head + 1)))
        before, after = (
            connection.execute(_NEIGHBOUR.format(which=which, side=side), place).fetchone()[0]
            for which, side in (("max", "<"), ("min", ">"))
        )
        return before, after
