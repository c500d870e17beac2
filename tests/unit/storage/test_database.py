"""The database file: private, never damaged, migrated completely or not at all, and
with errors that explain what to do.
"""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from acp_agent.conversation.events import (
    NoteAdded,
    SessionStarted,
    TitleChanged,
    UserPrompted,
)
from acp_agent.conversation.messages import Text
from acp_agent.errors import SessionNotFoundError, StorageError
from acp_agent.storage.database import migrate, storage_errors, transaction
from acp_agent.storage.migrations import MIGRATIONS
from acp_agent.storage.store import SessionStore

EARLIER = [f"version_{number}.sql" for number in range(1, len(MIGRATIONS))]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "sessions.db"


@contextmanager
def umask(value: int) -> Iterator[None]:
    before = os.umask(value)
    try:
        yield
    finally:
        os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


async def fill(path: Path, *events: NoteAdded | TitleChanged) -> None:
    store = await SessionStore.open(path)
    await store.create("s1", "/shop", [], [SessionStarted("/shop"), *events])
    await store.aclose()


async def test_only_the_owner_can_read_the_files_whatever_the_umask(
    tmp_path: Path,
) -> None:
    path = tmp_path / "new" / "home" / "sessions.db"
    with umask(0):
        store = await SessionStore.open(path)
        await store.create("s1", "/shop", [], [SessionStarted("/shop")])
    files = {file.name: mode(file) for file in path.parent.iterdir()}
    assert files == {
        "sessions.db": 0o600,
        "sessions.db-wal": 0o600,
        "sessions.db-shm": 0o600,
    }
    assert mode(path.parent) == 0o700
    await store.aclose()


async def test_a_new_database_is_complete_before_it_gets_its_name(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    versions = list[int]()
    make = os.link

    def link(made: str, name: Path) -> None:
        with closing(sqlite3.connect(made)) as database:
            versions.append(database.execute("PRAGMA user_version").fetchone()[0])
        make(made, name)

    monkeypatch.setattr(os, "link", link)
    await fill(path)
    assert versions == [len(MIGRATIONS)]


async def test_files_that_others_could_read_are_made_private(path: Path) -> None:
    first = await SessionStore.open(path)
    await first.create("s1", "/shop", [], [SessionStarted("/shop")])
    files = [path, Path(f"{path}-wal"), Path(f"{path}-shm")]
    for file in files:
        file.chmod(0o644)
    second = await SessionStore.open(path)
    assert [mode(file) for file in files] == [0o600] * 3
    await second.aclose()
    await first.aclose()


async def test_a_file_that_is_no_database_is_not_changed(path: Path) -> None:
    path.write_bytes(b"Dear diary, " * 1000)
    with pytest.raises(
        StorageError,
        match=r"sessions\.db is damaged or not a database .*not changed.*move it",
    ):
        await SessionStore.open(path)
    assert path.read_bytes() == b"Dear diary, " * 1000
    assert [file.name for file in path.parent.iterdir()] == ["sessions.db"]


async def test_a_damaged_database_is_not_changed(path: Path) -> None:
    await fill(path, *(NoteAdded("msg_1", "x" * 3000) for _ in range(200)))
    with path.open("r+b") as file:
        file.seek(16 * 4096)  # after the pages that describe the tables
        file.write(b"\xa5" * 4096 * 100)
    damaged = path.read_bytes()
    store = await SessionStore.open(path)
    for _ in range(2):
        with pytest.raises(StorageError, match=r"sessions\.db is damaged .*restore it"):
            _ = [entry async for entry in store.events("s1")]
    await store.aclose()
    assert path.read_bytes() == damaged


@pytest.mark.parametrize("whose", ["another program", "newer acp-agent"])
async def test_a_foreign_or_newer_database_is_not_changed(
    path: Path, whose: str
) -> None:
    newer = len(MIGRATIONS) + 1
    cure = "move it away"
    if whose == "newer acp-agent":
        await fill(path)
        cure = rf"its version is {newer}.*Update acp-agent"
    with closing(sqlite3.connect(path)) as connection:
        own = "CREATE TABLE sessions (bookmark TEXT)"
        connection.execute(
            own if whose == "another program" else f"PRAGMA user_version = {newer}"
        )
    before = path.read_bytes()
    with pytest.raises(StorageError, match=rf"sessions\.db .*{whose}.*{cure}"):
        await SessionStore.open(path)
    assert path.read_bytes() == before


async def test_an_empty_file_is_not_treated_as_a_new_store(path: Path) -> None:
    await fill(path)
    path.write_bytes(b"")
    with pytest.raises(
        StorageError,
        match=r"sessions\.db is empty \(0 bytes\), so its sessions are gone.*Put",
    ):
        await SessionStore.open(path)
    assert path.read_bytes() == b""


@pytest.mark.parametrize("lost", ["deleted", "replaced", "emptied", "with its folder"])
async def test_an_open_store_whose_file_is_lost_rejects_every_call(
    path: Path, tmp_path: Path, lost: str
) -> None:
    path = path.parent / "home" / path.name
    store = await SessionStore.open(path)
    head = len(await store.create("s1", "/shop", [], [SessionStarted("/shop")]))
    if lost == "with its folder":
        path.parent.rename(tmp_path / "away")
    elif lost == "emptied":
        path.write_bytes(b"")
    else:
        path.unlink()
        # A new store would not use the write-ahead log of the lost one.
        with pytest.raises(StorageError, match="cannot be found"):
            await SessionStore.open(path)
    if lost == "replaced":
        for file in path.parent.iterdir():
            file.unlink()
        await fill(path)
    sentence = {"replaced": "was replaced while", "emptied": "is empty"}.get(
        lost, "cannot be found"
    )
    for _ in range(2):
        with pytest.raises(
            StorageError,
            match=rf"sessions\.db {sentence}.*Nothing was written.*start acp-agent",
        ):
            await store.append("s1", head, [NoteAdded("msg", "lost")])
        with pytest.raises(StorageError, match=sentence):
            await store.list()
    if lost == "with its folder":
        (tmp_path / "away").rename(path.parent)
        assert len(await store.append("s1", head, [NoteAdded("msg", "found")])) == 1
    await store.aclose()


async def test_no_database_is_created_through_a_dangling_symbolic_link(
    path: Path,
) -> None:
    path.symlink_to(path.with_name("elsewhere.db"))
    with pytest.raises(StorageError, match=r"sessions\.db is not a file"):
        await SessionStore.open(path)
    assert not path.with_name("elsewhere.db").exists()


def test_a_lock_that_is_never_released_is_explained(path: Path) -> None:
    with (
        closing(sqlite3.connect(path, isolation_level=None)) as holder,
        closing(sqlite3.connect(path, isolation_level=None, timeout=0)) as waiter,
    ):
        holder.execute("BEGIN EXCLUSIVE")
        with (
            pytest.raises(
                StorageError,
                match=r"sessions\.db has been locked by another process.*try again",
            ),
            storage_errors(path),
            transaction(waiter),
        ):
            raise AssertionError("the lock was given twice")


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE events SET data = '{}' WHERE seq = 2",
        "UPDATE events SET seq = 9 WHERE seq = 3",
        "DELETE FROM events WHERE seq = 3",
        "DELETE FROM events",
        "INSERT OR REPLACE INTO events VALUES (1, 2, 0, 'note_added', '{}')",
        "REPLACE INTO events VALUES (1, 3, 0, 'note_added', '{}')",
        "INSERT INTO events VALUES (1, 5, 0, 'note_added', '{}')",
        "INSERT INTO events VALUES (1, 0, 0, 'note_added', '{}')",
        "INSERT INTO events VALUES (2, 1, 0, 'note_added', '{}')",
        "INSERT INTO events VALUES (2, 2, 0, 'note_added', '{}')",
        "INSERT INTO events VALUES (7, 1, 0, 'note_added', '{}')",
        "INSERT INTO events VALUES (1, 4, 'yesterday', 'note_added', '{}')",
        "DELETE FROM sessions",
        "UPDATE sessions SET deleted_at = NULL WHERE id = 2",
    ],
)
async def test_database_triggers_prevent_changes_to_a_log(
    path: Path, statement: str
) -> None:
    store = await SessionStore.open(path)
    await store.create(
        "s1",
        "/shop",
        [],
        [SessionStarted("/shop"), TitleChanged("a"), TitleChanged("b")],
    )
    await store.create("s2", "/shop", [], [SessionStarted("/shop")])
    await store.delete("s2")
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA foreign_keys = ON")
        before = (
            list(connection.execute("SELECT * FROM events")),
            list(connection.execute("SELECT * FROM sessions")),
        )
        with pytest.raises(sqlite3.IntegrityError):
            connection.execute(statement)
        after = (
            list(connection.execute("SELECT * FROM events")),
            list(connection.execute("SELECT * FROM sessions")),
        )
    assert after == before
    assert len(after[0]) == 3
    await store.aclose()


async def test_deleted_text_remains_in_none_of_the_files(path: Path) -> None:
    store = await SessionStore.open(path)
    secrets = ("my-prompt", "my-title", "my-folder", "my-library")
    events = [
        TitleChanged("my-title"),
        *(NoteAdded("msg_1", f"my-prompt {'x' * size}") for size in (1, 3000, 9000)),
    ]
    await store.create("s1", "/my-folder", ["/my-library"], events)
    await store.create("s2", "/shop", [], [SessionStarted("/shop")])

    def found() -> list[str]:
        return [
            text
            for text in secrets
            for file in path.parent.iterdir()
            if text.encode() in file.read_bytes()
        ]

    assert set(found()) == set(secrets)
    await store.delete("s1")
    assert found() == []
    await store.aclose()
    assert found() == []


@pytest.mark.parametrize("version", EARLIER)
async def test_a_database_of_an_earlier_version_is_migrated_and_usable(
    path: Path, version: str
) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(Path(__file__).with_name(version).read_text("utf-8"))
    store = await SessionStore.open(path)
    record = await store.record("s1")
    assert (record.cwd, record.additional_directories, record.title) == (
        "/shop",
        ("/lib",),
        "The cart",
    )
    assert (record.created_at, record.updated_at, record.head) == (
        1700000000000,
        1700000002000,
        3,
    )
    assert not record.archived
    assert [
        row.session_id for row in (await store.list(include_unused=())).sessions
    ] == ["s1"]
    await store.archive("s1", True)
    assert [
        row.session_id for row in (await store.list("/shop", archived="only")).sessions
    ] == ["s1"]
    await store.archive("s1", False)
    assert [entry.event async for entry in store.events("s1")] == [
        SessionStarted("/shop", ("/lib",)),
        UserPrompted("msg_1", (Text("grün"),)),
        TitleChanged("The cart"),
    ]
    assert len((await store.context("s1")).messages) == 1
    await store.append("s1", 3, [UserPrompted("msg_2", (Text("Ist er grün?"),))])
    assert {hit.seq for hit in await store.search("s1", "Grun", limit=9)} == {2, 4}
    with pytest.raises(SessionNotFoundError):
        await store.record("s2")
    await store.delete("s1")
    await store.aclose()


@pytest.mark.parametrize("version", EARLIER)
async def test_a_migrated_database_has_the_same_tables_as_a_new_one(
    tmp_path: Path, version: str
) -> None:
    schemas: list[list[str]] = []
    for name in ("old.db", "new.db"):
        if name == "old.db":
            with closing(sqlite3.connect(tmp_path / name)) as connection:
                connection.executescript(
                    Path(__file__).with_name(version).read_text("utf-8")
                )
        store = await SessionStore.open(tmp_path / name)
        # The index of earlier versions stays until a session is deleted.
        await store.aclose()
        with closing(sqlite3.connect(tmp_path / name)) as connection:
            created = connection.execute(
                "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL AND name NOT LIKE 'message_index%' ORDER BY name"
            )
            schemas.append(
                [
                    " ".join(sql.replace("IF NOT EXISTS ", "").split())
                    for (sql,) in created
                ]
            )
    assert schemas[0] == schemas[1]


def test_a_failed_migration_changes_nothing(path: Path) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        migrate(connection, [_table("one")])
        with pytest.raises(sqlite3.OperationalError, match="already exists"):
            migrate(connection, [_table("one"), _table("two"), _table("one")])
        assert _tables(connection) == ["one"]
        assert connection.execute("PRAGMA user_version").fetchone() == (1,)
        assert not connection.in_transaction


def _table(name: str):
    return lambda connection: connection.execute(f"CREATE TABLE {name} (x)")


def _tables(connection: sqlite3.Connection) -> list[str]:
    return [
        name
        for (name,) in connection.execute(
            "SELECT name FROM sqlite_master ORDER BY name"
        )
    ]
