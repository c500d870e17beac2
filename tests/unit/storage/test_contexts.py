"""What a session store makes of a log: its context, and the entries and messages at places in it."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings

from acp_agent.conversation.context import Context
from acp_agent.conversation.events import LoggedEvent
from support.logs import LogBuilder, legal_logs
from support.stores import START, Open, notes, opened, read


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(log=legal_logs())
async def test_the_context_from_the_store_equals_the_fold_of_the_whole_log(
    open_store: Open, log: tuple[LoggedEvent, ...]
) -> None:
    async with opened(open_store) as store:
        session_id = f"s{len((await store.list(limit=1000)).sessions)}"
        logged = list(await store.create(session_id, "/shop", [], [log[0].event]))
        for entry in log[1:]:
            logged += await store.append(session_id, entry.seq - 1, [entry.event])
        assert await store.context(session_id) == Context.from_log(log)
        assert await read(store, session_id) == logged
        assert [entry.event for entry in logged] == [entry.event for entry in log]
        for seq in range(len(log) + 2):
            assert await store.context_at(session_id, seq) == Context.from_log(log[:seq])


async def test_a_context_goes_back_behind_two_refused_turns_that_were_compacted(open_store: Open) -> None:
    log = LogBuilder()
    log.prompt("first")
    log.step("done")
    log.end()
    for text in ("bad", "worse"):
        log.prompt(text)
        log.step("hm")
        log.swap()
        log.refuse()
    async with opened(open_store) as store:
        await store.create("s1", "/shop", [], [log.events[0]])
        for entry in log.logged[1:]:
            await store.append("s1", entry.seq - 1, [entry.event])
        assert await store.context("s1") == log.context
        assert [entry.seq for entry in log.context.entries] == [3, 4]


async def test_a_context_as_it_was_is_that_of_the_log_whatever_came_later(open_store: Open) -> None:
    log = LogBuilder()
    async with opened(open_store) as store:
        for text in ("one", "two", "three"):
            log.prompt(text)
            log.step("so", calls=2)
            log.swap(log.cuts()[1])
            log.end()
        await store.create("s1", "/shop", [], log.events)
        before = await store.context_at("s1", log.head)
        await store.append("s1", log.head, notes("later"))
        assert await store.context_at("s1", log.head) == before == log.context
        assert await store.context_at("s1", 10**30) == await store.context("s1")
        assert await store.context_at("s1", 0) == await store.context_at("s1", -(10**30)) == Context()


async def test_entries_are_read_by_their_places_in_order_and_without_those_that_do_not_exist(open_store: Open) -> None:
    async with opened(open_store) as store:
        logged = await store.create("s1", "/shop", [], [START, *notes("a", "b", "c")])
        await store.create("s2", "/shop", [], [START, *notes(*"abcdefgh")])
        assert await store.read("s1", [4, 2, 2, 0, -1, 5, 10**30]) == (logged[1], logged[3])
        assert await store.read("s1", []) == ()


async def test_a_whole_log_with_a_compaction_may_be_made_at_once(open_store: Open) -> None:
    log = LogBuilder()
    log.prompt("first")
    log.step("done")
    log.swap()
    log.prompt("second")
    async with opened(open_store) as store:
        await store.create("s1", "/shop", [], log.events)
        assert await store.context("s1") == log.context
