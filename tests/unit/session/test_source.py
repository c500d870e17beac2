"""The original entries for excerpts. Updated step by step, they are the same as those
read from the whole log.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import anyio
from hypothesis import given
from hypothesis import strategies as st

from acp_agent.compaction.excerpts.index import ExcerptIndex
from acp_agent.compaction.excerpts.selection import excerpts_of
from acp_agent.conversation.context import Context
from acp_agent.conversation.events import Event, LoggedEvent, MessageSupplied
from acp_agent.conversation.messages import Text, UserMessage
from acp_agent.session.log import SessionLog
from acp_agent.session.source import OriginalEntries
from acp_agent.session.turn.replacement import replacement_events
from acp_agent.storage.store import SessionStore
from support.logs import LogBuilder, legal_logs


def lines(index: ExcerptIndex) -> str:
    return excerpts_of(index, 10_000)


async def sourced(
    events: list[Event], stops: set[int], folder: Path
) -> tuple[OriginalEntries, ExcerptIndex]:
    """Return the originals of a source that read the log after this many events and
    again at its end.
    """
    store = await SessionStore.open(folder / "sessions.db")
    try:
        first = events[: min(stops, default=len(events))]
        log = SessionLog(
            store, "s", Context.from_log(await store.create("s", "/shop", (), first))
        )
        source = OriginalEntries(log)
        for place in range(len(first), len(events)):
            if place in stops:
                await source.index()
            await log.append(events[place])
        return source, await source.index()
    finally:
        await store.aclose()


@given(legal_logs(), st.data())
def test_originals_updated_step_by_step_equal_those_read_at_once(
    log: tuple[LoggedEvent, ...], data: st.DataObject
) -> None:
    events = [each.event for each in log]
    stops = data.draw(st.sets(st.integers(2, len(events))), label="looked at after")
    with TemporaryDirectory() as one, TemporaryDirectory() as two:
        source, index = anyio.run(sourced, events, stops, Path(one))
        at_once, whole = anyio.run(sourced, events, set[int](), Path(two))
    assert source.entries == at_once.entries
    assert lines(index) == lines(whole)
    # The originals include all unchanged messages of the context, and no summary.
    context = Context.from_log(log)
    said = [
        entry.seq
        for entry in context.entries
        if not entry.summary and not entry.shortened
    ]
    assert {*said} <= {entry.seq for entry in source.entries}
    assert not any(entry.summary for entry in source.entries)


def texts(source: OriginalEntries) -> list[str]:
    return [
        part.text
        for entry in source.entries
        for part in entry.message.parts
        if isinstance(part, Text)
    ]


def test_a_refused_prompt_removes_originals_and_a_compaction_does_not(
    tmp_path: Path,
) -> None:
    log = LogBuilder()
    log.prompt("Mend the cart.")
    log.step("Mended.")
    log.end()
    log.swap()
    log.prompt("POISON")
    log.refuse()
    source, _ = anyio.run(sourced, list(log.events), {log.head - 1}, tmp_path)
    assert texts(source) == ["Mend the cart.", "Mended."]


def test_after_a_hook_replaced_the_conversation_its_messages_are_the_originals(
    tmp_path: Path,
) -> None:
    log = LogBuilder()
    log.prompt("Mend the cart.")
    log.step("Mended.")
    log.end()
    supplied = (
        UserMessage("u1", (Text("Only this."),)),
        UserMessage("u2", (Text("And this."),)),
    )
    log.add(*replacement_events(supplied, 1_000, 10, log.context))
    assert any(isinstance(event, MessageSupplied) for event in log.events)
    source, _ = anyio.run(sourced, list(log.events), {log.head - 2}, tmp_path)
    assert texts(source) == ["Only this.", "And this."]
    log.restore()
    (tmp_path / "undone").mkdir()
    undone, _ = anyio.run(
        sourced, list(log.events), {log.head - 1}, tmp_path / "undone"
    )
    assert texts(undone)[:2] == ["Mend the cart.", "Mended."]
