"""The numbered migrations of the database.

Migration n upgrades a database from version n - 1 to version n (`PRAGMA user_version`).
Never edit a released migration; add a new one. `database.py` runs all pending
migrations in one transaction.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import TypeAlias

Migration: TypeAlias = Callable[[sqlite3.Connection], None]


def _m1_sessions_and_events(connection: sqlite3.Connection) -> None:
    # The row of a deleted session is emptied but kept, so that neither its id nor its
    # number is ever reused.
    connection.execute(
        """
        CREATE TABLE sessions (
            id INTEGER PRIMARY KEY,
            session_id TEXT NOT NULL UNIQUE,
            cwd TEXT NOT NULL,
            additional_directories TEXT NOT NULL,
            title TEXT,
            created_at INTEGER NOT NULL,
            updated_at INTEGER NOT NULL,
            head INTEGER NOT NULL,
            context_from INTEGER NOT NULL,
            deleted_at INTEGER
        ) STRICT
        """
    )
    # The table has rowids and a narrow unique index. With WITHOUT ROWID, each entry of
    # more than a kilobyte (most tool results) takes its own overflow page, which
    # doubled the file size and made appends a third slower.
    connection.execute(
        """
        CREATE TABLE events (
            session INTEGER NOT NULL REFERENCES sessions (id),
            seq INTEGER NOT NULL,
            at INTEGER NOT NULL,
            kind TEXT NOT NULL,
            data TEXT NOT NULL,
            UNIQUE (session, seq)
        ) STRICT
        """
    )
    # This rejects gaps, the logs of deleted sessions, and `INSERT OR REPLACE`, which
    # deletes without firing a trigger.
    connection.execute(
        """
        CREATE TRIGGER events_are_appended BEFORE INSERT ON events
        WHEN NEW.seq IS NOT (SELECT coalesce(max(seq), 0) + 1 FROM events WHERE session = NEW.session)
            OR (SELECT deleted_at FROM sessions WHERE id = NEW.session) IS NOT NULL
        BEGIN SELECT RAISE(ABORT, 'an event is only ever appended to the end of a log'); END
        """
    )
    connection.execute(
        """
        CREATE TRIGGER events_are_final BEFORE UPDATE ON events
        BEGIN SELECT RAISE(ABORT, 'an event is never changed'); END
        """
    )
    connection.execute(
        """
        CREATE TRIGGER events_go_with_their_session BEFORE DELETE ON events
        WHEN (SELECT deleted_at FROM sessions WHERE id = OLD.session) IS NULL
        BEGIN SELECT RAISE(ABORT, 'an event is never removed but with its whole session'); END
        """
    )
    connection.execute(
        """
        CREATE TRIGGER deleted_sessions_stay_deleted BEFORE UPDATE ON sessions
        WHEN OLD.deleted_at IS NOT NULL
        BEGIN SELECT RAISE(ABORT, 'a deleted session is never revived'); END
        """
    )
    connection.execute(
        """
        CREATE TRIGGER sessions_leave_their_id BEFORE DELETE ON sessions
        BEGIN SELECT RAISE(ABORT, 'the id of a session is never given away again'); END
        """
    )


def _m2_search(connection: sqlite3.Connection) -> None:
    # The last entry in the search index. Earlier versions built the index in this
    # database at the first search.
    connection.execute(
        "ALTER TABLE sessions ADD COLUMN indexed INTEGER NOT NULL DEFAULT 0"
    )


def _m3_archive_and_lists(connection: sqlite3.Connection) -> None:
    connection.execute("ALTER TABLE sessions ADD COLUMN archived_at INTEGER")
    # With these indexes, the lists of all sessions and of one directory's sessions are
    # read page by page without sorting.
    connection.execute(
        "CREATE INDEX sessions_by_time ON sessions (updated_at DESC, session_id) WHERE deleted_at IS NULL"
    )
    connection.execute(
        "CREATE INDEX sessions_by_place ON sessions (cwd, updated_at DESC, session_id) WHERE deleted_at IS NULL"
    )


def _m4_blobs(connection: sqlite3.Connection) -> None:
    # Each blob that events refer to is stored once. A trigger records that the session
    # uses it, however the event was inserted. The blob is deleted with the last session
    # that uses it.
    connection.execute(
        "CREATE TABLE blobs (sha256 TEXT PRIMARY KEY, data BLOB NOT NULL) STRICT"
    )
    connection.execute(
        """
        CREATE TABLE blob_uses (
            session INTEGER NOT NULL REFERENCES sessions (id),
            sha256 TEXT NOT NULL REFERENCES blobs (sha256),
            PRIMARY KEY (session, sha256)
        ) STRICT, WITHOUT ROWID
        """
    )
    connection.execute("CREATE INDEX blob_uses_of ON blob_uses (sha256)")
    connection.execute(
        """
        CREATE TRIGGER events_use_blobs AFTER INSERT ON events WHEN instr(NEW.data, '"sha256"')
        BEGIN
            INSERT OR IGNORE INTO blob_uses
            SELECT NEW.session, blobs.sha256 FROM json_tree(NEW.data) AS node JOIN blobs ON blobs.sha256 = node.value
            WHERE node.key = 'sha256' AND node.type = 'text';
        END
        """
    )
    connection.execute(
        """
        CREATE TRIGGER blobs_are_final BEFORE UPDATE ON blobs
        BEGIN SELECT RAISE(ABORT, 'a blob is named by what it is'); END
        """
    )
    connection.execute(
        """
        CREATE TRIGGER blobs_go_with_their_last_session AFTER DELETE ON blob_uses
        WHEN NOT EXISTS (SELECT 1 FROM blob_uses WHERE sha256 = OLD.sha256)
        BEGIN DELETE FROM blobs WHERE sha256 = OLD.sha256; END
        """
    )


def _m5_begun(connection: sqlite3.Connection) -> None:
    # Marks the sessions that were used, since editors open many that are not. A trigger
    # sets the flag, since processes of an earlier version may still be writing.
    connection.execute(
        "ALTER TABLE sessions ADD COLUMN begun INTEGER NOT NULL DEFAULT 0"
    )
    connection.execute(
        """
        UPDATE sessions SET begun = 1 WHERE deleted_at IS NULL AND EXISTS (
            SELECT 1 FROM events
            WHERE session = sessions.id AND kind IN ('user_prompted', 'title_changed', 'session_forked')
        )
        """
    )
    connection.execute(
        """
        CREATE TRIGGER sessions_begin AFTER INSERT ON events
        WHEN NEW.kind IN ('user_prompted', 'title_changed', 'session_forked')
        BEGIN UPDATE sessions SET begun = 1 WHERE id = NEW.session AND NOT begun; END
        """
    )


MIGRATIONS: tuple[Migration, ...] = (
    _m1_sessions_and_events,
    _m2_search,
    _m3_archive_and_lists,
    _m4_blobs,
    _m5_begun,
)
