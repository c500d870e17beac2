"""The index behind a search: how it orders, what it takes in and when, and what it forgets."""

from __future__ import annotations

import sqlite3
from contextlib import closing, suppress
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from acp_agent.conversation.events import (
    NoteAdded,
)
from acp_agent.errors import SessionNotFoundError
from acp_agent.storage.sqlite import SqliteStore
from support.searching import said, seqs
from support.stores import START, Open, opened


async def test_accents_do_not_count_in_an_index(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path / "sessions.db")
    await store.create("s1", "/shop", [], [START, said("Café München"), said("Cafe\u0301 Munchen")])
    for query in ("cafe", "munchen", "Munche", "CAFÉ MÜNCHEN"):
        assert sorted(await seqs(store, query)) == [2, 3], query
    await store.aclose()


async def test_the_message_that_is_most_about_a_word_comes_first_in_an_index(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path / "sessions.db")
    long = "a word among very many others " * 50
    await store.create("s1", "/shop", [], [START, said("needle needle"), said(f"{long} needle"), said("hay")])
    assert await seqs(store, "needle") == [2, 3]
    await store.aclose()


async def test_words_come_before_the_longer_words_that_begin_with_them_in_an_index(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path / "sessions.db")
    await store.create("s1", "/shop", [], [START, said("a config with a name"), said("configuration")])
    assert await seqs(store, "config") == [2, 3]
    assert await seqs(store, '"config"') == [2]
    await store.aclose()


async def test_what_is_logged_later_is_found_as_well(open_store: Open) -> None:
    async with opened(open_store) as store, opened(open_store) as other:
        await store.create("s1", "/shop", [], [START])
        for number in range(5):
            await (store, other)[number % 2].append("s1", 1 + number, [said(f"word{number}")])
            assert await seqs((other, store)[number % 2], f"word{number}") == [2 + number]
        assert len(await seqs(store, "word")) == 5


async def test_a_long_log_is_indexed_whole(open_store: Open) -> None:
    async with opened(open_store) as store:
        large = [said(f"{'x ' * 1_100_000}large{number}") for number in range(5)]
        events = [NoteAdded("msg", "-") if number % 3 else said(f"word{number}") for number in range(6000)]
        await store.create("s1", "/shop", [], [*large, *events])
        for number in (0, 1998, 2001, 5997):
            assert await seqs(store, f"word{number}") == [number + 6]
        for number in range(5):
            assert (await seqs(store, f"large{number}")) == [number + 1]


async def test_sessions_are_searched_apart_and_a_deleted_one_not_at_all(open_store: Open) -> None:
    async with opened(open_store) as store:
        for name in ("s1", "s2", "s3"):
            await store.create(name, "/shop", [], [START, said(f"the needle of {name}"), said("hay")])
            assert await seqs(store, "needle", name) == [2]
            assert await seqs(store, '"needle of s9"', name) == []
        await store.delete("s2")
        await store.delete("s2")
        with pytest.raises(SessionNotFoundError):
            await store.search("s2", "needle", limit=5)
        for name in ("s1", "s3"):
            (hit,) = await store.search(name, "needle", limit=5)
            assert hit.snippet == f"the needle of {name}"


async def test_a_session_deleted_while_it_is_searched_is_not_found(open_store: Open) -> None:
    async with opened(open_store) as store, opened(open_store) as other:
        for turn in range(8):
            name = f"s{turn}"
            await store.create(name, "/shop", [], [said(f"word{number}") for number in range(4100)])
            with anyio.fail_after(20):
                async with anyio.create_task_group() as group:

                    async def look(name: str = name) -> None:
                        with suppress(SessionNotFoundError):
                            assert await seqs(store, "word4077", name) == [4078]

                    group.start_soon(look)
                    for _ in range(turn * 3):
                        await anyio.lowlevel.checkpoint()
                    await other.delete(name)


async def test_two_that_index_one_session_at_once_index_it_once(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    stores = [await SqliteStore.open(path) for _ in range(3)]
    await stores[0].create("s1", "/shop", [], [said(f"word {number}") for number in range(9000)])
    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:

            async def look(store: SqliteStore) -> None:
                assert await seqs(store, '"8999"') == [9000]

            for store in (*stores, *stores):
                group.start_soon(look, store)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT count(*) FROM message_index").fetchone() == (9000,)
        connection.execute("INSERT INTO message_index (message_index) VALUES ('integrity-check')")
    for store in stores:
        await store.aclose()


async def test_a_session_that_is_never_searched_is_not_indexed(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    store = await SqliteStore.open(path)
    await store.create("s1", "/shop", [], [said("a")])
    await store.create("s2", "/shop", [], [said("a")])
    assert await seqs(store, "a") == [1]
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT session_id, indexed FROM sessions ORDER BY id").fetchall() == [
            ("s1", 1),
            ("s2", 0),
        ]
        assert connection.execute("SELECT count(*) FROM message_index").fetchone() == (1,)
    await store.aclose()


async def test_the_words_of_a_deleted_session_are_in_none_of_the_files(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path / "sessions.db")
    words = [f"{number}secretword{number}" for number in range(500)]
    await store.create("s1", "/shop", [], [said(f"{word} {'x' * 20_000}") for word in words])
    await store.create("s2", "/shop", [], [said("kept")])
    assert len(await seqs(store, words[7])) == len(await seqs(store, "kept", "s2")) == 1

    def found() -> bool:
        return any(b"secretword" in file.read_bytes() for file in tmp_path.iterdir())

    assert found()
    await store.delete("s1")
    assert not found()
    assert await seqs(store, "kept", "s2") == [1]
    await store.aclose()
    assert not found()
