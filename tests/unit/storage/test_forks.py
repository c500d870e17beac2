"""Forking a session at an entry of its log."""

from __future__ import annotations

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from acp_agent.conversation.context import Context
from acp_agent.conversation.events import (
    Event,
    LoggedEvent,
    PermissionGranted,
    SessionForked,
    SessionStarted,
    TitleChanged,
    UserPrompted,
)
from acp_agent.conversation.messages import Text
from acp_agent.errors import InvalidParamsError, SessionNotFoundError, StorageError
from support.logs import legal_logs
from support.stores import START, Open, notes, opened, read


async def test_a_fork_continues_from_an_entry_independently_of_the_original(
    open_store: Open,
) -> None:
    log: list[Event] = [
        START,
        TitleChanged("One"),
        PermissionGranted("edit"),
        *notes("a"),
        TitleChanged("Two"),
    ]
    forked = SessionForked("s1", 4, "/copy", ("/lib",))
    async with opened(open_store) as store:
        whole = await store.create("s1", "/shop", [], log)
        made = await store.fork("s1", "s2", 4, "/copy", ["/lib"], [forked])
        assert made == (LoggedEvent(5, made[0].at, forked),)
        assert await read(store, "s2") == [*whole[:4], *made]
        record = await store.record("s2")
        assert (
            record.cwd,
            record.additional_directories,
            record.title,
            record.head,
        ) == ("/copy", ("/lib",), "One", 5)
        context = await store.context("s2")
        assert (context.cwd, context.title, context.grants) == (
            "/copy",
            "One",
            frozenset(),
        )
        assert (await store.context("s1")).grants == {"edit"}
        await store.append("s2", 5, notes("b"))
        await store.append("s1", 5, notes("c"))
        await store.delete("s1")
    async with opened(open_store) as store:
        assert [entry.event for entry in await read(store, "s2")] == [
            *log[:4],
            forked,
            *notes("b"),
        ]
        with pytest.raises(SessionNotFoundError):
            await store.record("s1")


async def test_a_fork_can_be_searched_and_forked_without_the_original(
    open_store: Open,
) -> None:
    async with opened(open_store) as store:
        await store.create(
            "s1", "/shop", [], [START, UserPrompted("msg_1", (Text("green cart"),))]
        )
        assert len(await store.search("s1", "cart", limit=9)) == 1
        await store.fork("s1", "s2", 2, "/shop", [], [SessionForked("s1", 2, "/shop")])
        await store.append("s2", 3, [UserPrompted("msg_2", (Text("red cart"),))])
        await store.fork("s2", "s3", 4, "/shop", [], [SessionForked("s2", 4, "/shop")])
        found = {
            name: {hit.seq for hit in await store.search(name, "cart", limit=9)}
            for name in ("s1", "s2", "s3")
        }
        assert found == {"s1": {2}, "s2": {2, 4}, "s3": {2, 4}}


async def test_a_failed_fork_leaves_no_session(open_store: Open) -> None:
    async with opened(open_store) as store:
        await store.create("s1", "/shop", [], [START, *notes("a")])
        await store.create("s2", "/shop", [], [START])
        for at in (-1, 0, 3):
            with pytest.raises(
                InvalidParamsError,
                match=rf"'s1' cannot be forked at entry {at}: .*entries 1 to 2",
            ):
                await store.fork("s1", "s3", at, "/shop", [], [])
        with pytest.raises(SessionNotFoundError):
            await store.fork("nobody", "s3", 1, "/shop", [], [])
        with pytest.raises(StorageError, match="in use"):
            await store.fork("s1", "s2", 1, "/shop", [], [])
        assert {row.session_id for row in (await store.list()).sessions} == {"s1", "s2"}
        assert [entry.event for entry in await read(store, "s2")] == [START]


@settings(
    max_examples=15,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(log=legal_logs(), data=st.data())
def test_a_fork_at_any_entry_has_the_context_as_of_that_entry(
    open_store: Open, log: tuple[LoggedEvent, ...], data: st.DataObject
) -> None:
    # This includes compactions, undone compactions and refusals, after which a fold
    # begins at another entry.
    whole = log or (LoggedEvent(1, 0, SessionStarted("/shop")),)
    at = data.draw(st.integers(1, len(whole)))

    async def forked() -> tuple[Context, Context]:
        async with opened(open_store) as store:
            number = len((await store.list(limit=1000)).sessions)
            await store.create(
                f"a{number}", "/shop", [], [entry.event for entry in whole]
            )
            await store.fork(f"a{number}", f"b{number}", at, "/shop", [], [])
            return await store.context_at(f"a{number}", at), await store.context(
                f"b{number}"
            )

    there, here = anyio.run(forked)
    assert here == there
