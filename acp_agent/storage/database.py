"""Opens the database file: sets its permissions, migrates it, and explains errors.

This module never deletes or replaces a database. It leaves an unusable database
untouched, and copies a database before migrating it.
"""

from __future__ import annotations

import os
import sqlite3
import tempfile
import time
from collections.abc import Generator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import quote_from_bytes

from acp_agent.config.home import DISK_FULL, HOME_VARIABLE, ensure_private_dir
from acp_agent.errors import StorageError
from acp_agent.storage.migrations import MIGRATIONS, Migration

APPLICATION_ID = 0x41435041
"""Marks the file as an acp-agent database (`PRAGMA application_id`), so that another
program's database is not mistaken for an old one.
"""

BUSY_SECONDS = 5.0
"""How many seconds to wait for another process's lock."""
_SQLITE_NEEDED = (3, 37, 0)
_ELSEWHERE = f"or set {HOME_VARIABLE} to another folder"


def open_database(path: Path) -> sqlite3.Connection:
    """Open the database, creating it if it does not exist. This blocks.

    The folder gets mode 0700; the file and its companions (`-wal`, `-shm`) get 0600. If
    the file or its folder is not writable, the database is opened read-only.

    WAL mode lets processes read while another one writes. In WAL mode, `synchronous` is
    set to NORMAL: a commit survives a crash of the process. A power failure may lose
    the last commits but never damages the file. FULL would keep those commits too, but
    would wait for the disk at every event: 90 instead of 25 µs of CPU on a fast disk,
    and milliseconds on others.

    :param path: absolute path of the file.
    :raises ConfigError: if the folder cannot be used.
    :raises StorageError: if the file cannot be opened, is not an acp-agent database, is
        damaged, or was written by a newer version.
    """
    if sqlite3.sqlite_version_info < _SQLITE_NEEDED:
        raise StorageError(
            f"acp-agent needs SQLite 3.37 or newer, but this Python includes {sqlite3.sqlite_version}. "
            "Install acp-agent with a newer Python version."
        )
    writable = not is_read_only(path)
    if writable:
        ensure_private_dir(path.parent)
        if _wal(path).exists():
            # If there is a write-ahead log, the database must exist too. Otherwise, the
            # log of a deleted database would be applied to a new one.
            file_id(path)
        _make_private(path)
    file_id(path)
    with storage_errors(path):
        options = "mode=rw" if writable else "mode=ro"
        if not writable and not _wal(path).exists():
            # In a read-only folder, SQLite opens a WAL database without a `-wal` file
            # only if the database is declared immutable.
            options += "&immutable=1"
        connection = sqlite3.connect(
            _uri(path, options),
            uri=True,
            timeout=BUSY_SECONDS,
            isolation_level=None,
            check_same_thread=False,
        )
        try:
            _check_ours(connection, path)
            if not writable and _pragma(connection, "user_version") < len(MIGRATIONS):
                raise StorageError(
                    f"The session store {path} is from an earlier version and read-only, so it cannot be "
                    f"migrated. Make the file and its folder writable, {_ELSEWHERE}."
                )
            if writable and _use_wal(connection):
                connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute("PRAGMA foreign_keys = ON")
            connection.execute("PRAGMA secure_delete = ON")
            migrate(connection, copied=path)
        except BaseException:
            connection.close()
            raise
    return connection


def migrate(
    connection: sqlite3.Connection,
    migrations: Sequence[Migration] = MIGRATIONS,
    *,
    copied: Path | None = None,
) -> None:
    """Run the migrations that this database needs. If one fails, none takes effect.

    :param copied: the database file to copy to `<name>.v<version>` before the first
        migration; a new database is not copied.
    :raises StorageError: if the file cannot be copied. No migration has been run.
    """
    if _pragma(connection, "user_version") == len(migrations):
        return
    with transaction(connection):
        # Read the version again: another process may have migrated the database while
        # this one waited for the lock.
        version = _pragma(connection, "user_version")
        if copied is not None and 0 < version < len(migrations):
            _copy(copied, version)
        for step in migrations[version:]:
            step(connection)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {len(migrations)}")


@contextmanager
def transaction(
    connection: sqlite3.Connection, mode: str = "IMMEDIATE"
) -> Generator[None]:
    """Run the block in one transaction.

    :param mode: `IMMEDIATE` to write; `DEFERRED` to read from one snapshot.
    """
    connection.execute(f"BEGIN {mode}")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


@contextmanager
def storage_errors(path: Path) -> Generator[None]:
    """Replace SQLite's errors with errors that name the file and say what to do.

    :raises StorageError: instead of any `sqlite3.Error`.
    """
    try:
        yield
    except sqlite3.Error as error:
        raise StorageError(_explanation(path, error)) from error


def is_busy(error: sqlite3.Error) -> bool:
    """Return whether the error means that another process holds the lock."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY


def _explanation(path: Path, error: sqlite3.Error) -> str:
    """Return what went wrong, and what the user can do."""
    # The lowest byte of an extended code, such as SQLITE_IOERR_WRITE, is the primary
    # code.
    code = getattr(error, "sqlite_errorcode", 0)
    if code == sqlite3.SQLITE_IOERR_SHMSIZE:
        return _full(path)  # there is no room for the 32 KiB of the `-shm` file
    match code & 0xFF:
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return (
                f"The session store {path} has been locked by another process for more than {BUSY_SECONDS:g} seconds. "
                "Close other programs that have it open, and try again. Nothing was written to it."
            )
        case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB:
            return (
                f"The session store {path} is damaged or not a database ({error}). It was not changed: restore it "
                f"from a backup, or move it and its -wal and -shm files away to start over, {_ELSEWHERE}."
            )
        case sqlite3.SQLITE_FULL:
            return _full(path)
        case sqlite3.SQLITE_READONLY if is_read_only(path):
            return (
                f"The session store {path} is read-only: its sessions can be listed and read, but not continued. "
                f"Make the file and its folder writable and restart acp-agent, {_ELSEWHERE}."
            )
        case (
            sqlite3.SQLITE_READONLY
            | sqlite3.SQLITE_CANTOPEN
            | sqlite3.SQLITE_PERM
            | sqlite3.SQLITE_IOERR
        ):
            return (
                f"The session store {path} cannot be opened or written ({error}). Check the disk and the permissions "
                f"of the file and its folder, {_ELSEWHERE}."
            )
        case _:
            return f"The session store {path} could not complete the operation ({error}). Nothing was written to it."


def _copy_of(path: Path, version: int) -> Path:
    return path.with_name(f"{path.name}.v{version}")


def _copy(path: Path, version: int) -> None:
    """Copy the database, unless there is already a copy of this version. The caller
    holds the write lock.
    """
    copy = _copy_of(path, version)
    if copy.exists():
        return
    unfinished = copy.with_name(f"{copy.name}.unfinished")
    try:
        os.close(
            os.open(
                unfinished, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600
            )
        )
        # A connection with an open write transaction cannot be the source of a backup.
        # A second connection sees the same data until the first one commits.
        with (
            closing(sqlite3.connect(_uri(path, "mode=ro"), uri=True)) as source,
            closing(sqlite3.connect(_uri(unfinished, "mode=rw"), uri=True)) as target,
        ):
            source.backup(target)
        unfinished.rename(copy)
    except OSError as error:
        raise StorageError(
            f"The session store {path} must be migrated, but its copy {copy} cannot be made "
            f"({error.strerror}). Nothing was changed. {_ADVICE}"
        ) from error


def _wal(path: Path) -> Path:
    return Path(f"{path}-wal")


def _full(path: Path) -> str:
    return f"The disk with the session store {path} is full. Free some space and try again. Nothing was written."


def _uri(path: Path, options: str) -> str:
    # Since Python 3.14, `Path.as_uri` imports urllib.request, which would delay the
    # first session.
    return f"file:{quote_from_bytes(os.fsencode(path))}?{options}"


def file_id(path: Path) -> tuple[int, int]:
    """Return the device and inode, which identify the file even if another file
    replaces it at this path.

    :raises StorageError: if the file does not exist or is empty, which means that its
        sessions are lost.
    """
    try:
        status = path.stat()
    except OSError as error:
        raise StorageError(
            f"The session store {path} cannot be found ({error.strerror}). {_LOST}"
        ) from error
    if not status.st_size:
        raise StorageError(
            f"The session store {path} is empty (0 bytes), so its sessions are gone. {_LOST}"
        )
    return status.st_dev, status.st_ino


_LOST = (
    "Nothing was written. Put the file back, or a copy of it. To start over, delete all files whose names begin "
    f"with its name, {_ELSEWHERE}. Then restart acp-agent."
)


def is_read_only(path: Path) -> bool:
    """Return whether the file exists, and the file or its folder is not writable."""
    return path.is_file() and not (
        os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)
    )


def _make_private(path: Path) -> None:
    """Create the file if it does not exist, and let only its owner read it."""
    if not os.path.lexists(path):
        _make(path)
    if not path.is_file() or not os.access(path, os.R_OK | os.W_OK):
        raise StorageError(
            f"The session store {path} is not a file that you can read and write. {_ADVICE}"
        )
    # SQLite creates the companion files with the mode of the database file.
    for file in (path, _wal(path), Path(f"{path}-shm")):
        try:
            if file.stat().st_mode & 0o077:
                file.chmod(0o600)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise StorageError(
                f"{file} cannot be made private ({error.strerror}). {_ADVICE}"
            ) from error


def _make(path: Path) -> None:
    """Create a new database. The file gets its final name only once it is complete, so
    an empty file is never a new database.
    """
    try:
        descriptor, name = tempfile.mkstemp(prefix=f"{path.name}.new-", dir=path.parent)
        try:
            os.close(descriptor)
            with (
                storage_errors(path),
                closing(
                    sqlite3.connect(_uri(Path(name), "mode=rw"), uri=True)
                ) as connection,
            ):
                # The file is not used until it is complete.
                connection.execute("PRAGMA journal_mode = MEMORY")
                migrate(connection)
            try:
                os.link(name, path)
            except (
                OSError
            ):  # another process was faster, or the file system has no hard links
                if not os.path.lexists(path):
                    Path(name).rename(path)
        finally:
            Path(name).unlink(missing_ok=True)
    except OSError as error:
        if error.errno in DISK_FULL:
            raise StorageError(_full(path)) from error
        raise StorageError(
            f"The session store {path} cannot be created ({error.strerror}). {_ADVICE}"
        ) from error


_ADVICE = f"Check its owner and permissions, {_ELSEWHERE}."


def _check_ours(connection: sqlite3.Connection, path: Path) -> None:
    """Raise an error if the database is another program's or of a newer version."""
    # Read one snapshot, since another process may be creating the tables.
    with transaction(connection, "DEFERRED"):
        version = _pragma(connection, "user_version")
        application = _pragma(connection, "application_id")
        empty = (
            not application
            and not version
            and not _pragma(connection, "schema_version")
        )
    if application != APPLICATION_ID and not empty:
        raise StorageError(
            f"{path} is another program's database. It was not changed: move it away, {_ELSEWHERE}."
        )
    if version > len(MIGRATIONS):
        copy = _copy_of(path, len(MIGRATIONS))
        before = f" As it was before that, it is in {copy}." if copy.exists() else ""
        raise StorageError(
            f"The session store {path} was written by a newer acp-agent (its version is {version}, and this one knows "
            f"{len(MIGRATIONS)}). Update acp-agent, {_ELSEWHERE}. The file was not changed.{before}"
        )


def _use_wal(connection: sqlite3.Connection) -> bool:
    """Switch to WAL mode. Return whether the file system supports it."""
    # If several processes open a new database at the same time, SQLite does not wait for
    # the lock by itself.
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            mode: str = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
        except sqlite3.OperationalError as error:
            if not is_busy(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
        else:
            return mode == "wal"


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    return connection.execute(f"PRAGMA {name}").fetchone()[0]
