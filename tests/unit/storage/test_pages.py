"""The list of all sessions, page by page."""

from __future__ import annotations

import base64
import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from acp_agent.conversation.events import (
    ModeChanged,
    SessionForked,
    TitleChanged,
    UserPrompted,
)
from acp_agent.conversation.messages import Text
from acp_agent.errors import InvalidParamsError, SessionNotFoundError
from acp_agent.storage.database import open_database
from acp_agent.storage.rows import read_page
from acp_agent.storage.store import ArchiveFilter, SessionRecord, SessionStore
from support.stores import START, Open, notes, opened


async def a_millisecond_later() -> None:
    """Wait until the clock shows another millisecond, the unit of a session's times."""
    start = time.time_ns() // 1_000_000
    while time.time_ns() // 1_000_000 == start:
        await anyio.lowlevel.checkpoint()


async def in_pages(
    store: SessionStore, cwd: str | None, **options: Any
) -> dict[str, SessionRecord]:
    """Return the sessions by ID, read in pages of two. Each session must come once."""
    found: dict[str, SessionRecord] = {}
    cursor: str | None = None
    while True:
        page = await store.list(cwd, cursor, limit=2, **options)
        assert not found.keys() & {record.session_id for record in page.sessions}
        found |= {record.session_id: record for record in page.sessions}
        if (cursor := page.next_cursor) is None:
            return found
        assert len(page.sessions) == 2


async def test_sessions_created_or_deleted_between_two_pages_affect_no_others(
    open_store: Open,
) -> None:
    async with opened(open_store) as store:
        for number in range(6):
            await store.create(f"s{number}", "/a", [], [START])
        page = await store.list(limit=3)
        rest = {f"s{number}" for number in range(6)} - {
            record.session_id for record in page.sessions
        }
        await a_millisecond_later()
        await store.create("s9", "/a", [], [START])
        await store.delete(page.sessions[-1].session_id)
        assert {
            record.session_id
            for record in (await store.list(cursor=page.next_cursor)).sessions
        } == rest


def _made_of(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode()


@pytest.mark.parametrize(
    "cursor",
    [
        "",
        "bm9uc2Vuc2U=",
        _made_of([]),
        _made_of(["1", "s1"]),
        _made_of([True, "s1"]),
        _made_of([-1, "s1"]),
        _made_of([2**63, "s1"]),
        base64.urlsafe_b64encode(b"[" * 5000).decode(),
    ],
)
async def test_an_unknown_cursor_is_an_invalid_parameter(
    open_store: Open, cursor: str
) -> None:
    async with opened(open_store) as store:
        with pytest.raises(InvalidParamsError, match="cursor"):
            await store.list(cursor=cursor)


async def test_an_archived_session_is_listed_only_on_request_and_is_unchanged(
    open_store: Open,
) -> None:
    expected: dict[tuple[ArchiveFilter, str | None], set[str]] = {
        ("exclude", None): {"s0", "s1", "s2", "s5", "s6", "s7", "s8"},
        ("include", None): {f"s{number}" for number in range(9)},
        ("only", None): {"s3", "s4"},
        ("exclude", "/a"): {"s1", "s5", "s7"},
        ("only", "/a"): {"s3"},
    }
    async with opened(open_store) as store:
        for number in range(9):
            await store.create(f"s{number}", "/a" if number % 2 else "/b", [], [START])
        before = await store.record("s3")
        await a_millisecond_later()
        for _ in range(2):  # repeating this is not an error
            for session_id in ("s3", "s4"):
                await store.archive(session_id, True)
        assert await store.record("s3") == replace(before, archived=True)
        for (archived, cwd), ids in expected.items():
            shown = await in_pages(store, cwd, archived=archived)
            assert {*shown} == ids
            assert all(
                record.archived == (id in ("s3", "s4")) for id, record in shown.items()
            )
    async with opened(open_store) as store:
        assert (await store.record("s3")).archived
        for _ in range(2):
            await store.archive("s3", False)
        assert await store.record("s3") == before
        await store.delete("s4")
        assert (await store.list(archived="only")).sessions == ()
        for session_id in ("s4", "unknown"):
            with pytest.raises(SessionNotFoundError):
                await store.archive(session_id, True)


async def test_an_unused_session_is_listed_only_if_its_id_is_given(
    open_store: Open,
) -> None:
    async with opened(open_store) as store:
        for number in range(8):
            await store.create(f"s{number}", "/a" if number % 2 else "/b", [], [START])
        await store.append("s1", 1, [UserPrompted("msg_1", (Text("Hi"),))])
        await store.append("s2", 1, [TitleChanged("Cart", "user")])
        await store.archive("s3", True)
        await store.append("s4", 1, [ModeChanged("plan"), *notes("x")])
        await store.fork("s4", "s8", 1, "/b", [], [SessionForked("s4", 1, "/b")])

        async def shown(
            *named: str, cwd: str | None = None, archived: ArchiveFilter = "exclude"
        ) -> set[str]:
            return {
                *await in_pages(store, cwd, archived=archived, include_unused=named)
            }

        assert await shown() == {"s1", "s2", "s8"}
        assert await shown("s1", "s5", "s6", "unknown", "\ud800") == {
            "s1",
            "s2",
            "s5",
            "s6",
            "s8",
        }
        assert await shown("s5", "s6", cwd="/a") == {"s1", "s5"}
        assert await shown("s5", archived="only") == {"s3"}
        assert len((await store.list()).sessions) == 8
        await store.archive("s3", False)
        assert "s3" not in await shown()


@pytest.mark.parametrize("include_unused", [None, (), ("s1", "s2")])
@pytest.mark.parametrize("archived", ["exclude", "include", "only"])
@pytest.mark.parametrize("cwd", [None, "/shop"])
async def test_a_page_is_read_from_an_index_without_sorting(
    tmp_path: Path,
    cwd: str | None,
    archived: ArchiveFilter,
    include_unused: tuple[str, ...] | None,
) -> None:
    connection = open_database(tmp_path / "sessions.db")
    asked: list[str] = []
    connection.set_trace_callback(asked.append)
    read_page(connection, cwd, None, 50, archived, include_unused)
    connection.set_trace_callback(None)
    *_, query = asked  # an earlier query may look up the directories
    steps = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {query}")]
    assert len(steps) == 1
    assert (
        f"USING INDEX sessions_by_{'time' if cwd is None else 'place (cwd=?'}"
        in steps[0]
    )
    connection.close()
