"""`SessionStore`: an append-only log per session and the list of sessions, in one
SQLite file.

Several processes may share the file. The store has one connection, which is used by one
worker thread at a time, so that neither a slow disk nor another process's lock blocks
the event loop.
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
from acp_agent.storage.database import (
    BUSY_SECONDS,
    file_id,
    is_busy,
    is_read_only,
    open_database,
    storage_errors,
    transaction,
)
from acp_agent.storage.rows import (
    ArchiveFilter,
    SessionPage,
    SessionRecord,
    find,
    fold_from,
    read_events,
    read_page,
    read_record,
    read_some,
    read_working_directories,
    storable,
)
from acp_agent.storage.search import FoundMessage, search
from acp_agent.storage.search_index import extend, forget, forget_deleted
from acp_agent.storage.writes import append, archive, create, delete

P = ParamSpec("P")
T = TypeVar("T")

_log = logging.getLogger(__name__)

LAST_SECONDS = 1.0
"""How many seconds to wait for another process's lock during shutdown."""
_TRY_MILLISECONDS = 50
_BATCH_EVENTS = 500
_BATCH_CHARACTERS = 4 << 20
# Indexing this many characters takes about ten milliseconds, for which a prompt may have
# to wait.
_PREPARED_CHARACTERS = 1 << 16

_READ_BLOB = "SELECT sha256, data FROM blob_uses JOIN blobs USING (sha256) WHERE session = ? AND sha256 = ?"


class SessionStore:
    """An append-only log per session, and the list of sessions.

    Every method may be called from any task. Every write is atomic. Once the file has
    been deleted, emptied or replaced, all methods fail, since their writes would be
    lost.

    :ivar is_read_only: whether the file can be read but not written.
    """

    def __init__(
        self, path: Path, connection: sqlite3.Connection, limiter: anyio.CapacityLimiter
    ) -> None:
        self._path = path
        self._file = file_id(path)
        self.is_read_only = is_read_only(path)
        self._connection: sqlite3.Connection | None = connection
        self._limiter = limiter
        # With the limiter, tasks wait without occupying a thread. The lock is needed if
        # a task is cancelled without anyio (`asyncio.Task.cancel`), since its thread
        # then keeps running.
        self._lock = threading.Lock()
        self._give_up_from = math.inf

    @classmethod
    async def open(cls, path: Path) -> SessionStore:
        """Open the database, creating it if it does not exist.

        :param path: absolute path of the file. Its folder is created if necessary and
            made private.
        :raises ConfigError: if the folder cannot be used.
        :raises StorageError: if the file cannot be used. The file is not changed.
        """
        limiter = anyio.CapacityLimiter(1)
        connection = await to_thread.run_sync(_open, path, limiter=limiter)
        # See `_retry_while_locked`.
        connection.execute(f"PRAGMA busy_timeout = {_TRY_MILLISECONDS}")
        return cls(path, connection, limiter)

    async def create(
        self,
        session_id: str,
        cwd: str,
        additional_directories: Sequence[str],
        events: Sequence[Event],
    ) -> tuple[LoggedEvent, ...]:
        """Create a session whose log begins with these events.

        :raises StorageError: if the id is in use or belonged to a deleted session.
        """
        return await self._run(
            create, session_id, cwd, tuple(additional_directories), tuple(events)
        )

    async def fork(
        self,
        session_id: str,
        new_id: str,
        at: int,
        cwd: str,
        additional_directories: Sequence[str],
        events: Sequence[Event],
    ) -> tuple[LoggedEvent, ...]:
        """Copy a log up to entry `at` into a new, independent session, and append
        events to the copy.

        :returns: the appended events.
        :raises SessionNotFoundError: if there is no such session.
        :raises InvalidParamsError: if there is no entry `at`.
        :raises StorageError: if the new id is in use or belonged to a deleted session.
        """
        return await self._run(
            create,
            new_id,
            cwd,
            tuple(additional_directories),
            tuple(events),
            (session_id, at),
        )

    async def append(
        self, session_id: str, expected: int, events: Sequence[Event]
    ) -> tuple[LoggedEvent, ...]:
        """Append events durably to a log whose last entry is `expected`. A cancelled
        call may still have taken effect.

        :raises SessionConflictError: if the log ends at another entry.
        :raises SessionNotFoundError: if there is no such session, or it was deleted.
        """
        return await self._run(append, session_id, expected, tuple(events))

    async def record(self, session_id: str) -> SessionRecord:
        """Return the record of a session.

        :raises SessionNotFoundError: if there is no such session.
        """
        return await self._run(read_record, session_id)

    async def context(self, session_id: str) -> Context:
        """Return the context, folded from the log starting at the tail of the last
        compaction.

        :raises SessionNotFoundError: if there is no such session.
        """
        return await self._read(
            session_id,
            lambda db, session, head, context_from: Context.from_log(
                read_events(db, session, context_from, head)
            ),
        )

    async def context_at(self, session_id: str, seq: int) -> Context:
        """Return the context as it was after entry `seq`, folded from the log up to
        that entry.

        :param seq: any number. A number after the head means the head. A number before
            the first entry gives an empty context.
        :raises SessionNotFoundError: if there is no such session.
        """

        def fold(db: sqlite3.Connection, session: int, head: int, _: int) -> Context:
            last = max(0, min(seq, head))
            return Context.from_log(
                read_events(db, session, fold_from(db, session, last), last)
            )

        return await self._read(session_id, fold)

    async def search(
        self, session_id: str, query: str, *, limit: int, without: Collection[int] = ()
    ) -> tuple[FoundMessage, ...]:
        """Return up to `limit` messages that match a query, best first; see
        `acp_agent.storage.search.search`.

        :param query: words, and phrases in double quotes.
        :param without: sequence numbers of messages to leave out.
        :raises SessionNotFoundError: if there is no such session.
        """
        if self.is_read_only:
            return await self._run(search, session_id, query, limit, None, without)
        # Index one batch at a time, so that other sessions can append in between.
        while await self._run(extend, self._path, session_id):
            continue
        return await self._run(search, session_id, query, limit, self._path, without)

    async def prepare_search(self, session_id: str) -> None:
        """Index the messages that are not indexed yet, in batches small enough not to
        delay other sessions noticeably.

        It may be cancelled after any batch; the next call or search continues from
        there.

        :raises SessionNotFoundError: if there is no such session.
        """
        if not self.is_read_only:
            while await self._run(extend, self._path, session_id, _PREPARED_CHARACTERS):
                continue

    async def read(
        self, session_id: str, seqs: Sequence[int]
    ) -> tuple[LoggedEvent, ...]:
        """Return the entries with these sequence numbers, in order and without
        duplicates. Unknown numbers are ignored.

        :raises SessionNotFoundError: if there is no such session.
        """
        return await self._read(
            session_id,
            lambda db, session, head, _: tuple(
                read_some(db, session, sorted({n for n in seqs if 1 <= n <= head}))
            ),
        )

    async def blobs(
        self, session_id: str, digests: Collection[str]
    ) -> dict[str, bytes]:
        """Return the blobs with these SHA-256 digests that the session's events refer
        to; see `extract_blobs`.

        A blob is stored once for all sessions, and deleted with the last session that
        refers to it.

        :raises SessionNotFoundError: if there is no such session.
        """

        def found(db: sqlite3.Connection, session: int, *_: int) -> dict[str, bytes]:
            rows = (
                db.execute(_READ_BLOB, (session, storable(digest))).fetchone()
                for digest in digests
            )
            return dict(row for row in rows if row is not None)

        return await self._read(session_id, found)

    async def events(
        self, session_id: str, after: int = 0
    ) -> AsyncIterator[LoggedEvent]:
        """Yield all entries after entry `after` in order. The log is read in batches to
        limit memory use.

        :raises SessionNotFoundError: if there is no such session.
        """
        upto: int | None = None
        while True:
            upto, entries = await self._read(
                session_id, partial(_read_batch, after, upto)
            )
            for logged in entries:
                yield logged
            if not entries or (after := entries[-1].seq) >= upto:
                return

    async def list(
        self,
        cwd: str | None = None,
        cursor: str | None = None,
        limit: int = 50,
        archived: ArchiveFilter = "exclude",
        include_unused: Collection[str] | None = None,
    ) -> SessionPage:
        """Return a page of sessions, newest first.

        :param cwd: list only the sessions in this directory, including sessions that
            reach it through other symbolic links.
        :param include_unused: IDs of unused sessions to list. A session is unused if it
            was never prompted, named or archived, and is not a fork. None lists all
            unused sessions.
        :raises InvalidParamsError: if the cursor is invalid.
        """
        return await self._run(read_page, cwd, cursor, limit, archived, include_unused)

    async def working_directories(self) -> tuple[str, ...]:
        """Return the distinct working directories of all sessions."""
        return tuple(await self._run(read_working_directories))

    async def archive(self, session_id: str, archived: bool) -> None:
        """Hide a session from the default list, or show it again. Its update time does
        not change.

        :raises SessionNotFoundError: if there is no such session.
        """
        await self._run(archive, session_id, archived)

    async def delete(self, session_id: str) -> None:
        """Delete a session and its log permanently. An unknown session is not an error.
        A later append cannot revive the session.
        """
        await self._run(self._delete, session_id)

    def begin_shutdown(self) -> None:
        """Wait only briefly for locks from now on, since the process is ending, and log
        failed writes.
        """
        self._give_up_from = min(self._give_up_from, time.monotonic() + LAST_SECONDS)

    async def aclose(self) -> None:
        """Close the store; safe to call twice."""
        with anyio.CancelScope(shield=True):
            await to_thread.run_sync(self._close, limiter=self._limiter)

    def _close(self) -> None:
        with self._lock, storage_errors(self._path):
            if self._connection is not None:
                self._connection.close()
            self._connection = None

    async def _read(
        self, session_id: str, work: Callable[[sqlite3.Connection, int, int, int], T]
    ) -> T:
        """Call `work` in a read transaction, with the session's number, its head, and
        the start of its context.

        :raises SessionNotFoundError: if there is no such session.
        """

        def within(connection: sqlite3.Connection) -> T:
            with transaction(connection, "DEFERRED"):
                return work(connection, *find(connection, session_id))

        return await self._run(within)

    async def _run(
        self,
        work: Callable[Concatenate[sqlite3.Connection, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        def locked() -> T:
            with self._lock, storage_errors(self._path):
                if self._connection is None:
                    raise StorageError(
                        f"The session store {self._path} was closed. Restart acp-agent."
                    )
                if file_id(self._path) != self._file:
                    raise StorageError(
                        f"The session store {self._path} was replaced while acp-agent had it open. Nothing was "
                        "written. Restart acp-agent to continue with the new file."
                    )
                return self._retry_while_locked(
                    partial(work, self._connection, *args, **kwargs)
                )

        return await to_thread.run_sync(locked, limiter=self._limiter)

    def _retry_while_locked(self, work: Callable[[], T]) -> T:
        """Run a transaction, and retry it while another process holds the lock.

        SQLite can wait for the lock itself, but a shutdown could not end that wait.
        """
        until = time.monotonic() + BUSY_SECONDS
        while True:
            try:
                return work()
            except sqlite3.OperationalError as error:
                now = time.monotonic()
                if not is_busy(error) or now > until:
                    raise
                if now > self._give_up_from:
                    _log.error(
                        "%s is locked by another process, so the last events of a session were not stored",
                        self._path,
                    )
                    raise

    def _delete(self, connection: sqlite3.Connection, session_id: str) -> None:
        deleted = delete(connection, session_id)
        if deleted is None:
            return
        forget(self._path, deleted)
        # Deleted data is overwritten in the database file (`secure_delete`) but would
        # remain in the write-ahead log, which cannot be truncated while another process
        # reads. SQLite itself waits for `_TRY_MILLISECONDS`.
        until = time.monotonic() + BUSY_SECONDS
        while connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]:
            if time.monotonic() > min(until, self._give_up_from):
                return


def _open(path: Path) -> sqlite3.Connection:
    connection = open_database(path)
    if not is_read_only(path):
        with storage_errors(path):
            forget_deleted(connection, path)
    return connection


def _read_batch(
    after: int,
    upto: int | None,
    connection: sqlite3.Connection,
    session: int,
    head: int,
    _: int,
) -> tuple[int, tuple[LoggedEvent, ...]]:
    upto = head if upto is None else upto
    last = min(upto, after + _BATCH_EVENTS)
    return upto, tuple(
        read_events(connection, session, after + 1, last, _BATCH_CHARACTERS)
    )
