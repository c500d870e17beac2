"""The contract of a session store. `support.stores` contains the implementations."""

from __future__ import annotations

import tracemalloc

import anyio
import anyio.lowlevel
import pytest

from acp_agent.conversation.events import (
    DirectoriesChanged,
    LoggedEvent,
    NoteAdded,
    TitleChanged,
)
from acp_agent.errors import SessionConflictError, SessionNotFoundError, StorageError
from acp_agent.storage.store import SessionRecord, SessionStore
from support.events import EXAMPLES
from support.stores import START, Open, notes, opened, read


async def test_a_created_session_exists_at_once_and_after_a_restart(
    open_store: Open,
) -> None:
    async with opened(open_store) as store:
        logged = await store.create(
            "s1", "/shop", ["/lib", "/usr/inc"], [START, TitleChanged("The cart")]
        )
        record = await store.record("s1")
        assert [(entry.seq, entry.event) for entry in logged] == [
            (1, START),
            (2, TitleChanged("The cart")),
        ]
    assert record == SessionRecord(
        "s1",
        "/shop",
        ("/lib", "/usr/inc"),
        "The cart",
        record.created_at,
        record.created_at,
        2,
    )
    async with opened(open_store) as store:
        assert await store.record("s1") == record
        assert await read(store, "s1") == list(logged)


async def test_every_kind_of_event_can_be_read_from_the_log(open_store: Open) -> None:
    async with opened(open_store) as store:
        await store.create("s1", "/shop", [], [START])
        logged = await store.append("s1", 1, list(EXAMPLES.values()))
        assert (await read(store, "s1"))[1:] == list(logged)
        assert [entry.event for entry in logged] == list(EXAMPLES.values())


async def test_an_append_returns_what_a_reader_gets_even_if_text_was_replaced(
    open_store: Open,
) -> None:
    async with opened(open_store) as store:
        await store.create(
            "s\udc80", "/sh\udc80p", ["/l\udc80"], [START, TitleChanged("a\ud800b")]
        )
        logged = await store.append("s\udc80", 2, notes("x\udfff"))
        assert logged[0].event == NoteAdded("msg_1", "x\ufffd")
        assert (await read(store, "s\udc80", after=2)) == list(logged)
        (record,) = (await store.list("/sh\udc80p")).sessions
        assert (record.cwd, record.title) == ("/sh\ufffdp", "a\ufffdb")


async def test_an_append_updates_the_head_and_the_time_and_the_title_if_it_changes(
    open_store: Open,
) -> None:
    async with opened(open_store) as store:
        await store.create("s1", "/shop", [], [START])
        before = await store.record("s1")
        await store.append("s1", 1, [TitleChanged("one"), TitleChanged("two")])
        logged = await store.append("s1", 3, notes("a", "b"))
        after = await store.record("s1")
        assert (before.title, after.title, after.head) == (None, "two", 5)
        assert after.created_at == before.created_at
        assert after.updated_at >= logged[0].at >= before.updated_at


async def test_an_append_changes_the_additional_directories_only_if_it_says_so(
    open_store: Open,
) -> None:
    async with opened(open_store) as store:
        await store.create("s1", "/shop", ["/lib"], [START])
        await store.append("s1", 1, notes("a"))
        assert (await store.record("s1")).additional_directories == ("/lib",)
        await store.append(
            "s1",
            2,
            [DirectoriesChanged(("/lib",)), DirectoriesChanged(("/docs", "/l\udc80b"))],
        )
        (record,) = (await store.list("/shop")).sessions
        assert record.additional_directories == ("/docs", "/l\ufffdb")
        await store.append("s1", 4, [DirectoriesChanged(())])
        assert (await store.record("s1")).additional_directories == ()


async def test_an_append_that_expects_another_head_writes_nothing(
    open_store: Open,
) -> None:
    async with opened(open_store) as store:
        logged = await store.create("s1", "/shop", [], [START, *notes("a")])
        record = await store.record("s1")
        for expected in (0, 1, 3):
            with pytest.raises(
                SessionConflictError, match=f"entry 2, not at {expected}"
            ):
                await store.append("s1", expected, [TitleChanged("lost"), *notes("b")])
        assert await read(store, "s1") == list(logged)
        assert await store.record("s1") == record


async def test_only_one_of_several_appends_to_the_same_head_succeeds(
    open_store: Open,
) -> None:
    async with opened(open_store) as store, opened(open_store) as other:
        await store.create("s1", "/shop", [], [START])
        outcomes: list[str] = []

        async def append(to: SessionStore, name: str) -> None:
            try:
                await to.append("s1", 1, notes(name, name))
                outcomes.append(name)
            except SessionConflictError:
                pass

        with anyio.fail_after(20):
            async with anyio.create_task_group() as group:
                for number in range(10):
                    group.start_soon(append, (store, other)[number % 2], str(number))
        (winner,) = outcomes
        assert [entry.event for entry in await read(other, "s1")] == [
            START,
            *notes(winner, winner),
        ]


async def test_creating_a_session_with_a_used_id_fails_and_changes_nothing(
    open_store: Open,
) -> None:
    async with opened(open_store) as store:
        logged = await store.create("s1", "/shop", [], [START])
        record = await store.record("s1")
        with pytest.raises(StorageError, match="'s1' is in use"):
            await store.create("s1", "/elsewhere", [], notes("a", "b"))
        assert await store.record("s1") == record
        assert await read(store, "s1") == list(logged)


async def test_deleting_a_session_is_final_and_keeps_the_others(
    open_store: Open,
) -> None:
    async with opened(open_store) as store:
        await store.create("s1", "/shop", [], [START, *notes("a")])
        kept = await store.create("s2", "/shop", [], [START, *notes("b")])
        await store.delete("s1")
        await store.delete("s1")
        await store.delete("never made")
    async with opened(open_store) as store:
        await _is_nowhere(store, "s1")
        with pytest.raises(StorageError, match="'s1' is in use or belonged"):
            await store.create("s1", "/shop", [], [START])
        assert [record.session_id for record in (await store.list()).sessions] == ["s2"]
        assert await read(store, "s2") == list(kept)


async def _is_nowhere(store: SessionStore, session_id: str) -> None:
    for attempt in (
        lambda: store.append(session_id, 0, notes("x")),
        lambda: store.append(session_id, 2, notes("x")),
        lambda: store.record(session_id),
        lambda: store.context(session_id),
        lambda: store.context_at(session_id, 1),
        lambda: store.search(session_id, "a", limit=1),
        lambda: store.search(session_id, "", limit=1),
        lambda: store.read(session_id, [1]),
        lambda: read(store, session_id),
    ):
        with pytest.raises(SessionNotFoundError, match=session_id):
            await attempt()


async def test_events_are_read_after_any_entry(open_store: Open) -> None:
    async with opened(open_store) as store:
        logged = await store.create(
            "s1", "/shop", [], [START, *notes(*map(str, range(1300)))]
        )
        for after in (0, 1, 499, 500, 501, 1300, 1301, 5000):
            assert await read(store, "s1", after) == list(logged[after:])


async def test_reading_a_log_does_not_load_all_large_events_into_memory(
    open_store: Open,
) -> None:
    async with opened(open_store) as store:
        await store.create("s1", "/shop", [], [START])
        for number in range(40):
            await store.append("s1", 1 + number, notes("x" * 1_000_000))
        tracemalloc.start()
        try:
            async for _ in store.events("s1"):
                pass
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert peak < 20_000_000


async def test_a_read_ends_at_the_head_at_its_start_and_allows_appends(
    open_store: Open,
) -> None:
    async with opened(open_store) as store:
        logged = await store.create("s1", "/shop", [], notes(*map(str, range(1100))))
        seen: list[LoggedEvent] = []
        async for entry in store.events("s1"):
            seen.append(entry)
            if entry.seq % 400 == 0:
                await store.append(
                    "s1", (await store.record("s1")).head, notes("meanwhile")
                )
        assert seen == list(logged)


async def test_a_session_that_is_deleted_during_a_read_is_not_found(
    open_store: Open,
) -> None:
    async with opened(open_store) as store:
        await store.create("s1", "/shop", [], notes(*map(str, range(1100))))

        async def read_and_delete() -> None:
            async for entry in store.events("s1"):
                if entry.seq == 100:
                    await store.delete("s1")

        with pytest.raises(SessionNotFoundError):
            await read_and_delete()


async def test_a_cancelled_append_is_complete_or_absent(
    open_store: Open,
) -> None:
    async with opened(open_store) as store:
        await store.create("s1", "/shop", [], [START])
        for number in range(30):
            head = (await store.record("s1")).head

            async def append(head: int = head) -> None:
                await store.append("s1", head, notes("a", "b", "c"))

            async with anyio.create_task_group() as group:
                group.start_soon(append)
                for _ in range(number % 6):
                    await anyio.lowlevel.checkpoint()
                group.cancel_scope.cancel()
            assert (await store.record("s1")).head in (head, head + 3)
        assert [entry.seq for entry in await read(store, "s1")] == list(
            range(1, (await store.record("s1")).head + 1)
        )


async def test_a_closed_store_reports_this_and_can_be_closed_again(
    open_store: Open,
) -> None:
    store = await open_store()
    await store.create("s1", "/shop", [], [START])
    await store.aclose()
    await store.aclose()
    with pytest.raises(StorageError, match="was closed"):
        await store.record("s1")
