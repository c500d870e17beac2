"""Reading from a session's log: its context, and single entries."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings

from acp_agent.conversation.context import Context
from acp_agent.conversation.events import LoggedEvent
from support.logs import legal_logs
from support.stores import START, Open, notes, opened, read


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
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
            assert await store.context_at(session_id, seq) == Context.from_log(
                log[:seq]
            )


async def test_entries_are_read_by_number_in_order_ignoring_unknown_numbers(
    open_store: Open,
) -> None:
    async with opened(open_store) as store:
        logged = await store.create("s1", "/shop", [], [START, *notes("a", "b", "c")])
        await store.create("s2", "/shop", [], [START, *notes(*"abcdefgh")])
        assert await store.read("s1", [4, 2, 2, 0, -1, 5, 10**30]) == (
            logged[1],
            logged[3],
        )
        assert await store.read("s1", []) == ()
