"""The original entries that excerpts are taken from: kept up step by step, they are what the whole log says, and they
are indexed beside the event loop while nothing collects garbage."""

from __future__ import annotations

import gc
import threading
from collections.abc import AsyncGenerator, Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar, cast

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from acp_agent.compaction.excerpts.selection import ExcerptIndex, choose, render
from acp_agent.conversation.context import Context
from acp_agent.conversation.events import AssistantAnswered, Event, LoggedEvent, MessageSupplied
from acp_agent.conversation.messages import AssistantMessage, Text, UserMessage
from acp_agent.session.log import SessionLog
from acp_agent.session.replacing import replacement
from acp_agent.session.source import Source
from acp_agent.storage.sqlite import SqliteStore
from acp_agent.storage.store import SessionStore
from support.calls_counted import agent_calls
from support.logs import LogBuilder, legal_logs


def lines(index: ExcerptIndex) -> str:
    return render(choose(index, 10_000))


async def sourced(events: list[Event], stops: set[int], folder: Path) -> tuple[Source, ExcerptIndex]:
    """A source that looked at the log when it held so many events, and at its end."""
    store = await SqliteStore.open(folder / "sessions.db")
    try:
        first = events[: min(stops, default=len(events))]
        log = SessionLog(store, "s", Context.from_log(await store.create("s", "/shop", (), first)))
        source = Source(store, "s", log)
        for place in range(len(first), len(events)):
            if place in stops:
                await source.index()
            await log.append(events[place])
        return source, await source.index()
    finally:
        await store.aclose()


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(legal_logs(), st.data())
def test_what_is_kept_up_step_by_step_is_what_is_read_at_once(
    log: tuple[LoggedEvent, ...], data: st.DataObject
) -> None:
    events = [each.event for each in log]
    stops = data.draw(st.sets(st.integers(2, len(events))), label="looked at after")
    with TemporaryDirectory() as one, TemporaryDirectory() as two:
        source, index = anyio.run(sourced, events, stops, Path(one))
        at_once, whole = anyio.run(sourced, events, set[int](), Path(two))
    assert source.entries == at_once.entries
    assert lines(index) == lines(whole)
    # What the model sees as it was said is among them; no summary is.
    context = Context.from_log(log)
    said = [entry.seq for entry in context.entries if not entry.summary and not entry.shortened]
    assert {*said} <= {entry.seq for entry in source.entries}
    assert not any(entry.summary for entry in source.entries)


def texts(source: Source) -> list[str]:
    return [part.text for entry in source.entries for part in entry.message.parts if isinstance(part, Text)]


def test_a_compaction_takes_nothing_out_and_a_refused_prompt_does(tmp_path: Path) -> None:
    log = LogBuilder()
    log.prompt("Mend the cart.")
    log.step("Mended.")
    log.end()
    log.swap()
    log.prompt("POISON")
    log.refuse()
    source, _ = anyio.run(sourced, list(log.events), {log.head - 1}, tmp_path)
    assert texts(source) == ["Mend the cart.", "Mended."]


def test_of_a_conversation_that_a_hook_has_replaced_the_hook_s_messages_are_the_originals(tmp_path: Path) -> None:
    log = LogBuilder()
    log.prompt("Mend the cart.")
    log.step("Mended.")
    log.end()
    supplied = (UserMessage("u1", (Text("Only this."),)), UserMessage("u2", (Text("And this."),)))
    log.add(*replacement(log.context, supplied, 1_000, 10))
    assert any(isinstance(event, MessageSupplied) for event in log.events)
    source, _ = anyio.run(sourced, list(log.events), {log.head - 2}, tmp_path)
    assert texts(source) == ["Only this.", "And this."]
    log.restore()
    (tmp_path / "undone").mkdir()
    undone, _ = anyio.run(sourced, list(log.events), {log.head - 1}, tmp_path / "undone")
    assert texts(undone)[:2] == ["Mend the cart.", "Mended."]


T = TypeVar("T")


class Watched(tuple[T, ...]):  # noqa: SLOT001 - `on_read` has no slot in a tuple
    """Parts of a message; whoever reads them does this first."""

    on_read: Callable[[], None]

    def __iter__(self) -> Iterator[T]:
        self.on_read()
        return super().__iter__()


class Record:
    """A store with one log: a prompt, an answer, and one that is watched while it is read."""

    def __init__(self, on_read: Callable[[], None] = lambda: None, answer: str = "Mended.") -> None:
        log = LogBuilder()
        log.prompt("Mend the cart.")
        log.step(answer)
        parts = Watched((Text("And tested."),))
        parts.on_read = on_read
        log.add(AssistantAnswered(AssistantMessage("a2", parts)))
        self.log = log

    async def events(self, session_id: str, after: int = 0) -> AsyncGenerator[LoggedEvent]:
        for each in self.log.logged[after:]:
            yield each

    def source(self) -> Source:
        store = cast(SessionStore, self)  # as far as a source needs it
        return Source(store, "s", SessionLog(store, "s", self.log.context))


async def test_entries_are_indexed_in_a_thread_while_nothing_collects_garbage() -> None:
    seen: list[tuple[str, bool]] = []
    source = Record(lambda: seen.append((threading.current_thread().name, gc.isenabled()))).source()
    seen.clear()
    await source.index()
    assert threading.main_thread().name not in dict(seen)
    assert not seen[-1][1]
    assert gc.isenabled()


async def test_what_could_not_be_indexed_is_indexed_anew_and_garbage_is_collected_again() -> None:
    fails = True

    def fail() -> None:
        if fails and not gc.isenabled():  # while it is indexed
            raise ZeroDivisionError

    source = Record(fail).source()
    with pytest.raises(ZeroDivisionError):
        await source.index()
    assert gc.isenabled()
    fails = False
    index = await source.index()
    assert texts(source) == ["Mend the cart.", "Mended.", "And tested."]
    assert lines(index) == lines(await Record().source().index())


@pytest.mark.parametrize("last", ["the first", "the second"])
async def test_two_that_are_indexed_at_once_leave_the_collection_of_garbage_on(last: str) -> None:
    reached = {"the first": threading.Event(), "the second": threading.Event()}
    goes_on = {"the first": threading.Event(), "the second": threading.Event()}

    def meet(which: str) -> None:
        if threading.current_thread() is not threading.main_thread():
            reached[which].set()
            assert goes_on[which].wait(5)

    sources = {which: Record(lambda which=which: meet(which)).source() for which in reached}
    [earlier] = {*sources} - {last}
    async with anyio.create_task_group() as tasks:
        async with anyio.create_task_group() as first:
            for which, source in sources.items():
                (tasks if which == last else first).start_soon(source.index)
            for each in reached.values():
                assert await anyio.to_thread.run_sync(each.wait, 5)
            assert not gc.isenabled()
            goes_on[earlier].set()
        goes_on[last].set()
    assert gc.isenabled()


async def test_longer_texts_are_not_more_work_for_the_event_loop() -> None:
    counted = []
    for length in (1, 10, 1_000):  # the first one loads what is loaded once
        source = Record(answer="A line with /a/path.py and 17 carts.\n" * length).source()
        with agent_calls() as calls:
            await source.index()
        counted.append(calls.by_name)
    assert counted[2] - counted[1] == {}
