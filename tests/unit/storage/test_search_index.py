"""The search index of a session: it follows the log, is deleted with the session, and
can always be rebuilt.
"""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from acp_agent.conversation.events import (
    AssistantAnswered,
    CallView,
    Event,
    NoteAdded,
    ToolReturned,
)
from acp_agent.conversation.messages import AssistantMessage, Text, ToolCall, ToolResult
from acp_agent.storage.database import BUSY_SECONDS
from acp_agent.storage.store import SessionStore
from support.stores import START, Open, opened, said, seqs, sqlite_without_fts5

WORDS = [
    "config",
    "configs",
    "parse_header",
    "src/cart.py",
    "E1042",
    "running",
    "runs",
    "数据库连接",
    "ตัวอย่าง",
    "x" * 40,
]
TALK = [
    said("the cart is wrong"),
    said("look at parse_header in src/cart.py"),
    said("three configs are left"),
]


def indexes(folder: Path) -> list[Path]:
    return sorted(folder.glob("sessions.db.search-*"))


def contents(file: Path) -> tuple[object, ...]:
    """Return everything that an index contains."""
    with closing(sqlite3.connect(file)) as index:
        index.execute(
            "CREATE VIRTUAL TABLE temp.terms USING fts5vocab (main, postings, instance)"
        )
        return tuple(
            index.execute(query).fetchall()
            for query in (
                "SELECT term, doc FROM temp.terms ORDER BY term, doc",
                "SELECT word FROM words ORDER BY word",
                "SELECT * FROM entries ORDER BY id",
                "SELECT * FROM covered",
            )
        )


async def rebuilt(store: SessionStore, folder: Path) -> tuple[object, ...]:
    """Return the contents of a newly built index."""
    for file in indexes(folder):
        file.unlink()
    await store.search("s1", "anything", limit=1)
    [file] = indexes(folder)
    return contents(file)


def _recall(text: str) -> list[Event]:
    call = ToolCall("call_1", "recall", {"query": text})
    result = ToolReturned(
        ToolResult("call_1", (Text(text),)), CallView("Recall", "search")
    )
    return [AssistantAnswered(AssistantMessage("msg", (Text(text), call))), result]


_PIECE = st.lists(st.sampled_from(WORDS), max_size=6).map(" ".join) | st.text(
    max_size=20
)
_STEP = (
    _PIECE.map(lambda text: [said(text)])
    | _PIECE.map(_recall)
    | st.just([NoteAdded("msg", "a note")])
)


@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    steps=st.lists(
        st.tuples(_STEP, st.sampled_from(["", "search", "prepare"])), max_size=8
    )
)
async def test_an_extended_index_equals_a_rebuilt_one(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[list[Event], str]]
) -> None:
    folder = tmp_path_factory.mktemp("store")
    async with opened(lambda: SessionStore.open(folder / "sessions.db")) as store:
        await store.create("s1", "/shop", [], [START])
        head = 1
        for events, then in steps:
            await store.append("s1", head, events)
            head += len(events)
            if then == "search":
                await store.search("s1", "config", limit=1)
            elif then == "prepare":
                await store.prepare_search("s1")
        await store.search("s1", "anything", limit=1)
        [file] = indexes(folder)
        grown = contents(file)
        assert grown == await rebuilt(store, folder)


_NAME = st.from_regex(
    r"[a-z]{2,9}(_[a-z0-9]{1,9}){1,3}|([a-z]{2,6}/){1,3}[a-z]{2,8}\.[a-z]{2}",
    fullmatch=True,
)


@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    name=_NAME,
    texts=st.lists(st.tuples(_PIECE, st.booleans(), _PIECE), min_size=1, max_size=12),
)
async def test_all_messages_with_an_identifier_come_first(
    open_store: Open, name: str, texts: list[tuple[str, bool, str]]
) -> None:
    async with opened(open_store) as store:
        session_id = f"s{len((await store.list(limit=1000)).sessions)}"
        events = [
            said(f"{before} {name if has else ''} {after}")
            for before, has, after in texts
        ]
        await store.create(session_id, "/shop", [], events)
        holding = {seq for seq, (_, has, _) in enumerate(texts, 1) if has}
        for query in (name, f'"{name}"', f"where is {name} changed"):
            found = await seqs(store, query, session_id)
            assert set(found[: len(holding)]) == holding, query


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    text=st.text("abc_. 数据库ข้อ", min_size=1, max_size=60) | st.sampled_from(WORDS),
    data=st.data(),
)
async def test_every_part_of_a_message_finds_the_message(
    open_store: Open, text: str, data: st.DataObject
) -> None:
    first = data.draw(st.integers(0, len(text) - 1))
    part = text[first : data.draw(st.integers(first + 1, len(text)))]
    async with opened(open_store) as store:
        session_id = f"s{len((await store.list(limit=1000)).sessions)}"
        await store.create(
            session_id, "/shop", [], [said("zzz"), said(text), said("yyy")]
        )
        if part.strip():
            assert 2 in await seqs(store, f'"{part}"', session_id)


async def test_appending_does_not_touch_the_index(
    open_store: Open, tmp_path: Path
) -> None:
    async with opened(open_store) as store:
        await store.create("s1", "/shop", [], [START, *TALK])
        assert indexes(tmp_path) == []
        assert await seqs(store, "cart") == [3, 2]
        [file] = indexes(tmp_path)
        before = file.read_bytes()
        await store.append("s1", 4, [said("another cart")])
        assert file.read_bytes() == before
        assert await seqs(store, "cart") == [5, 3, 2]


async def test_without_fts5_a_search_scans_the_log_and_creates_no_index(
    open_store: Open, tmp_path: Path
) -> None:
    talk = [
        *TALK,
        said("see src/cart.py"),
        said("数据库连接"),
        said("ValueError: bad header"),
        *_recall("cart"),
    ]
    queries = (
        "cart",
        "parse_header",
        "art",
        "库连",
        "ValueError: bad header",
        '"three configs"',
        "wrong cart",
        "->",
        "zzz",
    )
    with sqlite_without_fts5():
        async with opened(open_store) as store:
            await store.create("s1", "/shop", [], [START, *talk])
            [hit] = await store.search("s1", "parse_header", limit=5)
            assert hit.before is not None
            assert hit.before.line == "the cart is wrong"
            without = [sorted(await seqs(store, query)) for query in queries]
            assert [len(found) for found in without] == [4, 1, 4, 1, 1, 1, 1, 0, 0]
            await store.append("s1", 9, [said("one more cart")])
            assert await seqs(store, "one more") == [10]
        assert indexes(tmp_path) == []
    async with opened(open_store) as store:
        # With the index, messages that only resemble the query follow.
        for query, found in zip(queries, without, strict=True):
            with_index = [seq for seq in await seqs(store, query) if seq != 10]
            assert sorted(with_index[: len(found)]) == found, query
        assert len(indexes(tmp_path)) == 1


async def test_an_sqlite_without_fts5_does_not_touch_an_existing_index(
    open_store: Open, tmp_path: Path
) -> None:
    async with opened(open_store) as store:
        await store.create("s1", "/shop", [], [START, *TALK])
        assert await seqs(store, "cart") == [3, 2]
    [file] = indexes(tmp_path)
    before = file.read_bytes()
    with sqlite_without_fts5():
        async with opened(open_store) as store:
            await store.append("s1", 4, [said("another cart")])
            assert await seqs(store, "cart") == [5, 3, 2]
    assert file.read_bytes() == before
    async with opened(open_store) as store:
        assert await seqs(store, "cart") == [5, 3, 2]


def _overwritten(file: Path) -> None:
    file.write_bytes(b"no database" * 1000)


def _cut(file: Path) -> None:
    os.truncate(file, file.stat().st_size // 2)


def _emptied(file: Path) -> None:
    file.write_bytes(b"")


def _without_postings(file: Path) -> None:
    with closing(sqlite3.connect(file)) as index, index:
        index.execute("DELETE FROM postings_data")


def _without_words(file: Path) -> None:
    with closing(sqlite3.connect(file)) as index, index:
        index.execute("DROP TABLE word_lists")


def _of_another_format(file: Path) -> None:
    with closing(sqlite3.connect(file)) as index, index:
        index.execute("PRAGMA user_version = 999")


@pytest.mark.parametrize(
    "damage",
    [
        Path.unlink,
        _overwritten,
        _cut,
        _emptied,
        _without_postings,
        _without_words,
        _of_another_format,
    ],
)
async def test_a_missing_or_damaged_index_is_rebuilt(
    open_store: Open, tmp_path: Path, damage
) -> None:
    async with opened(open_store) as store:
        await store.create("s1", "/shop", [], [START, *TALK])
        queries = ("parse_header", "config", "art", "where is the wrong cart")
        before = [await seqs(store, query) for query in queries]
        [file] = indexes(tmp_path)
        whole = contents(file)
        damage(file)
        for _ in range(2):
            assert [sorted(await seqs(store, query)) for query in queries[:3]] == [
                sorted(each) for each in before[:3]
            ]
        assert [await seqs(store, query) for query in queries] == before
        assert contents(file) == whole


async def test_the_index_of_a_replaced_log_is_not_used(
    open_store: Open, tmp_path: Path
) -> None:
    file = tmp_path / "sessions.db"
    async with opened(open_store) as store:
        await store.create("s1", "/shop", [], [START, said("the first cart")])
    backup = file.read_bytes()
    async with opened(open_store) as store:
        await store.append("s1", 2, [said("needle")])
        assert await seqs(store, "needle") == [3]
    file.write_bytes(backup)
    async with opened(open_store) as store:
        await store.append("s1", 2, [said("hay"), said("needle")])
        assert await seqs(store, "hay") == [3]
        assert await seqs(store, "needle") == [4]


async def test_an_index_is_deleted_with_its_session(
    open_store: Open, tmp_path: Path
) -> None:
    async with opened(open_store) as store:
        for name in ("s1", "s2"):
            await store.create(name, "/shop", [], [START, *TALK])
            await seqs(store, "cart", name)
        await store.fork("s1", "s3", 3, "/shop", [], [])
        assert await seqs(store, "cart", "s3") == [3, 2]
        first, second, third = indexes(tmp_path)
        await store.delete("s1")
        assert indexes(tmp_path) == [second, third]
        assert not first.exists()


async def test_the_index_of_a_session_deleted_by_an_earlier_version_is_deleted(
    open_store: Open, tmp_path: Path
) -> None:
    async with opened(open_store) as store:
        for name in ("s1", "s2"):
            await store.create(name, "/shop", [], [START, *TALK])
            await seqs(store, "cart", name)
    with closing(sqlite3.connect(tmp_path / "sessions.db")) as database, database:
        database.execute("UPDATE sessions SET deleted_at = 1 WHERE session_id = 's1'")
        database.execute("DELETE FROM events WHERE session = 1")
    async with opened(open_store) as store:
        assert [file.name for file in indexes(tmp_path)] == ["sessions.db.search-2"]
        assert await seqs(store, "cart", "s2") == [3, 2]


async def test_a_search_works_if_the_index_file_cannot_be_opened(
    open_store: Open, tmp_path: Path
) -> None:
    async with opened(open_store) as store:
        await store.create("s1", "/shop", [], [START, *TALK])
        (tmp_path / "sessions.db.search-1").mkdir()
        assert await seqs(store, "cart") == [3, 2]


async def test_a_search_does_not_wait_for_another_process_writing_the_index(
    open_store: Open, tmp_path: Path
) -> None:
    async with opened(open_store) as store:
        await store.create("s1", "/shop", [], [START, *TALK])
        await seqs(store, "cart")
        await store.append("s1", 4, [said("one more cart")])
        [file] = indexes(tmp_path)
        with closing(sqlite3.connect(file, isolation_level=None)) as other:
            other.execute("BEGIN EXCLUSIVE")
            began = time.monotonic()
            assert await seqs(store, "cart") == [5, 3, 2]
            assert time.monotonic() - began < BUSY_SECONDS
        assert await seqs(store, "cart") == [5, 3, 2]


_INDEXER = """
import asyncio, sys
from pathlib import Path
from acp_agent.storage.store import SessionStore
async def main():
    store = await SessionStore.open(Path(sys.argv[1]))
    await store.search("s1", "cart", limit=1)
asyncio.run(main())
"""


@pytest.mark.process
async def test_a_kill_during_indexing_loses_nothing(
    open_store: Open, tmp_path: Path
) -> None:
    async with opened(open_store) as store:
        many = [
            said(
                f"cart {number} " + " ".join(f"w{number}x{each}" for each in range(200))
            )
            for number in range(100)
        ]
        await store.create("s1", "/shop", [], [START, *many])
    process = subprocess.Popen(
        [sys.executable, "-c", _INDEXER, str(tmp_path / "sessions.db")]
    )
    file = tmp_path / "sessions.db.search-1"
    until = time.monotonic() + 60
    while (
        not (file.exists() and file.stat().st_size > 10_000) and process.poll() is None
    ):
        assert time.monotonic() < until
    process.send_signal(signal.SIGKILL)
    process.wait()
    async with opened(open_store) as store:
        assert await seqs(store, "w17x3") == [19]
        assert await seqs(store, "w99x199") == [101]
        grown = contents(file)
        assert grown == await rebuilt(store, tmp_path)


async def test_an_index_takes_at_most_a_third_of_the_texts(
    open_store: Open, tmp_path: Path
) -> None:
    sources = sorted(
        (Path(__file__).parents[3] / "acp_agent" / "session").rglob("*.py")
    )
    texts = [source.read_text() for source in sources]
    async with opened(open_store) as store:
        await store.create("s1", "/shop", [], [START, *map(said, texts)])
        await seqs(store, "cart")
        [file] = indexes(tmp_path)
        assert file.stat().st_size * 3 <= sum(len(text.encode()) for text in texts)
        assert file.stat().st_mode & 0o777 == 0o600
